// Writes JSON: objects whose fields have a fixed order, because the gateway's tests compare bodies as texts.
package sluice;

import java.util.List;
import java.util.Map;

/** Appends values to a text. */
final class JsonWriter {
  private JsonWriter() {}

  /** @param value null, a Boolean, a Number, a Map with names in their order, a List, or anything else as its text */
  static String text(Object value) {
    var out = new StringBuilder();
    write(out, value);
    return out.toString();
  }

  static void write(StringBuilder out, Object value) {
    if (value == null || value instanceof Boolean || value instanceof Number) {
      out.append(value);
    } else if (value instanceof Map<?, ?> members) {
      char before = '{';
      for (var member : members.entrySet()) {
        out.append(before);
        writeString(out, member.getKey().toString());
        out.append(':');
        write(out, member.getValue());
        before = ',';
      }
      out.append(members.isEmpty() ? "{}" : "}");
    } else if (value instanceof List<?> items) {
      char before = '[';
      for (Object item : items) {
        out.append(before);
        write(out, item);
        before = ',';
      }
      out.append(items.isEmpty() ? "[]" : "]");
    } else {
      writeString(out, value.toString());
    }
  }

  private static void writeString(StringBuilder out, String text) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || isAlone(text, i)) {
        // In UTF-8, half of a pair of surrogates would become "?".
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  /** @return whether it has no half of a pair of surrogates */
  static boolean isUnicode(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (isAlone(text, i)) return false;
    }
    return true;
  }

  private static boolean isAlone(String text, int i) {
    char c = text.charAt(i);
    if (Character.isHighSurrogate(c)) return i + 1 == text.length() || !Character.isLowSurrogate(text.charAt(i + 1));
    return Character.isLowSurrogate(c) && (i == 0 || !Character.isHighSurrogate(text.charAt(i - 1)));
  }
}
