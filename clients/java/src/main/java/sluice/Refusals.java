// Remembers refusals by limits, so that a key that has to wait costs no requests meanwhile.
package sluice;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The refusals that are remembered, the oldest first. */
final class Refusals {
  private record Counter(String policy, List<String> key, String plan) {}

  /**
   * @param cost what was asked for; null: the policy's own cost
   * @param untilNanos when it is forgotten
   * @param retryAtNanos when waiting is over, as the gateway said
   */
  private record Refusal(Decision decision, Long cost, long untilNanos, long retryAtNanos) {
    /** Whether a cost is refused too. How an absent cost compares with a given one is known to the gateway alone. */
    boolean covers(Long asked) {
      return cost == null ? asked == null : asked != null && asked >= cost;
    }
  }

  private final long longestNanos;
  private final int most;
  private final Map<Counter, Refusal> remembered = new LinkedHashMap<>();

  Refusals(Options options) {
    longestNanos = options.rememberRefusals().toNanos();
    most = options.maxRemembered();
  }

  /** @return the decision of memory; null if there is none, and the gateway is to be asked */
  Decision find(Check check) {
    if (longestNanos == 0) return null;
    long now = System.nanoTime();
    Refusal refusal;
    synchronized (remembered) {
      if (remembered.isEmpty()) return null;
      Counter counter = counter(check);
      refusal = remembered.get(counter);
      if (refusal == null) return null;
      if (refusal.untilNanos - now <= 0) {
        remembered.remove(counter);
        return null;
      }
    }
    if (!refusal.covers(check.cost())) return null;
    long retryAfter = secondsLeft(refusal.retryAtNanos - now);
    Long resetAfter = refusal.decision.resetAfter();
    if (resetAfter == null) return Decision.ofMemory(refusal.decision, retryAfter, null);
    // Both are counted from the same moment.
    long later = Math.max(0, resetAfter - refusal.decision.retryAfter());
    return Decision.ofMemory(refusal.decision, retryAfter, retryAfter + later);
  }

  /** Rounded up, as the gateway does. */
  private static long secondsLeft(long nanos) {
    long second = TimeUnit.SECONDS.toNanos(1);
    return (nanos + second - 1) / second;
  }

  /**
   * Learns from the gateway's decision of a check.
   *
   * @param sentNanos when it was asked: a slow answer must not prolong a refusal
   */
  void learn(Check check, Decision decision, long sentNanos) {
    if (decision.allowed()) {
      forget(check);
      return;
    }
    Long asked = decision.retryAfter();
    if (asked == null || decision.reason() != null || longestNanos == 0 || most == 0) return;
    // A sum of nanoseconds must not overflow.
    long seconds = Math.min(asked, TimeUnit.DAYS.toSeconds(365));
    // The gateway rounds up: in the last second the check may be allowed.
    long untilWaited = TimeUnit.SECONDS.toNanos(seconds - 1);
    var refusal =
        new Refusal(decision, check.cost(), sentNanos + Math.min(untilWaited, longestNanos), sentNanos + TimeUnit.SECONDS.toNanos(seconds));
    synchronized (remembered) {
      Counter counter = counter(check);
      // What is replaced goes to the end, as the newest.
      remembered.remove(counter);
      if (untilWaited <= 0) return;
      remembered.put(counter, refusal);
      if (remembered.size() > most) {
        var oldest = remembered.keySet().iterator();
        oldest.next();
        oldest.remove();
      }
    }
  }

  void forget(Check check) {
    synchronized (remembered) {
      if (!remembered.isEmpty()) remembered.remove(counter(check));
    }
  }

  private static Counter counter(Check check) {
    return new Counter(check.policy(), check.key(), check.plan());
  }
}
