// Who decided.
package sluice;

/** Where a decision comes from. */
public enum Source {
  /** The gateway decided. */
  GATEWAY("gateway"),
  /** The client remembers that the gateway refused this, and the time to wait has not passed. */
  MEMORY("memory"),
  /** Nobody could be asked: the option onFailure decided. */
  FAILURE("failure");

  private final String word;

  Source(String word) {
    this.word = word;
  }

  @Override
  public String toString() {
    return word;
  }
}
