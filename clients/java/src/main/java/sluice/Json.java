// Reads JSON of others: strict, of bounded depth, and without duplicate names, so that an answer has one meaning or none.
package sluice;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Objects become Maps, lists Lists, whole numbers Longs, other numbers Doubles, and null stays null. */
final class Json {
  /** An answer is three levels deep. The reader calls itself for each level, so without a bound a text could exhaust the stack. */
  static final int MAX_DEPTH = 32;

  /** What is wrong with a text, and where. */
  static final class Malformed extends Exception {
    private static final long serialVersionUID = 1;

    Malformed(String message) {
      super(message, null, false, false);
    }
  }

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object read(byte[] utf8) throws Malformed {
    try {
      var decoder = StandardCharsets.UTF_8.newDecoder();
      decoder.onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT);
      return read(decoder.decode(ByteBuffer.wrap(utf8)).toString());
    } catch (CharacterCodingException e) {
      throw new Malformed("the text is not UTF-8");
    }
  }

  static Object read(String text) throws Malformed {
    var json = new Json(text);
    Object value = json.value(0);
    json.skipBlanks();
    if (json.at < text.length()) throw json.wrong("the end");
    return value;
  }

  private Object value(int depth) throws Malformed {
    skipBlanks();
    char first = peek();
    switch (first) {
      case '{':
        return object(depth + 1);
      case '[':
        return list(depth + 1);
      case '"':
        return string();
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", null);
      default:
        if (first == '-' || isDigit(first)) return number();
        throw wrong("a value");
    }
  }

  private Map<String, Object> object(int depth) throws Malformed {
    enter(depth);
    Map<String, Object> members = new LinkedHashMap<>();
    skipBlanks();
    if (skip('}')) return members;
    do {
      skipBlanks();
      if (peek() != '"') throw wrong("a name");
      String name = string();
      skipBlanks();
      if (!skip(':')) throw wrong("\":\"");
      if (members.containsKey(name)) throw wrong("each name once");
      members.put(name, value(depth));
      skipBlanks();
    } while (skip(','));
    if (!skip('}')) throw wrong("\",\" or \"}\"");
    return members;
  }

  private List<Object> list(int depth) throws Malformed {
    enter(depth);
    List<Object> items = new ArrayList<>();
    skipBlanks();
    if (skip(']')) return items;
    do {
      items.add(value(depth));
      skipBlanks();
    } while (skip(','));
    if (!skip(']')) throw wrong("\",\" or \"]\"");
    return items;
  }

  private void enter(int depth) throws Malformed {
    if (depth > MAX_DEPTH) throw wrong("at most " + MAX_DEPTH + " levels");
    at++;
  }

  private String string() throws Malformed {
    at++;
    int start = at;
    // Most texts have no escape, and are a part of the whole.
    while (at < text.length()) {
      char c = text.charAt(at);
      if (c == '"') return text.substring(start, at++);
      if (c == '\\') break;
      if (c < ' ') throw wrong("no control character");
      at++;
    }
    var unescaped = new StringBuilder(text.substring(start, at));
    while (at < text.length()) {
      char c = text.charAt(at++);
      if (c == '"') return unescaped.toString();
      if (c < ' ') throw wrong("no control character");
      unescaped.append(c == '\\' ? escaped() : c);
    }
    throw wrong("a quote");
  }

  private char escaped() throws Malformed {
    char c = peek();
    at++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        return c;
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        int code = 0;
        for (int i = 0; i < 4; i++) {
          char digit = peek();
          // Character.digit also knows the digits of other scripts.
          int figure = digit < 128 ? Character.digit(digit, 16) : -1;
          if (figure < 0) throw wrong("four hexadecimal digits");
          code = code * 16 + figure;
          at++;
        }
        return (char) code;
      default:
        throw wrong("an escape");
    }
  }

  private Number number() throws Malformed {
    int start = at;
    skip('-');
    if (!skip('0')) digits();
    boolean whole = true;
    if (skip('.')) {
      whole = false;
      digits();
    }
    if (skip('e') || skip('E')) {
      whole = false;
      if (!skip('+')) skip('-');
      digits();
    }
    String figure = text.substring(start, at);
    if (whole && figure.length() <= 18) return Long.valueOf(figure);
    double value = Double.parseDouble(figure);
    if (Double.isInfinite(value)) throw wrong("a smaller number");
    return value;
  }

  private void digits() throws Malformed {
    if (!isDigit(peek())) throw wrong("a digit");
    while (at < text.length() && isDigit(text.charAt(at))) at++;
  }

  private Object word(String word, Object value) throws Malformed {
    if (!text.startsWith(word, at)) throw wrong("a value");
    at += word.length();
    return value;
  }

  private void skipBlanks() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
  }

  private boolean skip(char expected) {
    if (at >= text.length() || text.charAt(at) != expected) return false;
    at++;
    return true;
  }

  private char peek() throws Malformed {
    if (at >= text.length()) throw wrong("more");
    return text.charAt(at);
  }

  private Malformed wrong(String expected) {
    return new Malformed("expected " + expected + " at character " + at);
  }

  private static boolean isDigit(char c) {
    return c >= '0' && c <= '9';
  }
}
