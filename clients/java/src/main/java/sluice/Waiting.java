// How callers wait for an answer: on their own thread, or with a future of theirs. Both tell the client when the caller goes away.
package sluice;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Blocks for answers, and hands out futures. */
final class Waiting {
  private Waiting() {}

  /** Does not even begin the call if this thread is interrupted already: it would be charged for nothing. */
  static <T> T ask(Supplier<CompletableFuture<T>> call, Consumer<T> whenNobodyWaits) throws InterruptedException {
    if (Thread.interrupted()) throw new InterruptedException();
    return block(call.get(), whenNobodyWaits);
  }

  /**
   * @param whenNobodyWaits gets an answer that comes at the moment of the interruption
   * @throws InterruptedException if this thread is interrupted; the answer is cancelled then
   */
  static <T> T block(CompletableFuture<T> answer, Consumer<T> whenNobodyWaits) throws InterruptedException {
    try {
      return answer.get();
    } catch (InterruptedException e) {
      if (!answer.cancel(true) && !answer.isCompletedExceptionally()) whenNobodyWaits.accept(answer.join());
      throw e;
    } catch (ExecutionException e) {
      Throwable cause = e.getCause();
      if (cause instanceof SluiceException mistake) throw mistake.here();
      if (cause instanceof RuntimeException error) throw error;
      throw new IllegalStateException(cause);
    }
  }

  /**
   * Callers may do with the future what they like: cancel it, complete it, or block in what they attach to it. They can neither occupy the
   * client's threads of transport nor change what others hear.
   *
   * @param whenNobodyWaits gets an answer that came when the future had ended otherwise
   */
  static <T> CompletableFuture<T> handOut(CompletableFuture<T> answer, Executor executor, Consumer<T> whenNobodyWaits) {
    var handedOut = new CompletableFuture<T>();
    answer.whenCompleteAsync(
        (value, error) -> {
          boolean heard = error == null ? handedOut.complete(value) : handedOut.completeExceptionally(error);
          if (!heard && error == null) whenNobodyWaits.accept(value);
        },
        executor);
    handedOut.whenComplete((value, error) -> answer.cancel(true));
    return handedOut;
  }
}
