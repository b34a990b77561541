// Why there is no answer: the option onFailure decides then.
package sluice;

/** One sentence that says what failed. It never reaches a caller as an exception. */
final class Failure extends Exception {
  private static final long serialVersionUID = 1;

  /** What the gateway's Retry-After says, in seconds; 0 if it says nothing. */
  final long retryAfterSeconds;

  /** The gateway ended a connection that it had kept, as nginx does when it reloads: this says nothing about the next request. */
  final boolean wasKept;

  Failure(String sentence, long retryAfterSeconds, boolean wasKept) {
    super(sentence, null, false, false);
    this.retryAfterSeconds = retryAfterSeconds;
    this.wasKept = wasKept;
  }

  Failure(String sentence) {
    this(sentence, 0, false);
  }
}
