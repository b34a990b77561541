// A gateway that answers as a test says, and keeps what it was asked.
package sluice;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;

/** Each answer may take a while. */
final class FakeGateway implements AutoCloseable {
  /** An answer of the gateway; null: none ever comes. */
  record Answer(int status, String type, String body) {
    static Answer ok(String body) {
      return new Answer(200, "application/json", body);
    }

    static Answer allowed() {
      return ok("{\"allowed\":true,\"results\":[{\"policy\":\"p\",\"allowed\":true,\"limit\":9,\"remaining\":8,\"retryAfter\":0,\"resetAfter\":1}]}");
    }
  }

  /** Says the answer to a path. */
  interface Script {
    Answer answer(String path, String body) throws InterruptedException;
  }

  final List<String> bodies = new CopyOnWriteArrayList<>();
  private final HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);

  FakeGateway(Script script) throws IOException {
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/", exchange -> {
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      bodies.add(body);
      try {
        String path = exchange.getRequestURI().getPath();
        Answer answer = script.answer(path.substring(path.lastIndexOf('/') + 1), body);
        if (answer == null) return;
        byte[] bytes = answer.body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", answer.type);
        exchange.sendResponseHeaders(answer.status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
      } catch (InterruptedException e) {
        throw new IOException(e);
      }
    });
    server.start();
  }

  ClientBuilder client() {
    return Client.builder("http://127.0.0.1:" + server.getAddress().getPort(), "t");
  }

  @Override
  public void close() {
    server.stop(0);
  }
}
