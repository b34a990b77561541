// The program by which tests control this client: JSON lines in, JSON lines out. clients/README.md says what they are. It is in the client's
// package, so that it reads and writes JSON with the client's own reader and writer.
package sluice;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Reads a line, does what it says, and answers it. */
public final class Driver {
  private final List<Event> events = new ArrayList<>();
  private Client client;
  private DriverCalls calls;

  private Driver() {}

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    var driver = new Driver();
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(JsonWriter.text(driver.answer(line)));
    }
  }

  private Object answer(String line) {
    try {
      if (!(Json.read(line) instanceof Map<?, ?> order)) throw new IllegalArgumentException("the line is not an object");
      if (order.get("client") instanceof Map<?, ?> options) {
        open(options);
        return Map.of("ok", true);
      }
      if (order.get("do") instanceof List<?> todo) return Map.of("results", all(todo));
      if (order.get("load") instanceof Map<?, ?> load) return new DriverLoad(client, load).run();
      if (order.containsKey("events")) return Map.of("events", newEvents());
      throw new IllegalArgumentException("no such order: " + line);
    } catch (Exception e) {
      if (!(e instanceof IllegalArgumentException)) e.printStackTrace();
      return Map.of("error", String.valueOf(e.getMessage()));
    }
  }

  private void open(Map<?, ?> options) {
    if (client != null) client.close();
    newEvents();
    var builder = Client.builder((String) options.get("url"), (String) options.get("token"));
    options.forEach((name, value) -> set(builder, (String) name, value));
    client = builder.onEvent(this::keep).build();
    calls = new DriverCalls(client);
  }

  private static void set(ClientBuilder builder, String name, Object value) {
    switch (name) {
      case "url":
      case "token":
        break;
      case "deadlineMs":
        builder.deadline(Duration.ofMillis(whole(name, value)));
        break;
      case "onFailure":
        if (!List.of("allow", "deny").contains(value)) throw Options.wrong(name, "allow or deny", value);
        builder.onFailure(value.equals("allow") ? OnFailure.ALLOW : OnFailure.DENY);
        break;
      case "maxBatch":
        builder.maxBatch((int) whole(name, value));
        break;
      case "maxInFlight":
        builder.maxInFlight((int) whole(name, value));
        break;
      case "rememberRefusalsMs":
        builder.rememberRefusals(Duration.ofMillis(whole(name, value)));
        break;
      case "maxRemembered":
        builder.maxRemembered((int) whole(name, value));
        break;
      case "retryAfterFailureMs":
        builder.retryAfterFailure(Duration.ofMillis(whole(name, value)));
        break;
      case "caFile":
        builder.trust(Path.of((String) value));
        break;
      default:
        throw new IllegalArgumentException("no such option: " + name);
    }
  }

  private static long whole(String name, Object value) {
    if (value instanceof Long number) return number;
    throw Options.wrong(name, "an integer", JsonWriter.text(value));
  }

  /** Starts all calls in their order, and waits for all. */
  private List<Object> all(List<?> todo) {
    List<CompletableFuture<Object>> started = new ArrayList<>();
    for (Object call : todo) started.add(calls.start((Map<?, ?>) call));
    List<Object> results = new ArrayList<>();
    for (var future : started) results.add(future.join());
    return results;
  }

  private void keep(Event event) {
    synchronized (events) {
      events.add(event);
    }
  }

  private List<Object> newEvents() {
    synchronized (events) {
      List<Object> told = new ArrayList<>();
      for (Event event : events) told.add(DriverResults.event(event));
      events.clear();
      return told;
    }
  }
}
