// The answer of a call of hold: the decision, and the slots if there are any.
package sluice;

/**
 * A decision with a hold if it is allowed. Made for try-with-resources: its end releases the hold.
 *
 * @param hold the slots; null if the decision is a refusal
 */
public record Held(Decision decision, Hold hold) implements AutoCloseable {
  public boolean allowed() {
    return decision.allowed();
  }

  /** Releases the hold, if there is one. */
  @Override
  public void close() {
    if (hold != null) hold.release();
  }

  /** Frees slots whose caller has gone. */
  void abandon() {
    if (hold != null) hold.abandon();
  }
}
