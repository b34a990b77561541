// For how long after a failure nobody is asked.
package sluice;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** The time after a failure. A gateway that does not answer gets no more requests, and callers do not wait for it. */
final class Pause {
  private static final long LONGEST_SECONDS = 5;

  /** A pause that has begun. */
  private record Begun(long endNanos, String failure) {}

  private final long usualNanos;
  private final AtomicReference<Begun> last = new AtomicReference<>();

  Pause(Options options) {
    usualNanos = options.retryAfterFailure().toNanos();
  }

  void begin(Failure failure) {
    long seconds = Math.min(failure.retryAfterSeconds, LONGEST_SECONDS);
    long length = seconds > 0 ? TimeUnit.SECONDS.toNanos(seconds) : usualNanos;
    if (length == 0) return;
    var next = new Begun(System.nanoTime() + length, failure.getMessage());
    // A short pause must not end a longer one that the gateway asked for.
    last.accumulateAndGet(next, (former, begun) -> former == null || former.endNanos - begun.endNanos < 0 ? begun : former);
  }

  /** @return why nobody is asked now; null if somebody may be asked */
  Failure current() {
    Begun begun = last.get();
    if (begun == null) return null;
    long left = begun.endNanos - System.nanoTime();
    if (left <= 0) return null;
    long leftMs = TimeUnit.NANOSECONDS.toMillis(left) + 1;
    return new Failure("nobody is asked for another " + leftMs + " ms after a failure: " + begun.failure);
  }
}
