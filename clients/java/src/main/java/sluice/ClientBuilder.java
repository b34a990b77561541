// Collects the options of a client. Defaults are those of every language's client.
package sluice;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.Consumer;
import javax.net.ssl.SSLContext;

/** Builds a client; see {@link Client#builder}. */
public final class ClientBuilder {
  private final URI url;
  private final String token;
  private Duration deadline = Duration.ofSeconds(1);
  private OnFailure onFailure = OnFailure.ALLOW;
  private int maxBatch = 50;
  private int maxInFlight = 2;
  private Duration rememberRefusals = Duration.ofSeconds(10);
  private int maxRemembered = 10_000;
  private Duration retryAfterFailure = Duration.ofMillis(100);
  private Consumer<Event> onEvent;
  private SSLContext tls;

  ClientBuilder(String url, String token) {
    this.url = Options.checkedUrl(url);
    this.token = Options.checkedToken(token);
  }

  /** The longest time from a call to its decision; acquire and hold have their maxWait in addition. Default: 1 s. */
  public ClientBuilder deadline(Duration deadline) {
    this.deadline = deadline;
    return this;
  }

  /** What is decided when nobody could be asked. Default: ALLOW. */
  public ClientBuilder onFailure(OnFailure onFailure) {
    this.onFailure = onFailure;
    return this;
  }

  /** The number of checks in one request, 1 to 100. Default: 50. */
  public ClientBuilder maxBatch(int maxBatch) {
    this.maxBatch = maxBatch;
    return this;
  }

  /** The number of requests with checks that are under way at once. Calls that come meanwhile wait and go together. Default: 2. */
  public ClientBuilder maxInFlight(int maxInFlight) {
    this.maxInFlight = maxInFlight;
    return this;
  }

  /** The longest time for which a refusal is remembered; zero: not at all. Default: 10 s. */
  public ClientBuilder rememberRefusals(Duration rememberRefusals) {
    this.rememberRefusals = rememberRefusals;
    return this;
  }

  /** The number of refusals that are remembered; beyond that the oldest goes. Default: 10,000. */
  public ClientBuilder maxRemembered(int maxRemembered) {
    this.maxRemembered = maxRemembered;
    return this;
  }

  /** The time after a failure in which nobody is asked. Default: 100 ms. */
  public ClientBuilder retryAfterFailure(Duration retryAfterFailure) {
    this.retryAfterFailure = retryAfterFailure;
    return this;
  }

  /** The metrics hook. It runs on the client's own threads, so it must not block; what it throws changes nothing. */
  public ClientBuilder onEvent(Consumer<Event> onEvent) {
    this.onEvent = onEvent;
    return this;
  }

  /** What is trusted with https, and the client's own certificate. Default: the JDK's. */
  public ClientBuilder tls(SSLContext tls) {
    this.tls = tls;
    return this;
  }

  /** Trusts the certificate authorities of this PEM file with https, and no others. */
  public ClientBuilder trust(Path pem) {
    this.tls = Trust.of(pem);
    return this;
  }

  /** @throws IllegalArgumentException if an option is wrong; it names the option, what was expected and what came */
  public Client build() {
    return new Client(options());
  }

  Options options() {
    return new Options(
        url,
        token,
        deadline,
        onFailure,
        maxBatch,
        maxInFlight,
        rememberRefusals,
        maxRemembered,
        retryAfterFailure,
        onEvent,
        tls);
  }
}
