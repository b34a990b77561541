// Puts checks that are asked at the same time into one request, and bounds how many requests are under way. It relies on the gateway to decide
// each check of such a request by itself.
package sluice;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The queue of checks, and the requests that take them. */
final class Batches {
  private final Options options;
  private final Workers workers;
  private final Exchange exchange;
  private final Pause pause;
  private final Refusals refusals;

  /** Guards all that follows, and what is not final in its members. */
  private final Object lock = new Object();
  private final ArrayDeque<Asked> waiting = new ArrayDeque<>();
  private final ArrayDeque<Batch> again = new ArrayDeque<>();
  private int underWay;

  Batches(Options options, Workers workers, Exchange exchange, Pause pause, Refusals refusals) {
    this.options = options;
    this.workers = workers;
    this.exchange = exchange;
    this.pause = pause;
    this.refusals = refusals;
  }

  void ask(Check check, Call<Decision> call) {
    Decision known = refusals.find(check);
    if (known != null) {
      call.decide(known, 0);
      return;
    }
    var asked = new Asked(check, call);
    Failure failure;
    synchronized (lock) {
      // Looked at under the lock, so that no check joins the queue after the pause has emptied it.
      failure = pause.current();
      if (failure == null) waiting.add(asked);
    }
    if (failure != null) {
      call.fail(failure, 0);
      return;
    }
    call.whenCancelled(() -> leave(asked));
    call.expire(workers, options.deadline().toNanos(), () -> expire(asked));
    sendMore();
  }

  /** After a failure nobody is asked for a while, and whoever waits for a place in a request is decided at once. */
  void pauseAfter(Failure failure) {
    List<Asked> left = new ArrayList<>();
    synchronized (lock) {
      pause.begin(failure);
      for (Batch batch : again) left.addAll(batch.members);
      left.addAll(waiting);
      again.clear();
      waiting.clear();
    }
    for (Asked asked : left) asked.call.fail(failure, 0);
  }

  private void sendMore() {
    while (true) {
      Batch batch;
      synchronized (lock) {
        batch = underWay < options.maxInFlight() ? next() : null;
        if (batch == null) return;
        underWay++;
        for (Asked asked : batch.members) asked.batch = batch;
      }
      send(batch);
    }
  }

  /** @return the next request; null if nobody waits */
  private Batch next() {
    while (!again.isEmpty()) {
      Batch batch = again.poll();
      batch.members.removeIf(asked -> asked.call.isSettled());
      if (!batch.members.isEmpty()) return batch;
    }
    var batch = new Batch(new ArrayList<>(), 0);
    int bytes = Batch.EMPTY_BYTES;
    while (!waiting.isEmpty() && batch.members.size() < options.maxBatch()) {
      Asked asked = waiting.peek();
      // A check that does not fit into any request goes alone, and the gateway says what is wrong with it.
      if (!batch.members.isEmpty() && bytes + asked.bytes + 1 > Batch.MAX_BYTES) break;
      waiting.poll();
      if (asked.call.isSettled()) continue;
      batch.members.add(asked);
      bytes += asked.bytes + 1;
    }
    return batch.members.isEmpty() ? null : batch;
  }

  private void send(Batch batch) {
    batch.sentNanos = System.nanoTime();
    batch.reply = exchange.post("check", batch.body());
    // Its last caller may have left before there was a reply to cancel.
    if (batch.isSettled()) batch.reply.cancel(true);
    batch.reply.whenComplete((reply, error) -> end(batch, reply, error));
  }

  private void end(Batch batch, Reply reply, Throwable error) {
    // The next request goes out before this one's callers are told: they may take a while.
    Runnable tell;
    try {
      if (error != null) throw error instanceof Failure failure ? failure : new Failure("the request ended: " + error);
      Decisions decisions = Answers.checks(Problems.answer(reply), batch.checks());
      tell = () -> tell(batch, decisions);
    } catch (SluiceException mistake) {
      tell = sort(batch, mistake);
    } catch (Failure failure) {
      // If everybody has left, the request was cancelled, which is no failure of the gateway.
      if (!batch.isSettled() && !failure.wasKept) pauseAfter(failure);
      tell = () -> batch.members.forEach(asked -> asked.call.fail(failure, batch.size()));
    }
    synchronized (lock) {
      underWay--;
    }
    sendMore();
    tell.run();
  }

  private void tell(Batch batch, Decisions decisions) {
    for (int i = 0; i < batch.size(); i++) {
      Asked asked = batch.members.get(i);
      Decision decision = decisions.results().get(i);
      refusals.learn(asked.check, decision, batch.sentNanos);
      asked.call.decide(decision, batch.size());
    }
  }

  /** Sorts a batch that was refused as a whole: who made the mistake is told, the others are asked again. Nothing was charged. */
  private Runnable sort(Batch batch, SluiceException mistake) {
    boolean namesChecks = mistake.status() == 400 || mistake.status() == 404;
    Map<Integer, SluiceException> mistakes = Mistakes.byCheck(mistake, batch.size());
    if (!namesChecks || batch.size() == 1) {
      SluiceException own = batch.size() == 1 ? Mistakes.ofOnly(mistake) : mistake;
      return () -> batch.members.forEach(asked -> asked.call.refuse(own, batch.size()));
    }
    List<Asked> others = new ArrayList<>();
    for (int i = 0; i < batch.size(); i++) {
      if (!mistakes.containsKey(i)) others.add(batch.members.get(i));
    }
    // Asked together once more; then one by one, which ends, whatever the gateway says.
    boolean together = !mistakes.isEmpty() && batch.round == 0;
    synchronized (lock) {
      for (Asked asked : others) asked.batch = null;
      if (together) {
        if (!others.isEmpty()) again.add(new Batch(others, 1));
      } else {
        for (Asked asked : others) again.add(new Batch(new ArrayList<>(List.of(asked)), 2));
      }
    }
    return () -> mistakes.forEach((i, own) -> batch.members.get(i).call.refuse(own, batch.size()));
  }

  private void expire(Asked asked) {
    Batch batch;
    synchronized (lock) {
      batch = asked.batch;
      if (batch == null) waiting.remove(asked);
    }
    long ms = options.deadline().toMillis();
    if (batch == null) {
      asked.call.fail(new Failure("no place in a request within " + ms + " ms"), 0);
      return;
    }
    var failure = new Failure("no answer from " + options.url() + " within " + ms + " ms");
    // While others still wait for the answer, the request has not failed.
    if (asked.call.fail(failure, batch.size()) && batch.isSettled()) pauseAfter(failure);
    batch.cancelIfSettled();
  }

  private void leave(Asked asked) {
    Batch batch;
    synchronized (lock) {
      batch = asked.batch;
      if (batch == null) waiting.remove(asked);
    }
    if (batch != null) batch.cancelIfSettled();
  }
}
