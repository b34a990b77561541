// One request and its answer. Whatever keeps it from an answer is a failure with one sentence.
package sluice;

import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.net.URI;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.FutureTask;
import javax.net.ssl.SSLException;

/** Sends requests to the check API. */
final class Exchange {
  private final URI url;
  private final HttpRequest.Builder base;
  private final Connections connections;
  private final Workers workers;
  /** Whether something has answered that is perhaps no HTTP. */
  private volatile boolean hasHeardOther;

  Exchange(Options options, Workers workers) {
    this.workers = workers;
    url = options.url();
    base =
        HttpRequest.newBuilder()
            .setHeader("authorization", "Bearer " + options.token())
            .setHeader("content-type", "application/json");
    connections = new Connections(options, workers);
  }

  /**
   * For a request that is answered soon. It blocks a thread of the client's, if one is free: on machines with one or two processors, Java before 25
   * starts a thread for each request that is sent asynchronously.
   *
   * <p>The HTTP client leaves a connection open for ever if the answer is no HTTP, and nobody can close it after a request that blocked. So a request
   * blocks only if there is a connection that has brought HTTP before, and as long as all answers were HTTP.
   *
   * @param path the last part of the URL, such as check
   * @return the reply, or a Failure. Cancelling it closes the connection
   */
  CompletableFuture<Reply> post(String path, byte[] body) {
    var reply = new CompletableFuture<Reply>();
    Connections.Lease lease = lease(reply);
    if (lease == null) return reply;
    HttpRequest request = request(path, body);
    var task = new FutureTask<Void>(() -> sendBlocking(request, lease, reply), null);
    if (!lease.mayUseKept() || hasHeardOther || !workers.request(task)) {
      send(request, lease, reply);
      return reply;
    }
    reply.whenComplete(
        (done, error) -> {
          // The HTTP client cancels a request whose thread is interrupted.
          if (reply.isCancelled()) task.cancel(true);
        });
    return reply;
  }

  /** For a request that may wait in line. Any number of them occupies no thread. Cancelling the reply frees the place in line. */
  CompletableFuture<Reply> postWaiting(String path, byte[] body) {
    var reply = new CompletableFuture<Reply>();
    Connections.Lease lease = lease(reply);
    if (lease != null) send(request(path, body), lease, reply);
    return reply;
  }

  private void sendBlocking(HttpRequest request, Connections.Lease lease, CompletableFuture<Reply> reply) {
    try {
      lease.client().send(request, head -> new Received(head, reply));
    } catch (IOException | InterruptedException | RuntimeException e) {
      if (!closesConnection(e)) hasHeardOther = true;
      reply.completeExceptionally(failure(e, lease));
    }
  }

  private void send(HttpRequest request, Connections.Lease lease, CompletableFuture<Reply> reply) {
    CompletableFuture<HttpResponse<Void>> sent;
    try {
      sent = lease.client().sendAsync(request, head -> new Received(head, reply));
    } catch (RuntimeException e) {
      reply.completeExceptionally(failure(e, lease));
      return;
    }
    // Cancelling closes the connection as long as its future has not completed: `sent` has when the answer is no HTTP, and this one never does.
    CompletableFuture<?> exchange = sent.newIncompleteFuture();
    reply.whenComplete(
        (done, error) -> {
          if (error != null) exchange.cancel(true);
        });
    sent.whenComplete(
        (done, error) -> {
          if (error != null) reply.completeExceptionally(failure(error, lease));
        });
  }

  /** Whether the HTTP client has surely closed the connection, or there was none. What its parser of headers throws leaves it open. */
  private static boolean closesConnection(Throwable error) {
    for (Throwable t = error; t != null; t = t.getCause()) {
      boolean closes =
          t instanceof EOFException
              || t instanceof SocketException
              || t instanceof SSLException
              || t instanceof HttpTimeoutException
              || t instanceof InterruptedException
              || t instanceof Failure;
      if (closes) return true;
    }
    return false;
  }

  /** @return null if the client is closed; the reply has failed then */
  private Connections.Lease lease(CompletableFuture<Reply> reply) {
    try {
      return connections.leaseUntil(reply);
    } catch (Failure closed) {
      reply.completeExceptionally(closed);
      return null;
    }
  }

  private HttpRequest request(String path, byte[] body) {
    return base.copy().uri(url.resolve("/sluice/v1/" + path)).POST(BodyPublishers.ofByteArray(body)).build();
  }

  void close() {
    connections.close();
  }

  private Failure failure(Throwable error, Connections.Lease lease) {
    Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    // A Failure of the body's reader comes wrapped.
    for (Throwable t = cause; t != null; t = t.getCause()) {
      if (t instanceof Failure known) return known;
    }
    if (cause instanceof HttpConnectTimeoutException) return new Failure("no connection to " + url + " in time");
    if (cause instanceof ConnectException) return new Failure("no connection to " + url + reason(cause));
    if (cause instanceof SSLException) return new Failure("no secure connection to " + url + reason(cause));
    if (cause instanceof IOException) {
      boolean wasKept = lease.mayUseKept() && endedUnheard(cause);
      return new Failure("the connection to " + url + " ended before the answer" + reason(cause), 0, wasKept);
    }
    return new Failure("the request to " + url + " failed: " + cause);
  }

  /** Java says only in words that a connection ended before the first byte of an answer: of a later end, it says how many bytes came. */
  private static boolean endedUnheard(Throwable error) {
    String message = String.valueOf(error.getMessage());
    return message.contains("received no bytes") || message.equals("Connection reset") || message.equals("Broken pipe");
  }

  private static String reason(Throwable error) {
    for (Throwable t = error; t != null; t = t.getCause()) {
      if (t.getMessage() != null) return ": " + t.getMessage();
    }
    return "";
  }
}
