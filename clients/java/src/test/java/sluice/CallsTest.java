// Tests what calls send and what they do not, and what they make of answers that a real gateway gives seldom.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.soon;
import static sluice.Expect.test;
import static sluice.Expect.that;
import static sluice.Expect.thrown;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Without a real gateway. */
final class CallsTest {
  private CallsTest() {}

  private static final Check CHECK = Check.of("p", "k");
  private static final Slots SLOTS = Slots.of("p", "k");

  public static void main(String[] args) throws Exception {
    var events = new ConcurrentLinkedQueue<Event>();
    Duration wait = Duration.ofSeconds(1);

    test("text that is not valid Unicode is an error at once, with its event and without a request", () -> {
      try (var gateway = new FakeGateway((path, body) -> FakeGateway.Answer.allowed())) {
        Client client = gateway.client().onEvent(events::add).build();
        Check half = Check.of("p", "k", "a\ud83db");
        String said = "key[1]: expected valid Unicode, got \"a\\ud83db\"";
        List<Expect.Body> calls = List.of(() -> client.check(half), () -> client.checkAsync(half), () -> client.peek(half),
            () -> client.report(half), () -> client.acquire(half, wait), () -> client.hold(Slots.of("p", "k", "a\ud83db")));
        for (var call : calls) same(thrown(IllegalArgumentException.class, call).getMessage(), said);
        same(thrown(IllegalArgumentException.class, () -> client.checkAll(List.of(CHECK, half))).getMessage(), "checks[1]." + said);
        thrown(IllegalArgumentException.class, () -> client.check("\ude00"));
        thrown(IllegalArgumentException.class, () -> client.check(CHECK.withPlan("\ude00\ud83d")));
        same(events.stream().filter(event -> event.outcome() == Event.Outcome.ERROR && event.batch() == 0).count(), 9L);
        same(gateway.bodies.size(), 0);
        that(client.check("p", "\ud83d\ude00").allowed(), "a whole pair");
        client.close();
      }
    });
    test("a slow answer does not prolong the memory of a refusal", () -> {
      String refusal = "{\"policy\":\"p\",\"allowed\":false,\"limit\":1,\"remaining\":0,\"retryAfter\":2,\"resetAfter\":2}";
      try (var gateway = new FakeGateway((path, body) -> {
            Thread.sleep(1200);
            return FakeGateway.Answer.ok("{\"allowed\":false,\"results\":[" + refusal + "]}");
          })) {
        Client client = gateway.client().deadline(Duration.ofSeconds(10)).build();
        for (int i = 0; i < 2; i++) same(client.check(CHECK).source(), Source.GATEWAY);
        client.close();
      }
    });
    test("only a problem document is the caller's mistake", () -> {
      for (String type : List.of("application/json", "text/html", "application/problem+json", "Application/Problem+JSON; charset=utf-8")) {
        try (var gateway = new FakeGateway((path, body) -> new FakeGateway.Answer(400, type, "{\"code\":\"wrong\"}"))) {
          Client client = gateway.client().deadline(Duration.ofSeconds(10)).build();
          if (type.toLowerCase().contains("problem")) same(thrown(SluiceException.class, () -> client.check(CHECK)).code(), "wrong");
          else same(client.check(CHECK).source(), Source.FAILURE);
          client.close();
        }
      }
    });
    test("a thread that is interrupted already sends nothing, and there is no event", () -> {
      try (var gateway = new FakeGateway((path, body) -> FakeGateway.Answer.allowed())) {
        events.clear();
        Client client = gateway.client().onEvent(events::add).build();
        List<Expect.Body> calls = List.of(() -> client.check(CHECK), () -> client.peek(CHECK), () -> client.checkAll(List.of(CHECK)),
            () -> client.report(CHECK), () -> client.acquire(CHECK, wait), () -> client.hold(SLOTS), () -> client.hold(SLOTS, wait));
        for (var call : calls) {
          Thread.currentThread().interrupt();
          thrown(InterruptedException.class, call);
          that(!Thread.interrupted(), "no interruption left");
        }
        client.check(CHECK);
        same(gateway.bodies.size(), 1);
        same(events.size(), 1);
        client.close();
      }
    });
    test("a call that is cancelled makes no event", () -> {
      try (var gateway = new FakeGateway((path, body) -> null)) {
        events.clear();
        Client client = gateway.client().deadline(Duration.ofMillis(2_000)).onEvent(events::add).build();
        List<CompletableFuture<?>> calls = List.of(client.checkAsync(CHECK), client.checkAllAsync(List.of(CHECK)), client.peekAsync(CHECK),
            client.reportAsync(CHECK), client.acquireAsync(CHECK, wait), client.holdAsync(SLOTS));
        soon("all are sent", () -> gateway.bodies.size() == 6);
        calls.forEach(call -> call.cancel(true));
        // Until after the deadline. A busy machine has sent all before it.
        Thread.sleep(2_300);
        same(events.size(), 0);
        client.close();
      }
    });
    Expect.report();
  }
}
