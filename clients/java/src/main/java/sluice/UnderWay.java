// Counts what is under way, so that close() lets it end.
package sluice;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** Calls and releases that have not ended yet. */
final class UnderWay {
  private final Runnable stop;
  private final AtomicInteger count = new AtomicInteger();
  private final AtomicBoolean stopped = new AtomicBoolean();
  private volatile boolean closed;

  /** @param stop runs once, when the client is closed and nothing is under way any more */
  UnderWay(Runnable stop) {
    this.stop = stop;
  }

  boolean isClosed() {
    return closed;
  }

  /** @throws IllegalStateException if the client is closed */
  void begin() {
    beginAnyway();
    if (!closed) return;
    end();
    throw new IllegalStateException("the client is closed");
  }

  /** For what belongs to a call that has begun. */
  void beginAnyway() {
    count.incrementAndGet();
  }

  void end() {
    count.decrementAndGet();
    if (closed) stopWhenIdle();
  }

  void close() {
    closed = true;
    stopWhenIdle();
  }

  private void stopWhenIdle() {
    if (count.get() == 0 && stopped.compareAndSet(false, true)) stop.run();
  }
}
