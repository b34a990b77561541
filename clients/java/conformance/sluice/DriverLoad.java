// Repeats a call by many callers, each on a thread of its own, and measures how long it takes.
package sluice;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** A load of blocking callers. */
final class DriverLoad {
  private final Client client;
  private final int callers;
  private final double seconds;
  private final Map<?, ?> call;
  private final Check check;
  private final long keys;
  private final AtomicLong next = new AtomicLong();

  DriverLoad(Client client, Map<?, ?> load) {
    this.client = client;
    callers = ((Number) load.get("callers")).intValue();
    seconds = ((Number) load.get("seconds")).doubleValue();
    call = (Map<?, ?>) load.get("call");
    check = DriverCalls.check(call);
    keys = load.get("keys") instanceof Number number ? number.longValue() : 1;
  }

  /** What one caller has seen. */
  private static final class Tally {
    long[] nanos = new long[1024];
    int calls;
    long allowed;
    long refused;
    long errors;
    long failures;

    void count(long took) {
      if (calls == nanos.length) nanos = Arrays.copyOf(nanos, 2 * calls);
      nanos[calls++] = took;
    }
  }

  Map<String, Object> run() throws InterruptedException {
    long start = System.nanoTime();
    long end = start + (long) (seconds * 1e9);
    List<Tally> tallies = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < callers; i++) {
      var tally = new Tally();
      tallies.add(tally);
      threads.add(new Thread(() -> repeat(tally, end)));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) thread.join();
    double took = (System.nanoTime() - start) / 1e9;
    long[] sorted = tallies.stream().flatMapToLong(tally -> Arrays.stream(tally.nanos, 0, tally.calls)).sorted().toArray();
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("calls", sorted.length);
    result.put("allowed", tallies.stream().mapToLong(tally -> tally.allowed).sum());
    result.put("refused", tallies.stream().mapToLong(tally -> tally.refused).sum());
    result.put("errors", tallies.stream().mapToLong(tally -> tally.errors).sum());
    result.put("failures", tallies.stream().mapToLong(tally -> tally.failures).sum());
    result.put("seconds", took);
    result.put("p50Ms", quantileMs(sorted, 0.5));
    result.put("p99Ms", quantileMs(sorted, 0.99));
    return result;
  }

  private void repeat(Tally tally, long end) {
    while (System.nanoTime() - end < 0) {
      long start = System.nanoTime();
      try {
        Decision decision = decide(check());
        if (decision.source() == Source.FAILURE) tally.failures++;
        if (decision.allowed()) tally.allowed++;
        else tally.refused++;
      } catch (InterruptedException e) {
        return;
      } catch (RuntimeException e) {
        tally.errors++;
      }
      tally.count(System.nanoTime() - start);
    }
  }

  private Decision decide(Check check) throws InterruptedException {
    switch ((String) call.get("call")) {
      case "check":
        return client.check(check);
      case "peek":
        return client.peek(check);
      case "report":
        return client.report(check);
      case "acquire":
        return client.acquire(check, DriverCalls.maxWait(call));
      case "hold":
        Duration maxWait = call.containsKey("maxWaitMs") ? DriverCalls.maxWait(call) : null;
        try (Held held = maxWait == null ? client.hold(slots(check)) : client.hold(slots(check), maxWait)) {
          return held.decision();
        }
      default:
        throw new IllegalArgumentException("no load of " + call.get("call"));
    }
  }

  /** As the call orders them, of this check's key. */
  private Slots slots(Check check) {
    Map<String, Object> ordered = new LinkedHashMap<>();
    call.forEach((name, value) -> ordered.put((String) name, value));
    ordered.put("key", check.key());
    return DriverCalls.slots(ordered);
  }

  private Check check() {
    if (keys <= 1) return check;
    List<String> key = new ArrayList<>(check.key());
    int last = key.size() - 1;
    key.set(last, key.get(last) + "-" + next.getAndIncrement() % keys);
    return new Check(check.policy(), key, check.cost(), check.plan());
  }

  private static double quantileMs(long[] sorted, double share) {
    if (sorted.length == 0) return 0;
    return sorted[Math.min(sorted.length - 1, (int) (sorted.length * share))] / 1e6;
  }
}
