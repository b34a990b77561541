// The calls that a test orders, made by the asynchronous API, so that all start at once and in their order.
package sluice;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/** Makes calls, and keeps holds by their names. */
final class DriverCalls {
  private final Client client;
  private final Map<String, Hold> holds = new ConcurrentHashMap<>();
  private final Map<String, CompletableFuture<Void>> losses = new HashMap<>();

  DriverCalls(Client client) {
    this.client = client;
  }

  /** @return the result as JSON; never an exception */
  CompletableFuture<Object> start(Map<?, ?> call) {
    CompletableFuture<Object> result;
    try {
      result = call(call);
    } catch (RuntimeException e) {
      result = CompletableFuture.failedFuture(e);
    }
    return result.exceptionally(DriverResults::error);
  }

  private CompletableFuture<Object> call(Map<?, ?> call) {
    switch ((String) call.get("call")) {
      case "check":
        return client.checkAsync(check(call)).thenApply(DriverResults::decision);
      case "peek":
        return client.peekAsync(check(call)).thenApply(DriverResults::decision);
      case "report":
        return client.reportAsync(check(call)).thenApply(DriverResults::decision);
      case "acquire":
        return client.acquireAsync(check(call), maxWait(call)).thenApply(DriverResults::decision);
      case "checkAll":
        List<Check> checks = new ArrayList<>();
        for (Object each : (List<?>) call.get("checks")) checks.add(check((Map<?, ?>) each));
        return client.checkAllAsync(checks).thenApply(DriverResults::decisions);
      case "hold":
        var held = call.containsKey("maxWaitMs") ? client.holdAsync(slots(call), maxWait(call)) : client.holdAsync(slots(call));
        return held.thenApply(answer -> keep((String) call.get("as"), answer));
      case "release":
        return hold(call).releaseAsync().thenApply(none -> Map.of("released", true));
      case "isLost":
        hold(call);
        return CompletableFuture.completedFuture(Map.of("lost", losses.get(call.get("hold")).isDone()));
      default:
        throw new IllegalArgumentException("no such call: " + call.get("call"));
    }
  }

  private static String[] key(Map<?, ?> call) {
    return ((List<?>) call.get("key")).stream().map(String.class::cast).toArray(String[]::new);
  }

  static Check check(Map<?, ?> call) {
    Check check = Check.of((String) call.get("policy"), key(call));
    if (call.get("cost") instanceof Long cost) check = check.withCost(cost);
    return call.get("plan") instanceof String plan ? check.withPlan(plan) : check;
  }

  static Slots slots(Map<?, ?> call) {
    Slots slots = Slots.of((String) call.get("policy"), key(call));
    if (call.get("slots") instanceof Long count) slots = slots.withCount(count);
    if (call.containsKey("ttlMs")) slots = slots.withTtl(time(call, "ttlMs"));
    return call.get("plan") instanceof String plan ? slots.withPlan(plan) : slots;
  }

  static Duration maxWait(Map<?, ?> call) {
    return time(call, "maxWaitMs");
  }

  private static Duration time(Map<?, ?> call, String field) {
    return Duration.ofNanos((long) (((Number) call.get(field)).doubleValue() * 1e6));
  }

  private synchronized Object keep(String name, Held held) {
    if (name != null && held.hold() != null) {
      holds.put(name, held.hold());
      losses.put(name, held.hold().lost());
    }
    Map<String, Object> result = DriverResults.decision(held.decision());
    result.put("holds", held.hold() != null);
    return result;
  }

  private synchronized Hold hold(Map<?, ?> call) {
    Hold hold = holds.get(String.valueOf(call.get("hold")));
    if (hold == null) throw new IllegalArgumentException("no such hold: " + call.get("hold"));
    return hold;
  }
}
