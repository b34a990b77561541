// Sends calls that have a request of their own. A failure decides them, and pauses all calls.
package sluice;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** One request for one call. */
final class Single {
  /** Makes the call's answer from the gateway's. */
  interface Reader<T> {
    T read(Map<?, ?> answer) throws Failure;
  }

  private final Options options;
  private final Workers workers;
  private final Exchange exchange;
  private final Pause pause;
  private final Batches batches;
  private final UnderWay underWay;

  Single(Options options, Workers workers, Exchange exchange, Pause pause, Batches batches, UnderWay underWay) {
    this.options = options;
    this.workers = workers;
    this.exchange = exchange;
    this.pause = pause;
    this.batches = batches;
    this.underWay = underWay;
  }

  /**
   * @param checks how many checks the request has
   * @param maxWaitMs how long the gateway may let it wait, in addition to the deadline
   * @param whenNobodyWaits gets an answer that came too late, or whose caller has gone
   */
  <T> void ask(
      Call<T> call, String path, Object body, int checks, long maxWaitMs, Reader<T> reader, Consumer<T> whenNobodyWaits) {
    Failure paused = pause.current();
    if (paused != null) {
      call.fail(paused, 0);
      return;
    }
    CompletableFuture<Reply> sent = send(path, body, maxWaitMs);
    // Its caller may go before the answer comes, and slots that come with it are released then.
    underWay.beginAnyway();
    long ms = options.deadline().toMillis() + maxWaitMs;
    call.whenCancelled(() -> leave(path, sent, maxWaitMs));
    call.expire(
        workers,
        options.deadline().toNanos() + maxWaitMs * 1_000_000,
        () -> {
          fail(call, new Failure("no answer from " + options.url() + " within " + ms + " ms"), checks);
          sent.cancel(true);
        });
    sent.whenComplete(
        (reply, error) -> {
          try {
            if (error != null) throw error instanceof Failure known ? known : new Failure("the request ended: " + error);
            T answer = reader.read(Problems.answer(reply));
            if (!call.decide(answer, checks)) whenNobodyWaits.accept(answer);
          } catch (SluiceException mistake) {
            call.refuse(checks == 1 ? Mistakes.ofOnly(mistake) : mistake, checks);
          } catch (Failure failure) {
            fail(call, failure, checks);
          } finally {
            underWay.end();
          }
        });
  }

  /** Closes the connection, so that the gateway frees the caller's place in line. */
  private void leave(String path, CompletableFuture<Reply> sent, long maxWaitMs) {
    // Slots that the gateway is about to give would be lost with their answer, and stay held for their ttl. It comes soon, and is released then.
    boolean awaitsSlots = path.equals("hold") && maxWaitMs == 0;
    if (!awaitsSlots || workers.after(options.deadline().toNanos(), () -> sent.cancel(true)) == null) sent.cancel(true);
  }

  private CompletableFuture<Reply> send(String path, Object body, long maxWaitMs) {
    byte[] text = JsonWriter.text(body).getBytes(StandardCharsets.UTF_8);
    return maxWaitMs == 0 ? exchange.post(path, text) : exchange.postWaiting(path, text);
  }

  /** A call that was decided already, or whose caller has gone, tells nothing about the gateway. */
  private <T> void fail(Call<T> call, Failure failure, int checks) {
    if (call.fail(failure, checks) && !failure.wasKept) batches.pauseAfter(failure);
  }
}
