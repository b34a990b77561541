// Renews and releases holds at the gateway. Neither obeys the pause after a failure: each has tries of its own.
package sluice;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;

/** Requests about a hold. */
final class HoldRequests {
  final Workers workers;
  final UnderWay underWay;
  private final Exchange exchange;
  private final long deadlineNanos;

  HoldRequests(Options options, Workers workers, Exchange exchange, UnderWay underWay) {
    this.workers = workers;
    this.exchange = exchange;
    this.underWay = underWay;
    deadlineNanos = options.deadline().toNanos();
  }

  /**
   * @param path renew or release
   * @param mostNanos after which nobody waits for the answer any more, if the deadline is longer
   * @return the answer's object, or a SluiceException, or a Failure
   */
  CompletableFuture<Map<?, ?>> send(String path, String hold, long mostNanos) {
    byte[] body = JsonWriter.text(Map.of("hold", hold)).getBytes(StandardCharsets.UTF_8);
    var answer = new CompletableFuture<Map<?, ?>>();
    CompletableFuture<Reply> sent = exchange.post(path, body);
    ScheduledFuture<?> timer = workers.after(Math.min(deadlineNanos, mostNanos), () -> sent.cancel(true));
    sent.whenComplete(
        (reply, error) -> {
          if (timer != null) timer.cancel(false);
          try {
            if (error != null) throw error instanceof Failure known ? known : new Failure("no answer in time");
            answer.complete(Problems.answer(reply));
          } catch (SluiceException | Failure e) {
            answer.completeExceptionally(e);
          }
        });
    return answer;
  }
}
