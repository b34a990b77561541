// Tests the reader and the writer of JSON against texts that a broken or hostile server may send.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.test;
import static sluice.Expect.that;
import static sluice.Expect.thrown;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Tests of Json and JsonWriter. */
final class JsonTest {
  private JsonTest() {}

  private static final String[] HOSTILE = {
    "", " ", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{'a':1}", "{\"a\":1 \"b\":2}", "{1:2}",
    "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "1 2", "[] []", "tru", "truer", "True", "nul", "NaN", "Infinity", "-Infinity", "-", "+1", "01", "-01", "1.",
    ".5", "1e", "1e+", "0x10", "1_000", "1e999", "-1e999", "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u\uff11\uff11\uff11\uff11\"",
    "\"\t\"", "\"\n\"", "\"\0\"", "\uff11", "// comment\n1", "/**/1", "\u00a01", "\ufeff1", "[1;2]",
  };

  public static void main(String[] args) {
    test("rejects every text that is not JSON, and says where", () -> {
      for (String text : HOSTILE) {
        String message = thrown(Json.Malformed.class, () -> Json.read(text)).getMessage();
        that(message.matches("(?s)expected .+ at character [0-9]+"), "a place, for " + text + ", got " + message);
      }
    });
    test("bounds how deep a text is, and survives a million levels", () -> {
      String deepest = "[".repeat(Json.MAX_DEPTH) + "]".repeat(Json.MAX_DEPTH);
      that(Json.read(deepest) instanceof List, "a list");
      for (String level : List.of("[", "{\"a\":")) {
        thrown(Json.Malformed.class, () -> Json.read("[" + deepest + "]"));
        thrown(Json.Malformed.class, () -> Json.read(level.repeat(1_000_000)));
      }
    });
    test("rejects bytes that are not UTF-8", () -> {
      byte[][] broken = {{'"', (byte) 0xff, '"'}, {'"', (byte) 0xc0, (byte) 0xaf, '"'}, {'"', (byte) 0xed, (byte) 0xa0, (byte) 0x80, '"'}, {'"', (byte) 0xe2, (byte) 0x82}};
      for (byte[] bytes : broken) thrown(Json.Malformed.class, () -> Json.read(bytes));
    });
    test("rejects what a proxy may put in place of an answer", () -> {
      for (String page : List.of("<html>502</html>", "upstream connect error", "\u001f\u008b\b")) {
        thrown(Json.Malformed.class, () -> Json.read(page.getBytes(StandardCharsets.ISO_8859_1)));
      }
    });
    test("rejects every beginning of a good text", () -> {
      String good = "{\"a\":[1.5,-2e3,true,false,null,\"\\u20ac\\n\"]}";
      Json.read(good);
      for (int i = 0; i < good.length(); i++) {
        String part = good.substring(0, i);
        thrown(Json.Malformed.class, () -> Json.read(part));
      }
    });
    test("reads values of each kind", () -> {
      same(Json.read(" {\"a\" : [ 0 , -1,1.5e2,true,false,null,\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u20ac\\ud83d\\ude00é\" ] , \"b\":{}, \"c\":[] } \r\n"),
          Map.of("a", Arrays.asList(0L, -1L, 150.0, true, false, null, "\"\\/\b\f\n\r\t€😀é"), "b", Map.of(), "c", List.of()));
      same(Json.read("999999999999999999"), 999999999999999999L);
      same(Json.read("9223372036854775808"), 9.223372036854775808e18);
    });
    test("writes texts so that they are read again as they were", () -> {
      var text = new StringBuilder("😀\u2028\u007f");
      for (char c = 0; c < 256; c++) text.append(c);
      same(Json.read(JsonWriter.text(text).getBytes(StandardCharsets.UTF_8)), text.toString());
    });
    test("shows half a pair of surrogates as it is, in messages", () -> {
      same(JsonWriter.text(List.of("\ud83d", "\ude00", "a\ud83db")), "[\"\\ud83d\",\"\\ude00\",\"a\\ud83db\"]");
      same(JsonWriter.text("\ud83d\ude00"), "\"\ud83d\ude00\"");
    });
    Expect.report();
  }
}
