// Slots that a caller holds until it releases them.
package sluice;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Slots of a limit of concurrency. They are renewed until they are released or lost. */
public final class Hold implements AutoCloseable {
  private static final int TRIES = 3;
  private static final long BETWEEN_TRIES_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** The release that is under way or has freed the slots; null: none, or it gave up. */
  private CompletableFuture<Void> release;

  private final String hold;
  private final Renewal renewal;
  private final HoldRequests requests;

  private Hold(String hold, Renewal renewal, HoldRequests requests) {
    this.hold = hold;
    this.renewal = renewal;
    this.requests = requests;
  }

  static Hold of(String hold, long ttlNanos, HoldRequests requests) {
    var renewal = new Renewal(hold, ttlNanos, requests);
    renewal.start();
    return new Hold(hold, renewal, requests);
  }

  /** Of a call that was allowed because nobody could be asked. */
  static Hold withoutSlots() {
    return new Hold(null, null, null);
  }

  /**
   * Frees the slots. It may be called often. If nobody answers three times, it gives up without an error, because the slots are free after their
   * ttl. If the thread is interrupted, it returns, and the release goes on.
   *
   * @throws SluiceException if the gateway refuses the release, for example because the token has expired
   */
  public void release() {
    try {
      // A copy, so that an interruption does not cancel the release.
      Waiting.block(released().copy(), none -> {});
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** The same without blocking. */
  public CompletableFuture<Void> releaseAsync() {
    CompletableFuture<Void> released = released();
    return requests == null ? released : Waiting.handOut(released.copy(), requests.workers.answers(), none -> {});
  }

  /** The same as {@link #release}. */
  @Override
  public void close() {
    release();
  }

  /**
   * It may be called often, for example to ask {@code lost().isDone()}. All who call it get the same future, so whoever wants to cancel it or to
   * bound its time does so with a {@code copy()}.
   *
   * @return a future that completes when the slots are lost: stop the work, or take new ones. Otherwise it never completes
   */
  public CompletableFuture<Void> lost() {
    return renewal == null ? new CompletableFuture<>() : renewal.lost();
  }

  private synchronized CompletableFuture<Void> released() {
    if (requests == null) return CompletableFuture.completedFuture(null);
    if (release != null) return release;
    requests.underWay.begin();
    release = new CompletableFuture<>();
    free(release);
    return release;
  }

  /** Frees slots of which no caller knows. */
  void abandon() {
    if (requests == null) return;
    requests.underWay.beginAnyway();
    free(new CompletableFuture<>());
  }

  private void free(CompletableFuture<Void> end) {
    renewal.stop();
    end.whenComplete((none, error) -> requests.underWay.end());
    attempt(1, end);
  }

  private void attempt(int number, CompletableFuture<Void> end) {
    requests
        .send("release", hold, Long.MAX_VALUE)
        .whenComplete(
            (answer, error) -> {
              if (error == null) {
                end.complete(null);
                return;
              }
              boolean nobodyAnswered = error instanceof Failure;
              boolean again = nobodyAnswered && number < TRIES;
              if (again && requests.workers.after(BETWEEN_TRIES_NANOS, () -> attempt(number + 1, end)) != null) return;
              giveUp(end);
              if (nobodyAnswered) end.complete(null);
              else end.completeExceptionally(error);
            });
  }

  /** The next release tries again. */
  private synchronized void giveUp(CompletableFuture<Void> end) {
    if (release == end) release = null;
  }
}
