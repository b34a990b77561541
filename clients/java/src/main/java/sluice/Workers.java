// The client's threads: a few, of which none keeps the program from ending, and none when nothing is under way for a while.
package sluice;

import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Bounded pools of daemon threads. */
final class Workers {
  /** For calls that have a request of their own. */
  private static final int SINGLE_REQUESTS = 16;

  private static final int MOST = Math.max(2, Math.min(4, Runtime.getRuntime().availableProcessors()));

  private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, named("sluice-timer"));
  private final ThreadPoolExecutor transport = pool("sluice-http");
  private final ThreadPoolExecutor answers = pool("sluice-answer");
  private final ThreadPoolExecutor requests;

  Workers(Options options) {
    int most = options.maxInFlight() + SINGLE_REQUESTS;
    requests = new ThreadPoolExecutor(0, most, 30, TimeUnit.SECONDS, new SynchronousQueue<>(), named("sluice-request"));
    // The timers of calls that have been decided would fill the heap until their deadline.
    timer.setRemoveOnCancelPolicy(true);
    timer.setKeepAliveTime(30, TimeUnit.SECONDS);
    timer.allowCoreThreadTimeOut(true);
  }

  /** Runs the HTTP client's tasks, which do not block. */
  Executor transport() {
    return orHere(transport);
  }

  /** @return false if all threads for requests wait for answers */
  boolean request(Runnable task) {
    try {
      requests.execute(task);
      return true;
    } catch (RejectedExecutionException e) {
      return false;
    }
  }

  /** Runs what callers do with the answers of asynchronous calls. It may block without keeping other answers from coming in. */
  Executor answers() {
    return orHere(answers);
  }

  /** @return what cancels it; null if the client is closed, and nothing will run */
  ScheduledFuture<?> after(long nanos, Runnable task) {
    try {
      return timer.schedule(task, nanos, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      return null;
    }
  }

  void stop() {
    timer.shutdownNow();
    transport.shutdown();
    answers.shutdown();
    requests.shutdown();
  }

  /** A task that comes when the pool has stopped is the last of a call or of a connection, and must not be lost. */
  private static Executor orHere(Executor pool) {
    return task -> {
      try {
        pool.execute(task);
      } catch (RejectedExecutionException e) {
        task.run();
      }
    };
  }

  private static ThreadPoolExecutor pool(String name) {
    var pool = new ThreadPoolExecutor(MOST, MOST, 30, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), named(name));
    pool.allowCoreThreadTimeOut(true);
    return pool;
  }

  private static ThreadFactory named(String name) {
    var count = new AtomicInteger();
    return task -> {
      var thread = new Thread(task, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
