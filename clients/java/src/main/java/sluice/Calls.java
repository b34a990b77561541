// The calls as they go to the gateway: what each sends and how its answer is read.
package sluice;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Starts calls, and returns the client's own futures of their answers. */
final class Calls {
  final Workers workers;
  private final Options options;
  private final Exchange exchange;
  private final Refusals refusals;
  private final Batches batches;
  private final Single single;
  private final HoldRequests holds;
  private final UnderWay underWay = new UnderWay(this::stop);

  Calls(Options options) {
    this.options = options;
    workers = new Workers(options);
    exchange = new Exchange(options, workers);
    refusals = new Refusals(options);
    var pause = new Pause(options);
    batches = new Batches(options, workers, exchange, pause, refusals);
    single = new Single(options, workers, exchange, pause, batches, underWay);
    holds = new HoldRequests(options, workers, exchange, underWay);
  }

  CompletableFuture<Decision> check(Check check) {
    if (check.onlyLooks()) return look("check", check);
    Call<Decision> call = start("check", check, Kinds.one(check.policy()));
    batches.ask(check, call);
    return call.future;
  }

  CompletableFuture<Decisions> checkAll(List<Check> checks) {
    List<Check> asked = List.copyOf(checks);
    String policy = asked.isEmpty() ? null : asked.get(0).policy();
    Call<Decisions> call = start("checkAll", policy, Kinds.all(asked));
    for (int i = 0; i < asked.size(); i++) requireUnicode(call, asked.get(i), "checks[" + i + "].");
    List<Object> fields = new ArrayList<>();
    for (Check check : asked) fields.add(check.onlyLooks() ? check.fieldsOfLook() : check.fields());
    single.ask(call, "check", Map.of("checks", fields), asked.size(), 0, answer -> Answers.checks(answer, asked), none -> {});
    return call.future;
  }

  CompletableFuture<Decision> peek(Check check) {
    return look("peek", check);
  }

  CompletableFuture<Decision> report(Check check) {
    Call<Decision> call = start("report", check, Kinds.report(check.policy()));
    Map<String, Object> fields = check.fields();
    fields.put("report", true);
    single.ask(call, "check", only(fields), 1, 0, answer -> Answers.report(answer, check), none -> {});
    return call.future;
  }

  CompletableFuture<Decision> acquire(Check check, Duration maxWait) {
    Call<Decision> call = start("acquire", check, Kinds.one(check.policy()));
    Map<String, Object> fields = check.fields();
    long waitMs = waitMs(call, maxWait);
    fields.put("maxWait", waitMs + "ms");
    single.ask(
        call,
        "check",
        only(fields),
        1,
        waitMs,
        answer -> {
          Decision decision = Answers.only(answer, check);
          if (decision.allowed()) refusals.forget(check);
          return decision;
        },
        none -> {});
    return call.future;
  }

  /** @param maxWait null: not at all */
  CompletableFuture<Held> hold(Slots slots, Duration maxWait) {
    Check check = slots.check();
    Call<Held> call = start("hold", check, Kinds.hold(check.policy()));
    Map<String, Object> fields = slots.fields();
    long waitMs = maxWait == null ? 0 : waitMs(call, maxWait);
    if (maxWait != null) fields.put("maxWait", waitMs + "ms");
    single.ask(call, "hold", fields, 1, waitMs, answer -> held(answer, check), Held::abandon);
    return call.future;
  }

  /** Calls and releases that are under way end as usual. */
  void close() {
    underWay.close();
  }

  private CompletableFuture<Decision> look(String name, Check check) {
    Call<Decision> call = start(name, check, Kinds.one(check.policy()));
    single.ask(call, "check", only(check.fieldsOfLook()), 1, 0, answer -> Answers.only(answer, check), none -> {});
    return call.future;
  }

  private <T> Call<T> start(String name, Check check, Call.Kind<T> kind) {
    Call<T> call = start(name, check.policy(), kind);
    requireUnicode(call, check, "");
    return call;
  }

  private <T> Call<T> start(String name, String policy, Call.Kind<T> kind) {
    var call = new Call<>(name, policy, kind, options);
    underWay.beginAnyway();
    call.future.whenComplete((answer, error) -> underWay.end());
    if (underWay.isClosed()) throw refused(call, new IllegalStateException("the client is closed"));
    return call;
  }

  private void stop() {
    workers.stop();
    exchange.close();
  }

  private Held held(Map<?, ?> answer, Check check) throws Failure {
    Decision decision = Answers.decision(answer, check.policy());
    if (!decision.allowed()) return new Held(decision, null);
    return new Held(decision, Hold.of(Answers.hold(answer), Answers.ttlNanos(answer), holds));
  }

  private static void requireUnicode(Call<?> call, Check check, String path) {
    try {
      check.requireUnicode(path);
    } catch (IllegalArgumentException wrong) {
      throw refused(call, wrong);
    }
  }

  private static long waitMs(Call<?> call, Duration maxWait) {
    boolean isRight =
        maxWait != null
            && maxWait.compareTo(Duration.ofMillis(1)) >= 0
            && maxWait.compareTo(Duration.ofSeconds(60)) <= 0;
    if (!isRight) throw refused(call, Options.wrong("maxWait", "a duration of 1 ms to 60 s", maxWait));
    return maxWait.toMillis();
  }

  private static RuntimeException refused(Call<?> call, RuntimeException error) {
    call.refuse(error, 0);
    return error;
  }

  private static Map<String, Object> only(Map<String, Object> check) {
    Map<String, Object> body = new LinkedHashMap<>();
    body.put("checks", List.of(check));
    return body;
  }
}
