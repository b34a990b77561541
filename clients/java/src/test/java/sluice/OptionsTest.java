// Tests that a wrong option is an error at once, which names the option, what was expected and what came.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.test;
import static sluice.Expect.that;
import static sluice.Expect.thrown;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Tests of the options and of the arguments of calls. */
final class OptionsTest {
  private OptionsTest() {}

  private static ClientBuilder builder() {
    return Client.builder("http://127.0.0.1:1", "t");
  }

  private static String message(Expect.Body body) throws Exception {
    return thrown(IllegalArgumentException.class, body).getMessage();
  }

  public static void main(String[] args) {
    test("refuses every URL but scheme, host and port", () -> {
      for (String url : Arrays.asList(null, "", "gateway", "gateway:8079", "ftp://a:1", "http://", "http://a:0", "http://a:65536", "http://a:b", "http://a/x", "http://a?x",
          "http://a#x", "http://u@a", "http://a b", "unix:/run/sluice", "http:a")) {
        String message = message(() -> Client.builder(url, "t"));
        that(message.startsWith("url: expected http://HOST:PORT or https://HOST:PORT"), "the option, got " + message);
        that(message.endsWith(", got " + url), "what came, got " + message);
      }
      for (String url : List.of("http://a", "https://a:8079", "http://[::1]:8079/", "HTTP://127.0.0.1:1")) Client.builder(url, "t");
    });
    test("refuses tokens that no header can carry, and never shows them", () -> {
      for (String token : List.of("s3cret token", "s3cret\r\nx: y", "s3crét", " s3cret")) {
        String message = message(() -> Client.builder("http://a", token));
        that(message.startsWith("token: expected a caller token"), "the option, got " + message);
        that(!message.contains("s3cr"), "no token in " + message);
      }
      same(message(() -> Client.builder("http://a", "")), "token: expected a caller token, without blanks, got an empty text");
    });
    test("refuses every other wrong option", () -> {
      Map<String, Expect.Body> wrong = new LinkedHashMap<>();
      wrong.put("deadline: expected a duration of 1 ms to 1 day, got PT0S", () -> builder().deadline(Duration.ZERO).build());
      wrong.put("deadline: expected a duration of 1 ms to 1 day, got null", () -> builder().deadline(null).build());
      wrong.put("onFailure: expected ALLOW or DENY, got null", () -> builder().onFailure(null).build());
      wrong.put("maxBatch: expected an integer of 1 to 100, got 101", () -> builder().maxBatch(101).build());
      wrong.put("maxBatch: expected an integer of 1 to 100, got 0", () -> builder().maxBatch(0).build());
      wrong.put("maxInFlight: expected an integer of 1 to 1000, got 0", () -> builder().maxInFlight(0).build());
      wrong.put("rememberRefusals: expected a duration of 0 ms to 1 day, got PT-1S", () -> builder().rememberRefusals(Duration.ofSeconds(-1)).build());
      wrong.put("maxRemembered: expected an integer of 0 to 100000000, got -1", () -> builder().maxRemembered(-1).build());
      wrong.put("retryAfterFailure: expected a duration of 0 ms to 1 day, got PT48H", () -> builder().retryAfterFailure(Duration.ofDays(2)).build());
      for (var each : wrong.entrySet()) same(message(each.getValue()), each.getKey());
      that(message(() -> builder().trust(Path.of("/no/such/file"))).startsWith("trust: expected a PEM file with at least one certificate, got /no/such/file"), "the file");
      that(message(() -> builder().trust(Path.of("/dev/null"))).startsWith("trust: expected a PEM file with at least one certificate, got /dev/null"), "the file");
    });
    test("refuses a wait that the gateway would not accept, a ttl of no time, and keys of null", () -> {
      try (Client client = builder().build()) {
        for (Duration wait : Arrays.asList(null, Duration.ZERO, Duration.ofNanos(999_999), Duration.ofSeconds(60).plusNanos(1))) {
          same(message(() -> client.acquire(Check.of("p", "k"), wait)), "maxWait: expected a duration of 1 ms to 60 s, got " + wait);
        }
        for (Duration ttl : Arrays.asList(null, Duration.ZERO, Duration.ofNanos(999_999), Duration.ofSeconds(Long.MAX_VALUE))) {
          same(message(() -> Slots.of("p", "k").withTtl(ttl)), "ttl: expected a duration of at least 1 ms, got " + ttl);
        }
        thrown(NullPointerException.class, () -> client.check("p", (String) null));
        thrown(NullPointerException.class, () -> Slots.of("p", (String) null));
      }
    });
    test("refuses calls of a closed client", () -> {
      Client client = builder().build();
      client.close();
      client.close();
      same(thrown(IllegalStateException.class, () -> client.check("p")).getMessage(), "the client is closed");
      same(thrown(IllegalStateException.class, () -> client.holdAsync(Slots.of("p"))).getMessage(), "the client is closed");
    });
    Expect.report();
  }
}
