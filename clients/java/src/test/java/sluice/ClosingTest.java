// Tests that close() lets releases end that are under way, and that no future stays open.
package sluice;

import static sluice.Expect.soon;
import static sluice.Expect.test;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Without a real gateway, which would answer too soon. */
final class ClosingTest {
  private ClosingTest() {}

  private static final FakeGateway.Answer SLOTS =
      FakeGateway.Answer.ok("{\"policy\":\"p\",\"allowed\":true,\"hold\":\"h\",\"ttl\":60}");

  public static void main(String[] args) throws Exception {
    test("a release that is under way at the close ends, also if nobody answers it", () -> {
      try (var gateway = new FakeGateway((path, body) -> path.equals("hold") ? SLOTS : null)) {
        for (boolean blocks : new boolean[] {false, true}) {
          gateway.bodies.clear();
          // Longer than a busy machine takes to answer the hold, without which nothing is released.
          Client client = gateway.client().deadline(Duration.ofMillis(1_500)).build();
          Hold hold = client.hold(Slots.of("p", "k")).hold();
          var released = blocks ? CompletableFuture.runAsync(hold::release) : hold.releaseAsync();
          soon("the release is sent", () -> gateway.bodies.size() >= 2);
          client.close();
          released.get(20, TimeUnit.SECONDS);
        }
      }
    });
    test("slots whose caller went before the close are released", () -> {
      try (var gateway = new FakeGateway(
          (path, body) -> {
            Thread.sleep(300);
            return path.equals("hold") ? SLOTS : FakeGateway.Answer.ok("{}");
          })) {
        Client client = gateway.client().deadline(Duration.ofSeconds(5)).build();
        var leaver = client.holdAsync(Slots.of("p", "k"));
        soon("the call is sent", () -> gateway.bodies.size() == 1);
        leaver.cancel(true);
        client.close();
        soon("the release is sent", () -> gateway.bodies.size() == 2);
      }
    });
    test("a request that is still open at the stop fails, and none begins afterwards", () -> {
      try (var gateway = new FakeGateway((path, body) -> null)) {
        Options options = gateway.client().options();
        var workers = new Workers(options);
        var exchange = new Exchange(options, workers);
        var sent = exchange.post("renew", new byte[0]);
        var waiting = exchange.postWaiting("renew", new byte[0]);
        soon("both are sent", () -> gateway.bodies.size() == 2);
        workers.stop();
        exchange.close();
        for (var reply : new CompletableFuture<?>[] {sent, waiting, exchange.post("renew", new byte[0])}) {
          soon("the reply has failed", reply::isCompletedExceptionally);
        }
      }
    });
    Expect.report();
  }
}
