// Keeps a hold: renews it after a third of its ttl, and says when it is lost.
package sluice;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** The renewals of one hold, until it is released or lost. */
final class Renewal {
  private static final long SHORTEST_RETRY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  final CompletableFuture<Void> lost = new CompletableFuture<>();
  private final String hold;
  private final HoldRequests requests;
  private long ttlNanos;
  private long endNanos;
  private boolean stopped;
  private ScheduledFuture<?> next;

  Renewal(String hold, long ttlNanos, HoldRequests requests) {
    this.hold = hold;
    this.requests = requests;
    this.ttlNanos = ttlNanos;
    endNanos = System.nanoTime() + ttlNanos;
  }

  synchronized void start() {
    schedule(ttlNanos / 3);
  }

  synchronized void stop() {
    stopped = true;
    if (next != null) next.cancel(false);
  }

  private synchronized void schedule(long nanos) {
    if (stopped) return;
    // At its end at the latest: that is when the hold is lost, and the caller must hear of it.
    long left = endNanos - System.nanoTime();
    next = requests.workers.after(Math.min(nanos, left), this::renew);
  }

  private void renew() {
    long sentNanos = System.nanoTime();
    long left;
    synchronized (this) {
      if (stopped) return;
      left = endNanos - sentNanos;
    }
    if (left <= 0) {
      lose();
      return;
    }
    requests.send("renew", hold, left).whenComplete((answer, error) -> hear(answer, error, sentNanos));
  }

  private void hear(Map<?, ?> answer, Throwable error, long sentNanos) {
    try {
      if (error != null) throw new Failure(error.getMessage());
      if (!Answers.renewed(answer)) {
        lose();
        return;
      }
      long ttl = Answers.ttlNanos(answer);
      synchronized (this) {
        ttlNanos = ttl;
        // The gateway counts from a later moment, so the hold is never believed longer than it lasts.
        endNanos = sentNanos + ttl;
      }
      schedule(ttl / 3);
    } catch (Failure failure) {
      retry();
    }
  }

  private synchronized void retry() {
    schedule(Math.max(ttlNanos / 10, SHORTEST_RETRY_NANOS));
  }

  private void lose() {
    synchronized (this) {
      if (stopped) return;
      stopped = true;
    }
    requests.workers.answers().execute(() -> lost.complete(null));
  }
}
