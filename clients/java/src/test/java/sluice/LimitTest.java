// Tests the filter in the JDK's own HTTP server, with a real gateway, and with none.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.test;
import static sluice.Expect.that;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;

/** Arguments: the gateway's URL and a caller token. */
final class LimitTest {
  private LimitTest() {}

  private static final HttpClient BROWSER = HttpClient.newHttpClient();

  public static void main(String[] args) throws Exception {
    Client client = Client.builder(args[0], args[1]).deadline(Duration.ofSeconds(10)).build();
    String closed;
    try (var unused = new ServerSocket(0)) {
      closed = "http://127.0.0.1:" + unused.getLocalPort();
    }
    Client open = Client.builder(closed, "t").build();
    Client shut = Client.builder(closed, "t").onFailure(OnFailure.DENY).build();
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setExecutor(Executors.newFixedThreadPool(2));
    serve(server, "/limited", client);
    serve(server, "/open", open);
    serve(server, "/shut", shut);
    Client gone = Client.builder(closed, "t").build();
    gone.close();
    serve(server, "/gone", gone);
    server.start();
    String url = "http://127.0.0.1:" + server.getAddress().getPort();

    test("passes what the limit allows, and answers 429 with Retry-After and a problem document beyond it", () -> {
      for (int i = 0; i < 2; i++) {
        var answer = get(url + "/limited?two=ann");
        same(answer.statusCode(), 200);
        same(answer.body(), "served");
      }
      Instant asked = Instant.now();
      var refused = get(url + "/limited?two=ann");
      same(refused.statusCode(), 429);
      same(refused.headers().firstValue("content-type").orElse(""), "application/problem+json");
      long seconds = Long.parseLong(refused.headers().firstValue("retry-after").orElse("0"));
      that(seconds > 3000 && seconds <= 3600, "about an hour, got " + seconds);
      var problem = new HashMap<Object, Object>((Map<?, ?>) Json.read(refused.body()));
      // The text has whole seconds, rounded up, and the answer came a little while ago.
      String detail = (String) problem.remove("detail");
      Instant said = Instant.parse(detail.replaceFirst("^Try again at (\\S+) (\\S+) UTC\\.$", "$1T$2Z"));
      that(!said.isBefore(asked.plusSeconds(seconds)) && said.isBefore(Instant.now().plusSeconds(seconds + 1)), detail);
      same(problem, Map.of("type", "https://iana.org/assignments/http-problem-types#quota-exceeded", "title", "Quota exceeded", "status", 429L));
    });
    test("answers a body that it refuses on a connection that stays usable, and HEAD without a body", () -> {
      var post = HttpRequest.newBuilder(URI.create(url + "/limited?two=ann")).POST(BodyPublishers.ofString("x".repeat(10_000))).build();
      same(BROWSER.send(post, BodyHandlers.ofString()).statusCode(), 429);
      var head = HttpRequest.newBuilder(URI.create(url + "/limited?two=ann")).method("HEAD", BodyPublishers.noBody()).build();
      var answer = BROWSER.send(head, BodyHandlers.ofString());
      same(answer.statusCode() + answer.body(), "429");
      same(get(url + "/limited?two=bob").statusCode(), 200);
    });
    test("answers 403 to who is banned, and to who has no key", () -> {
      problem(get(url + "/limited?two=bad"), 403, "Banned", "");
      problem(get(url + "/limited?two="), 403, "Key missing", "");
    });
    test("does not limit what has no check", () -> same(get(url + "/limited?free=ann").statusCode(), 200));
    test("answers 500 if the policy does not exist, instead of passing everything", () ->
        problem(get(url + "/limited?no-such=ann"), 500, "Limit cannot be checked", ""));
    test("answers 500 if the client is closed", () -> same(get(url + "/gone?two=ann").statusCode(), 500));
    test("waits for the delay of a leaky bucket", () -> {
      long start = System.nanoTime();
      for (int i = 0; i < 3; i++) same(get(url + "/limited?shaped=ann").statusCode(), 200);
      double seconds = (System.nanoTime() - start) / 1e9;
      that(seconds >= 0.35, "at least two delays of 0.2 s, got " + seconds);
    });
    test("passes everything without a gateway, or nothing, as onFailure says", () -> {
      same(get(url + "/open?two=ann").statusCode(), 200);
      problem(get(url + "/shut?two=ann"), 503, "Limit cannot be checked", "1");
    });
    test("serves others after a gateway has said times that no gateway says, or a turn that nobody waits for", () -> {
      try (var gateway = new FakeGateway((path, body) -> strange(body))) {
        serve(server, "/strange", gateway.client().onFailure(OnFailure.DENY).retryAfterFailure(Duration.ZERO).deadline(Duration.ofSeconds(20)).build());
        // More often than the server has threads.
        for (int i = 0; i < 3; i++) {
          problem(get(url + "/strange?retry=999999999999999999"), 503, "Limit cannot be checked", "1");
          problem(get(url + "/strange?delay=1e15"), 503, "Limit cannot be checked", "1");
          problem(get(url + "/strange?delay=301"), 503, "Limit cannot be checked", "1");
        }
        problem(get(url + "/strange?retry=9007199255"), 429, "Quota exceeded", "9007199255");
        same(get(url + "/strange?delay=0.01").statusCode(), 200);
      }
    });
    server.stop(0);
    Expect.report();
  }

  /** The policy says what is strange, and the key how much of it. */
  private static FakeGateway.Answer strange(String body) {
    String amount = body.replaceFirst("^.*\"key\":\\[\"([^\"]*)\".*$", "$1");
    boolean allowed = body.contains("\"delay\"");
    String times = allowed ? "\"retryAfter\":0,\"delay\":" + amount : "\"retryAfter\":" + amount;
    String result = "{\"policy\":\"p\",\"allowed\":" + allowed + ",\"limit\":9,\"remaining\":0,\"resetAfter\":1," + times + "}";
    return FakeGateway.Answer.ok("{\"allowed\":" + allowed + ",\"results\":[" + result + "]}");
  }

  /** The query says the policy and the key. */
  private static void serve(HttpServer server, String path, Client client) {
    var context = server.createContext(path, exchange -> {
      exchange.sendResponseHeaders(200, "served".length());
      exchange.getResponseBody().write("served".getBytes());
      exchange.close();
    });
    context.getFilters().add(new Limit(client, LimitTest::question));
  }

  private static Check question(HttpExchange exchange) {
    String[] query = exchange.getRequestURI().getQuery().split("=", 2);
    return query[0].equals("free") ? null : Check.of(query[0], query[1]);
  }

  private static HttpResponse<String> get(String url) throws Exception {
    return BROWSER.send(HttpRequest.newBuilder(URI.create(url)).build(), BodyHandlers.ofString());
  }

  private static void problem(HttpResponse<String> answer, int status, String title, String retryAfter) throws Exception {
    same(answer.statusCode(), status);
    same(answer.headers().firstValue("content-type").orElse(""), "application/problem+json");
    same(answer.headers().firstValue("retry-after").orElse(""), retryAfter);
    that(Json.read(answer.body()) instanceof Map<?, ?> problem && title.equals(problem.get("title")), title + ", got " + answer.body());
  }
}
