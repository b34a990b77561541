// One call from its start to its end: it has one decision or one error, and one event.
package sluice;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/** A call that is under way. Whoever settles it first decides; whoever comes later hears false. */
final class Call<T> {
  /** What an answer of this kind says in an event, and what it is under onFailure. */
  interface Kind<T> {
    boolean allowed(T answer);

    Source source(T answer);

    T ofFailure(OnFailure onFailure, Failure failure);
  }

  final CompletableFuture<T> future = new CompletableFuture<>();
  private final String name;
  private final String policy;
  private final Kind<T> kind;
  private final Options options;
  private final long startNanos = System.nanoTime();
  private final AtomicBoolean settled = new AtomicBoolean();
  private volatile ScheduledFuture<?> timer;

  Call(String name, String policy, Kind<T> kind, Options options) {
    this.name = name;
    this.policy = policy;
    this.kind = kind;
    this.options = options;
    future.whenComplete(
        (answer, error) -> {
          // A caller that goes away gets no event: nobody decided.
          if (future.isCancelled() && settled.compareAndSet(false, true)) cancelTimer();
        });
  }

  boolean isSettled() {
    // A future that was cancelled is done before the call hears of it.
    return settled.get() || future.isDone();
  }

  /** Runs the task if the caller goes away. */
  void whenCancelled(Runnable task) {
    future.whenComplete(
        (answer, error) -> {
          if (future.isCancelled()) task.run();
        });
  }

  /** Has the task run if nobody settles the call within this time from its start. */
  void expire(Workers workers, long nanos, Runnable task) {
    timer = workers.after(nanos - (System.nanoTime() - startNanos), task);
    if (settled.get()) cancelTimer();
  }

  /** @param batch the number of checks in its request; 0 without a request */
  boolean decide(T answer, int batch) {
    if (future.isDone() || !settled.compareAndSet(false, true)) return false;
    cancelTimer();
    tell(kind.allowed(answer) ? Event.Outcome.ALLOWED : Event.Outcome.REFUSED, kind.source(answer), batch);
    return future.complete(answer);
  }

  boolean fail(Failure failure, int batch) {
    return decide(kind.ofFailure(options.onFailure(), failure), batch);
  }

  boolean refuse(RuntimeException error, int batch) {
    if (future.isDone() || !settled.compareAndSet(false, true)) return false;
    cancelTimer();
    tell(Event.Outcome.ERROR, null, batch);
    return future.completeExceptionally(error);
  }

  private void cancelTimer() {
    ScheduledFuture<?> set = timer;
    if (set != null) set.cancel(false);
  }

  private void tell(Event.Outcome outcome, Source source, int batch) {
    if (options.onEvent() == null) return;
    double seconds = (System.nanoTime() - startNanos) / 1e9;
    try {
      options.onEvent().accept(new Event(name, policy, outcome, source, seconds, batch));
    } catch (Throwable ignored) {
      // A hook that throws changes nothing, least of all that the caller gets its decision.
    }
  }
}
