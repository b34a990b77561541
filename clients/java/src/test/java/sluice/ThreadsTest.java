// Tests that threads are few, whatever is under way, and that none and no connection is left of a closed client.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.soon;
import static sluice.Expect.test;
import static sluice.Expect.that;

import java.io.InputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Arguments: the gateway's URL and a caller token. */
final class ThreadsTest {
  private ThreadsTest() {}

  public static void main(String[] args) throws Exception {
    ClientBuilder builder = Client.builder(args[0], args[1]).deadline(Duration.ofSeconds(20));

    test("hundreds of calls that wait in line share a few daemon threads", () -> {
      Client client = builder.build();
      Slots slots = Slots.of("slots", "crowd");
      Held held = client.hold(slots);
      List<CompletableFuture<Held>> waiting = new ArrayList<>();
      for (int i = 0; i < 300; i++) waiting.add(client.holdAsync(slots, Duration.ofSeconds(30)));
      for (int i = 0; i < 300; i++) client.checkAsync("many", "crowd").get(20, TimeUnit.SECONDS);
      List<Thread> own = own();
      that(own.size() <= 20, "at most 20 threads, got " + own.size() + ": " + own);
      for (Thread thread : own) that(thread.isDaemon(), "a daemon: " + thread);
      waiting.forEach(each -> each.cancel(true));
      held.close();
      client.close();
      soon("no thread is left", () -> own().isEmpty());
    });
    test("a closed client lets its calls end, and then leaves no thread", () -> {
      Client client = builder.build();
      Held held = client.hold(Slots.of("slots", "closing"));
      var last = client.acquireAsync(Check.of("paced", "closing"), Duration.ofSeconds(5));
      var next = client.acquireAsync(Check.of("paced", "closing"), Duration.ofSeconds(5));
      client.close();
      that(last.get(20, TimeUnit.SECONDS).allowed() && next.get(20, TimeUnit.SECONDS).allowed(), "both allowed");
      soon("no thread is left", () -> own().isEmpty());
      that(!held.hold().lost().isDone(), "a hold that nobody knows to be lost");
    });
    test("a closed client closes its idle connections at once", () -> {
      try (var server = new ServerSocket(0)) {
        Client client = Client.builder("http://127.0.0.1:" + server.getLocalPort(), "t").deadline(Duration.ofSeconds(20)).build();
        var answer = client.checkAsync("p", "k");
        try (Socket socket = server.accept()) {
          InputStream in = socket.getInputStream();
          socket.setSoTimeout(10_000);
          var request = new StringBuilder();
          while (!request.toString().endsWith("]}]}")) request.append((char) in.read());
          String body = "{\"allowed\":true,\"results\":[{\"policy\":\"p\",\"allowed\":true,\"reason\":\"off\"}]}";
          String head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + body.length() + "\r\n\r\n";
          socket.getOutputStream().write((head + body).getBytes(StandardCharsets.US_ASCII));
          same(answer.get(10, TimeUnit.SECONDS).reason(), "off");
          client.close();
          same(in.read(), -1);
        }
      }
      soon("no thread is left", () -> own().isEmpty());
    });
    Expect.report();
  }

  /** Also those of the JDK's HTTP client. */
  private static List<Thread> own() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().matches("(sluice|HttpClient)-.*"))
        .toList();
  }
}
