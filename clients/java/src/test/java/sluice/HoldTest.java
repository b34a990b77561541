// Tests what callers hear of a loss, and that asking for it costs no memory.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.test;
import static sluice.Expect.that;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** Needs no arguments. */
final class HoldTest {
  private HoldTest() {}

  public static void main(String[] args) throws Exception {
    test("a million questions whether a hold is lost leave nothing behind", () -> {
      try (var gateway = new FakeGateway((path, body) -> path.equals("hold") ? slots(3600) : null)) {
        Hold hold = take(gateway);
        ask(hold, 1_000);
        long before = usedBytes();
        ask(hold, 1_000_000);
        long grown = usedBytes() - before;
        that(grown < 16 << 20, "fewer than 16 MiB more, got " + grown);
        that(!hold.lost().isDone(), "a hold that is not lost");
      }
    });
    test("all who wait hear of a loss, and a future that a caller has completed is none", () -> {
      // Nobody answers the renewals.
      try (var gateway = new FakeGateway((path, body) -> path.equals("hold") ? slots(2) : null)) {
        Hold hold = take(gateway);
        hold.lost().cancel(true);
        that(!hold.lost().isDone(), "a hold that is not lost");
        hold.lost().copy().complete(null);
        that(!hold.lost().isDone(), "a hold that is not lost");
        var first = hold.lost().thenApply(none -> "stops");
        var second = hold.lost().thenApply(none -> "stops, too");
        same(first.get(20, TimeUnit.SECONDS), "stops");
        same(second.get(20, TimeUnit.SECONDS), "stops, too");
        that(hold.lost().isDone(), "a hold that is lost");
      }
    });
    Expect.report();
  }

  private static FakeGateway.Answer slots(int ttl) {
    return FakeGateway.Answer.ok("{\"policy\":\"p\",\"allowed\":true,\"limit\":1,\"remaining\":0,\"retryAfter\":0,\"resetAfter\":9,\"hold\":\"h\",\"ttl\":" + ttl + "}");
  }

  private static Hold take(FakeGateway gateway) throws InterruptedException {
    return gateway.client().deadline(Duration.ofSeconds(20)).build().hold(Slots.of("p", "k")).hold();
  }

  private static void ask(Hold hold, int times) {
    for (int i = 0; i < times; i++) that(!hold.lost().isDone(), "a hold that is not lost");
  }

  private static long usedBytes() {
    System.gc();
    return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
  }
}
