// A limit for the JDK's own HTTP server.
package sluice;

import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/**
 * Asks for each request, and passes on what is allowed. Otherwise it answers with a problem document: 429 of a limit and 403 of a ban or without
 * a key; 503 if nobody could decide and that refuses, or if the turn of the request comes in more than five minutes; 500 if the check is wrong, or
 * the client is closed. It blocks the server's thread for the time of the check, and for the delay of a leaky-bucket, so give the server an executor.
 */
public final class Limit extends Filter {
  private static final System.Logger LOG = System.getLogger("sluice");
  private static final String QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded";
  /** As long as onLimit: delay lets a request wait at a gateway. Whoever sent it has given up by then. */
  private static final double LONGEST_DELAY_SECONDS = 300;
  /** A longer wait is told as a moment. */
  private static final long MOST_PLAIN_SECONDS = 120;
  private static final DateTimeFormatter MOMENT =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss 'UTC'", Locale.ROOT).withZone(ZoneOffset.UTC);

  private final Client client;
  private final Function<HttpExchange, Check> question;

  /** @param question makes the check of a request; null: the request is not limited */
  public Limit(Client client, Function<HttpExchange, Check> question) {
    this.client = client;
    this.question = question;
  }

  @Override
  public String description() {
    return "Sluice";
  }

  @Override
  public void doFilter(HttpExchange exchange, Chain chain) throws IOException {
    Check check = question.apply(exchange);
    if (check != null && !mayPass(exchange, check)) return;
    chain.doFilter(exchange);
  }

  private boolean mayPass(HttpExchange exchange, Check check) throws IOException {
    try {
      Decision decision = client.check(check);
      if (!decision.allowed()) {
        refuse(exchange, decision);
        return false;
      }
      if (decision.delay() == null) return true;
      if (decision.delay() > LONGEST_DELAY_SECONDS) {
        refuseUnchecked(exchange);
        return false;
      }
      Thread.sleep((long) Math.ceil(decision.delay() * 1000));
      return true;
    } catch (SluiceException | IllegalArgumentException | IllegalStateException mistake) {
      LOG.log(System.Logger.Level.ERROR, "policy " + check.policy() + " cannot be checked", mistake);
      answer(exchange, 500, "about:blank", "Limit cannot be checked", "The limit of this request is set up wrongly.", null);
      return false;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while the limit was checked", e);
    }
  }

  private static void refuse(HttpExchange exchange, Decision decision) throws IOException {
    String reason = decision.reason() == null ? "" : decision.reason();
    switch (reason) {
      case "banned":
        answer(exchange, 403, "about:blank", "Banned", "Requests of this client are not served.", null);
        break;
      case "key-missing":
        answer(exchange, 403, "about:blank", "Key missing", "The request lacks an attribute that its policy counts by.", null);
        break;
      case "undecided":
      case "failure":
        refuseUnchecked(exchange);
        break;
      default:
        Long seconds = decision.retryAfter();
        String hint = seconds == null ? "Waiting does not help." : "Try again " + whenIn(seconds) + ".";
        answer(exchange, 429, QUOTA_EXCEEDED, "Quota exceeded", hint, seconds);
    }
  }

  private static void refuseUnchecked(HttpExchange exchange) throws IOException {
    String detail = "The limit of this request cannot be checked at the moment.";
    answer(exchange, 503, "about:blank", "Limit cannot be checked", detail, 1L);
  }

  /** Returns {@code in 7 s} or {@code at 2026-12-02 18:57:34 UTC}, rounded up. */
  private static String whenIn(long seconds) {
    return seconds <= MOST_PLAIN_SECONDS ? "in " + seconds + " s" : "at " + MOMENT.format(Instant.now().plusSeconds(seconds).plusNanos(999_999_999));
  }

  private static void answer(HttpExchange exchange, int status, String type, String title, String detail, Long retryAfter)
      throws IOException {
    Map<String, Object> problem = new LinkedHashMap<>();
    problem.put("type", type);
    problem.put("title", title);
    problem.put("status", status);
    problem.put("detail", detail);
    byte[] body = (JsonWriter.text(problem) + "\n").getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/problem+json");
    if (retryAfter != null) exchange.getResponseHeaders().set("Retry-After", retryAfter.toString());
    boolean hasBody = !exchange.getRequestMethod().equals("HEAD");
    exchange.sendResponseHeaders(status, hasBody ? body.length : -1);
    if (hasBody) exchange.getResponseBody().write(body);
    exchange.close();
  }
}
