// Has 50 messages a second for a vendor that takes 40 a second from all services together, and asks Sluice before each one. It prints
// a line for each second: how many were allowed, refused, or failed to be asked about.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import sluice.Check;
import sluice.Client;
import sluice.Decision;
import sluice.OnFailure;
import sluice.Source;

public final class Service {
  private static final Check MESSAGE = Check.of("sms-vendor");

  private final Client sluice;
  private final Set<CompletableFuture<?>> underWay = ConcurrentHashMap.newKeySet();
  private long at = secondNow();
  private int allowed;
  private int refused;
  private int failed;

  private Service(Client sluice) {
    this.sluice = sluice;
  }

  public static void main(String[] args) throws Exception {
    var url = System.getenv().getOrDefault("SLUICE_URL", "");
    // The vendor loses what exceeds its rate, so nothing is sent while nobody can be asked.
    var client = Client.builder(url, readToken()).deadline(Duration.ofMillis(500)).onFailure(OnFailure.DENY).build();
    var service = new Service(client);
    var stop = new CountDownLatch(1);
    var main = Thread.currentThread();
    // A signal ends the program as soon as its hooks have returned.
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  stop.countDown();
                  joinUninterrupted(main);
                }));
    for (int number = 0; !stop.await(20, TimeUnit.MILLISECONDS); number++) service.send(number);
    service.finish();
  }

  /** Every other message can wait for its turn for a moment. The others are sent now or not at all. */
  private void send(int number) {
    var decision =
        number % 2 == 0 ? sluice.checkAsync(MESSAGE) : sluice.acquireAsync(MESSAGE, Duration.ofMillis(250));
    // An allowed message would go to the vendor when this is complete.
    var counted = decision.handle(this::count);
    underWay.add(counted);
    counted.whenComplete((result, error) -> underWay.remove(counted));
  }

  /** Counts in the second in which the answer came, and prints the second before when it is over. */
  private synchronized Void count(Decision decision, Throwable error) {
    long now = secondNow();
    if (now != at) {
      print();
      at = now;
      allowed = refused = failed = 0;
    }
    if (error != null) System.err.println(error);
    if (error != null || decision.source() == Source.FAILURE) failed++;
    else if (decision.allowed()) allowed++;
    else refused++;
    return null;
  }

  private void finish() {
    CompletableFuture.allOf(underWay.toArray(CompletableFuture[]::new)).join();
    sluice.close();
    print();
  }

  private synchronized void print() {
    var line = "{\"service\":\"java\",\"at\":%d,\"allowed\":%d,\"refused\":%d,\"failed\":%d}\n";
    // printf would write the line in pieces, which a reader of the log may find apart.
    System.out.print(line.formatted(at, allowed, refused, failed));
  }

  private static long secondNow() {
    return System.currentTimeMillis() / 1000;
  }

  private static String readToken() throws IOException {
    var token = System.getenv("SLUICE_TOKEN");
    if (token != null && !token.isEmpty()) return token;
    var file = System.getenv("SLUICE_TOKEN_FILE");
    if (file != null && !file.isEmpty()) return Files.readString(Path.of(file)).strip();
    throw new IllegalStateException(
        "SLUICE_TOKEN or SLUICE_TOKEN_FILE: expected a caller token or a file with one, got nothing");
  }

  private static void joinUninterrupted(Thread thread) {
    try {
      thread.join();
    } catch (InterruptedException e) {
      // The program ends now in any case.
    }
  }
}
