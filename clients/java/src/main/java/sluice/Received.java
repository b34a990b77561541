// Reads an answer's body into memory, as far as an answer of the gateway can be long.
package sluice;

import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.ResponseInfo;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow.Subscription;

/** Completes the reply itself as soon as it is complete: the HTTP client's own future takes another change of threads. */
final class Received implements BodySubscriber<Void> {
  private final ResponseInfo head;
  private final CompletableFuture<Reply> reply;
  private final CompletableFuture<Void> end = new CompletableFuture<>();
  private final ByteArrayOutputStream body = new ByteArrayOutputStream(1024);
  private Subscription subscription;

  Received(ResponseInfo head, CompletableFuture<Reply> reply) {
    this.head = head;
    this.reply = reply;
  }

  @Override
  public CompletionStage<Void> getBody() {
    return end;
  }

  @Override
  public void onSubscribe(Subscription subscription) {
    this.subscription = subscription;
    subscription.request(Long.MAX_VALUE);
  }

  @Override
  public void onNext(List<ByteBuffer> parts) {
    for (ByteBuffer part : parts) {
      if (end.isDone()) return;
      if (body.size() + part.remaining() > Reply.MAX_BODY_BYTES) {
        // This closes the connection, so that nobody has to read the rest.
        subscription.cancel();
        fail(new Failure("the gateway's answer is larger than 1 MiB"));
        return;
      }
      byte[] bytes = new byte[part.remaining()];
      part.get(bytes);
      body.write(bytes, 0, bytes.length);
    }
  }

  @Override
  public void onError(Throwable error) {
    fail(error);
  }

  @Override
  public void onComplete() {
    if (end.isDone()) return;
    end.complete(null);
    reply.complete(new Reply(head.statusCode(), contentType(), keepsConnection(), retryAfterSeconds(), body.toByteArray()));
  }

  private void fail(Throwable error) {
    end.completeExceptionally(error);
  }

  private String contentType() {
    return head.headers().firstValue("content-type").orElse("").split(";", 2)[0].trim().toLowerCase(Locale.ROOT);
  }

  private boolean keepsConnection() {
    return !head.headers().firstValue("connection").orElse("").equalsIgnoreCase("close");
  }

  private long retryAfterSeconds() {
    String text = head.headers().firstValue("retry-after").orElse("").trim();
    return text.matches("[0-9]{1,9}") ? Long.parseLong(text) : 0;
  }
}
