// The connections to the gateway. They end when nobody has asked for a while, and when the client is closed.
package sluice;

import java.net.http.HttpClient;
import java.net.http.HttpClient.Redirect;
import java.net.http.HttpClient.Version;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Makes the JDK's HTTP client when somebody asks, and ends it when it is idle. nginx closes a connection that is idle for 75 s; a request that is
 * sent at that moment would fail. Java before 20 keeps idle connections for 20 minutes, and only a setting of the whole JVM changes that.
 */
final class Connections {
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(30);

  private final Options options;
  private final Workers workers;
  /** Has the thread of the HTTP client alone. */
  private final ThreadGroup group = new ThreadGroup("sluice");

  private HttpClient client;
  private final Set<CompletableFuture<Reply>> underWay = new HashSet<>();
  /** How many connections the HTTP client keeps, at most: it does not say when the gateway ends one. */
  private int kept;
  private long idleSinceNanos;
  private boolean closesWhenIdle;
  private boolean closed;

  Connections(Options options, Workers workers) {
    this.options = options;
    this.workers = workers;
    client = start();
  }

  /**
   * An HTTP client for one request.
   *
   * @param mayUseKept whether the request may go over a connection that an earlier one has used. The HTTP client does so if it has one
   */
  record Lease(HttpClient client, boolean mayUseKept) {}

  /**
   * @param end completes when the request has ended: until then the client that is returned stays
   * @throws Failure if the connections have been closed
   */
  synchronized Lease leaseUntil(CompletableFuture<Reply> end) throws Failure {
    if (closed) throw new Failure("the client is closed");
    if (client == null) {
      client = start();
      kept = 0;
    }
    underWay.add(end);
    boolean mayUseKept = kept > 0;
    if (mayUseKept) kept--;
    end.whenComplete((reply, error) -> leave(end, reply != null && reply.keepsConnection()));
    return new Lease(client, mayUseKept);
  }

  /** Whoever still waits for a reply hears that it is cancelled: nothing else would come of it. */
  void close() {
    List<CompletableFuture<Reply>> left;
    synchronized (this) {
      closed = true;
      left = List.copyOf(underWay);
    }
    for (var reply : left) reply.cancel(true);
    end();
  }

  /**
   * Java before 21 has no method to close an HTTP client: its thread and its connections stay until it is collected as garbage. But its thread ends,
   * and ends the connections, when it is interrupted.
   */
  private synchronized void end() {
    group.interrupt();
    client = null;
  }

  private synchronized void leave(CompletableFuture<Reply> end, boolean keepsConnection) {
    underWay.remove(end);
    if (keepsConnection) kept++;
    idleSinceNanos = System.nanoTime();
    if (underWay.isEmpty() && !closesWhenIdle) closeAfter(IDLE_NANOS);
  }

  private void closeAfter(long nanos) {
    closesWhenIdle = workers.after(nanos, this::closeIfIdle) != null;
  }

  private synchronized void closeIfIdle() {
    closesWhenIdle = false;
    // The last request to leave begins the next wait.
    if (!underWay.isEmpty()) return;
    long left = idleSinceNanos + IDLE_NANOS - System.nanoTime();
    if (left > 0) closeAfter(left);
    else end();
  }

  private HttpClient start() {
    var builder =
        HttpClient.newBuilder()
            .version(Version.HTTP_1_1)
            .followRedirects(Redirect.NEVER)
            .proxy(HttpClient.Builder.NO_PROXY)
            .connectTimeout(options.deadline())
            .executor(workers.transport());
    if (options.tls() != null) builder.sslContext(options.tls());
    var made = new CompletableFuture<HttpClient>();
    // The thread of an HTTP client is in the group of the thread that builds it.
    var maker = new Thread(group, () -> made.completeAsync(builder::build, Runnable::run), "sluice-connections");
    maker.setDaemon(true);
    maker.start();
    return made.join();
  }
}
