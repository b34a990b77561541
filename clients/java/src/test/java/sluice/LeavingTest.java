// Tests that a caller who goes away frees its place at a real gateway: policy slots has one slot, so whoever still stands in line would take it.
package sluice;

import static sluice.Expect.same;
import static sluice.Expect.test;
import static sluice.Expect.that;
import static sluice.Expect.thrown;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Arguments: the gateway's URL and a caller token. */
final class LeavingTest {
  private LeavingTest() {}

  private static final Duration LONG = Duration.ofSeconds(30);
  private static final HttpClient METRICS = HttpClient.newHttpClient();
  private static HttpRequest metrics;

  public static void main(String[] args) throws Exception {
    metrics = HttpRequest.newBuilder(URI.create(args[0] + "/sluice/metrics")).build();
    var events = new ConcurrentLinkedQueue<Event>();
    Client client = Client.builder(args[0], args[1]).deadline(Duration.ofSeconds(10)).onEvent(events::add).build();

    test("a future that is cancelled leaves the line", () -> {
      var slots = Slots.of("slots", "cancelled");
      Held first = client.hold(slots);
      CompletableFuture<Held> leaver = client.holdAsync(slots, LONG);
      untilInLine(1);
      CompletableFuture<Held> next = client.holdAsync(slots, LONG);
      untilInLine(2);
      leaver.cancel(true);
      untilInLine(1);
      first.close();
      try (Held held = next.get(20, TimeUnit.SECONDS)) {
        that(held.allowed(), "the slot");
      }
      thrown(CancellationException.class, leaver::join);
    });
    test("a future that times out leaves the line as well", () -> {
      var slots = Slots.of("slots", "timed-out");
      Held first = client.hold(slots);
      var leaver = client.holdAsync(slots, LONG).orTimeout(4000, TimeUnit.MILLISECONDS);
      CompletableFuture<Held> next = client.holdAsync(slots, LONG);
      untilInLine(2);
      same(thrown(java.util.concurrent.CompletionException.class, leaver::join).getCause().getClass(), TimeoutException.class);
      untilInLine(1);
      first.close();
      try (Held held = next.get(20, TimeUnit.SECONDS)) {
        that(held.allowed(), "the slot");
      }
    });
    test("a thread that is interrupted leaves the line, and gets InterruptedException", () -> {
      var slots = Slots.of("slots", "interrupted");
      Held first = client.hold(slots);
      var heard = new CompletableFuture<Throwable>();
      var leaver = new Thread(() -> {
        try {
          client.hold(slots, LONG);
          heard.complete(null);
        } catch (InterruptedException e) {
          heard.complete(e);
        }
      });
      leaver.start();
      untilInLine(1);
      CompletableFuture<Held> next = client.holdAsync(slots, LONG);
      untilInLine(2);
      leaver.interrupt();
      that(heard.get(5, TimeUnit.SECONDS) instanceof InterruptedException, "InterruptedException");
      untilInLine(1);
      first.close();
      try (Held held = next.get(20, TimeUnit.SECONDS)) {
        that(held.allowed(), "the slot");
      }
    });
    test("slots that come when nobody waits any more are released", () -> {
      var slots = Slots.of("slots", "too-late");
      for (int i = 0; i < 50; i++) {
        CompletableFuture<Held> leaver = client.holdAsync(slots);
        Thread.sleep(i % 10);
        // Whichever is first, the answer or the cancellation: nobody keeps the slot.
        if (!leaver.cancel(true)) leaver.join().close();
      }
      Expect.soon("the slot is free", () -> client.peek(slots.check()).allowed());
    });
    test("a release goes on if its thread is interrupted, and the thread stays interrupted", () -> {
      var slots = Slots.of("slots", "release");
      Held held = client.hold(slots);
      Thread.currentThread().interrupt();
      held.close();
      that(Thread.interrupted(), "an interrupted thread");
      Expect.soon("the slot is free", () -> client.peek(slots.check()).allowed());
    });
    test("leaving is no failure: nobody pauses, and the hook hears nothing", () -> {
      events.clear();
      var slots = Slots.of("slots", "quiet");
      Held first = client.hold(slots);
      List<CompletableFuture<Held>> leavers = new ArrayList<>();
      for (int i = 0; i < 20; i++) leavers.add(client.holdAsync(slots, LONG));
      untilInLine(20);
      leavers.forEach(leaver -> leaver.cancel(true));
      for (int i = 0; i < 20; i++) same(client.check("many", "quiet").source(), Source.GATEWAY);
      same(events.stream().filter(event -> event.call().equals("hold")).count(), 1L);
      first.close();
    });
    test("a caller may block in what it attaches to a future, however many do", () -> {
      List<CompletableFuture<Decision>> all = new ArrayList<>();
      for (int i = 0; i < 50; i++) {
        all.add(client.checkAsync("many", "nested").thenApply(first -> {
          try {
            return client.check("many", "nested");
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        }));
      }
      for (var each : all) same(each.get(20, TimeUnit.SECONDS).source(), Source.GATEWAY);
    });
    test("a future that ends in any way ends its call", () -> {
      List<Consumer<CompletableFuture<String>>> ways = List.of(
          future -> future.cancel(false), future -> future.complete("mine"), future -> future.completeExceptionally(new TimeoutException()));
      for (var way : ways) {
        var call = new CompletableFuture<String>();
        way.accept(Waiting.handOut(call, Runnable::run, late -> {}));
        that(call.isCancelled(), "a cancelled call");
      }
    });
    test("an answer that comes while its future is cancelled goes to whoever frees its slots", () -> {
      var call = new CompletableFuture<String>();
      var handing = new ArrayList<Runnable>();
      var freed = new ArrayList<String>();
      CompletableFuture<String> future = Waiting.handOut(call, handing::add, freed::add);
      call.complete("slots");
      future.cancel(false);
      handing.forEach(Runnable::run);
      same(freed, List.of("slots"));
    });
    client.close();
    Expect.report();
  }

  /** Until so many requests wait at the gateway, by its metrics. */
  private static void untilInLine(int requests) throws Exception {
    Expect.soon(requests + " in line", () -> METRICS.send(metrics, BodyHandlers.ofString()).body().lines()
        .filter(line -> line.startsWith("sluice_waiting_requests{"))
        .mapToInt(line -> Integer.parseInt(line.substring(line.indexOf(' ') + 1)))
        .sum() == requests);
  }
}
