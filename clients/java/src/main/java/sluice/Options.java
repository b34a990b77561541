// The options of a client, checked once: an option that is wrong is an error that names it.
package sluice;

import java.net.URI;
import java.time.Duration;
import java.util.function.Consumer;
import javax.net.ssl.SSLContext;

/** Checked options. */
record Options(
    URI url,
    String token,
    Duration deadline,
    OnFailure onFailure,
    int maxBatch,
    int maxInFlight,
    Duration rememberRefusals,
    int maxRemembered,
    Duration retryAfterFailure,
    Consumer<Event> onEvent,
    SSLContext tls) {

  private static final Duration DAY = Duration.ofDays(1);

  Options {
    range("deadline", deadline, Duration.ofMillis(1));
    if (onFailure == null) throw wrong("onFailure", "ALLOW or DENY", null);
    range("maxBatch", maxBatch, 1, 100);
    range("maxInFlight", maxInFlight, 1, 1000);
    range("rememberRefusals", rememberRefusals, Duration.ZERO);
    range("maxRemembered", maxRemembered, 0, 100_000_000);
    range("retryAfterFailure", retryAfterFailure, Duration.ZERO);
  }

  /** @return scheme, host and port alone */
  static URI checkedUrl(String url) {
    String expected = "http://HOST:PORT or https://HOST:PORT";
    if (url == null) throw wrong("url", expected, null);
    if (url.startsWith("unix:")) throw wrong("url", expected + " (Java's HTTP client has no unix sockets)", url);
    URI uri;
    try {
      uri = new URI(url);
    } catch (java.net.URISyntaxException e) {
      throw wrong("url", expected, url);
    }
    boolean isHttp = "http".equalsIgnoreCase(uri.getScheme()) || "https".equalsIgnoreCase(uri.getScheme());
    boolean isBare = uri.getRawUserInfo() == null && uri.getRawQuery() == null && uri.getRawFragment() == null;
    boolean hasPath = uri.getRawPath() != null && !uri.getRawPath().isEmpty() && !uri.getRawPath().equals("/");
    boolean hasPort = uri.getPort() == -1 || (uri.getPort() > 0 && uri.getPort() < 65536);
    if (!isHttp || !isBare || uri.getHost() == null || hasPath || !hasPort) throw wrong("url", expected, url);
    return uri;
  }

  static String checkedToken(String token) {
    String expected = "a caller token, without blanks";
    if (token == null || token.isEmpty()) throw wrong("token", expected, token == null ? null : "an empty text");
    // The token itself is a secret, and is not in the message.
    boolean isVisible = token.chars().allMatch(c -> c > ' ' && c < 127);
    if (!isVisible) throw wrong("token", expected, "one with blanks or with characters that are not ASCII");
    return token;
  }

  private static void range(String option, Duration value, Duration least) {
    if (value == null || value.compareTo(least) < 0 || value.compareTo(DAY) > 0) {
      throw wrong(option, "a duration of " + least.toMillis() + " ms to 1 day", value);
    }
  }

  private static void range(String option, int value, int least, int most) {
    if (value < least || value > most) throw wrong(option, "an integer of " + least + " to " + most, value);
  }

  static IllegalArgumentException wrong(String option, String expected, Object got) {
    return new IllegalArgumentException(option + ": expected " + expected + ", got " + got);
  }
}
