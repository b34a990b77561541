// The client of Sluice's check API: what callers see. Each call has a form that blocks and one that returns a future.
package sluice;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Asks a gateway whether something may happen. A client is made once and used by all threads.
 *
 * <p>A call ends with a decision also if nobody answers: the option onFailure decides then. An exception is the caller's mistake: a SluiceException
 * from the gateway, or an IllegalArgumentException. The forms that block throw InterruptedException when their thread is interrupted, and leave the
 * line in which they waited; so do futures that are cancelled.
 */
public final class Client implements AutoCloseable {
  private final Calls calls;

  Client(Options options) {
    calls = new Calls(options);
  }

  /**
   * @param url http://HOST:PORT or https://HOST:PORT of the gateway's private listener
   * @param token a caller token
   */
  public static ClientBuilder builder(String url, String token) {
    return new ClientBuilder(url, token);
  }

  /** @param key a value for each part of the policy's key */
  public Decision check(String policy, String... key) throws InterruptedException {
    return check(Check.of(policy, key));
  }

  /** Charges the check, if it is allowed. Checks that come at the same time share a request. A check of no units only looks. */
  public Decision check(Check check) throws InterruptedException {
    return Waiting.ask(() -> calls.check(check), none -> {});
  }

  public CompletableFuture<Decision> checkAsync(String policy, String... key) {
    return checkAsync(Check.of(policy, key));
  }

  public CompletableFuture<Decision> checkAsync(Check check) {
    return handOut(calls.check(check));
  }

  /** Charges all checks or none. */
  public Decisions checkAll(List<Check> checks) throws InterruptedException {
    return Waiting.ask(() -> calls.checkAll(checks), none -> {});
  }

  public CompletableFuture<Decisions> checkAllAsync(List<Check> checks) {
    return handOut(calls.checkAll(checks));
  }

  /** Says what a check would hear now, and charges nothing. */
  public Decision peek(Check check) throws InterruptedException {
    return Waiting.ask(() -> calls.peek(check), none -> {});
  }

  public CompletableFuture<Decision> peekAsync(Check check) {
    return handOut(calls.peek(check));
  }

  /** Charges what was used already, also beyond what is left. If it fails, nobody knows whether it was charged. */
  public Decision report(Check check) throws InterruptedException {
    return Waiting.ask(() -> calls.report(check), none -> {});
  }

  public CompletableFuture<Decision> reportAsync(Check check) {
    return handOut(calls.report(check));
  }

  /**
   * Waits in line until it is this caller's turn, and charges the check then.
   *
   * @param maxWait 1 ms to 60 s, in addition to the deadline
   */
  public Decision acquire(Check check, Duration maxWait) throws InterruptedException {
    return Waiting.ask(() -> calls.acquire(check, maxWait), none -> {});
  }

  public CompletableFuture<Decision> acquireAsync(Check check, Duration maxWait) {
    return handOut(calls.acquire(check, maxWait));
  }

  /** Takes slots of a limit of concurrency, if there are any now. */
  public Held hold(Slots slots) throws InterruptedException {
    return Waiting.ask(() -> calls.hold(slots, null), Held::abandon);
  }

  /** @param maxWait 1 ms to 60 s for which it waits in line, in addition to the deadline */
  public Held hold(Slots slots, Duration maxWait) throws InterruptedException {
    return Waiting.ask(() -> calls.hold(slots, maxWait), Held::abandon);
  }

  public CompletableFuture<Held> holdAsync(Slots slots) {
    return Waiting.handOut(calls.hold(slots, null), calls.workers.answers(), Held::abandon);
  }

  /** @param maxWait 1 ms to 60 s for which it waits in line, in addition to the deadline */
  public CompletableFuture<Held> holdAsync(Slots slots, Duration maxWait) {
    return Waiting.handOut(calls.hold(slots, maxWait), calls.workers.answers(), Held::abandon);
  }

  /**
   * Ends idle connections and the client's threads, as soon as calls that are under way have ended. Later calls throw IllegalStateException. Holds
   * are not released, and are no longer renewed.
   */
  @Override
  public void close() {
    calls.close();
  }

  private <T> CompletableFuture<T> handOut(CompletableFuture<T> answer) {
    return Waiting.handOut(answer, calls.workers.answers(), none -> {});
  }
}
