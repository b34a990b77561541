// Tests that whatever answers in a gateway's place takes no connection from the program.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.soon;
import static sluice.Expect.test;
import static sluice.Expect.that;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/** Needs no arguments. */
final class NoHttpTest {
  private NoHttpTest() {}

  private static final int CHECKS = 15;
  private static final String ALLOWED = "{\"allowed\":true,\"results\":[{\"policy\":\"p\",\"allowed\":true,\"reason\":\"off\"}]}";
  private static final String HTTP = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " + ALLOWED.length() + "\r\n\r\n" + ALLOWED;
  private static final Map<String, String> RUBBISH = new LinkedHashMap<>();

  static {
    RUBBISH.put("another protocol", "SSH-2.0-OpenSSH_9.2\r\n");
    RUBBISH.put("a status that is no number", "HTTP/1.1 abc OK\r\n\r\n");
    RUBBISH.put("a header whose name has a blank", "HTTP/1.1 200 OK\r\nbad name: x\r\ncontent-length: 2\r\n\r\n{}");
    RUBBISH.put("a header whose value has a NUL", "HTTP/1.1 200 OK\r\na: x\0y\r\ncontent-length: 2\r\n\r\n{}");
    RUBBISH.put("a length that is no number", "HTTP/1.1 200 OK\r\ncontent-length: abc\r\n\r\n{}");
    RUBBISH.put("too many interim answers", "HTTP/1.1 102 Processing\r\n\r\n".repeat(9));
    RUBBISH.put("headers of half a MiB", "HTTP/1.1 200 OK\r\n" + ("x-a: " + "v".repeat(1000) + "\r\n").repeat(512) + "\r\n");
  }

  public static void main(String[] args) throws Exception {
    RUBBISH.forEach((kind, rubbish) -> {
      test("no connection stays open after answers that are no HTTP: " + kind, () -> {
        try (var server = new Server(rubbish)) {
          Client client = server.client();
          for (int i = 0; i < CHECKS; i++) same(client.check("p", "k").source(), Source.FAILURE);
          // The client still runs: to close it would close its connections.
          soon("no connection is open", () -> server.open.get() == 0);
          same(server.begun.get(), CHECKS);
          client.close();
        }
      });
      test("at most one stays if what is no HTTP comes on connections that have brought HTTP: " + kind, () -> {
        try (var server = new Server(HTTP, rubbish)) {
          Client client = server.client();
          for (int i = 0; i < CHECKS; i++) {
            same(client.check("p", "k").source(), Source.GATEWAY);
            same(client.check("p", "k").source(), Source.FAILURE);
          }
          soon("at most one connection is open", () -> server.open.get() <= 1);
          same(server.begun.get(), CHECKS);
          client.close();
        }
      });
    });
    Expect.report();
  }

  /** Sends the answers on each connection, one for each request and then the last one again, and never ends a connection itself. */
  private static final class Server implements AutoCloseable {
    final AtomicInteger begun = new AtomicInteger();
    final AtomicInteger open = new AtomicInteger();
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final String[] answers;

    Server(String... answers) throws IOException {
      this.answers = answers;
      inBackground(() -> {
        while (true) {
          Socket socket = listener.accept();
          begun.incrementAndGet();
          open.incrementAndGet();
          inBackground(() -> serve(socket));
        }
      });
    }

    Client client() {
      String url = "http://127.0.0.1:" + listener.getLocalPort();
      return Client.builder(url, "t").deadline(Duration.ofSeconds(20)).retryAfterFailure(Duration.ZERO).build();
    }

    private void serve(Socket socket) throws IOException {
      try (socket) {
        InputStream in = socket.getInputStream();
        for (int i = 0; readsRequest(in); i++) {
          String answer = answers[Math.min(i, answers.length - 1)];
          socket.getOutputStream().write(answer.getBytes(StandardCharsets.US_ASCII));
        }
      } finally {
        open.decrementAndGet();
      }
    }

    /** @return false if the client has ended the connection */
    private static boolean readsRequest(InputStream in) throws IOException {
      var request = new StringBuilder();
      while (!request.toString().endsWith("]}]}")) {
        int next = in.read();
        if (next == -1) return false;
        request.append((char) next);
      }
      return true;
    }

    private static void inBackground(Expect.Body body) {
      var thread = new Thread(() -> {
        try {
          body.run();
        } catch (Exception e) {
          // The client or the test has ended the connection.
        }
      });
      thread.setDaemon(true);
      thread.start();
    }

    @Override
    public void close() throws IOException {
      listener.close();
    }
  }
}
