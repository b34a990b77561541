// The events that a client reports to its metrics hook.
package sluice;

/**
 * The end of a call: a decision or an error.
 *
 * @param call check, checkAll, peek, report, acquire or hold
 * @param policy the policy of the call; of checkAll that of the first check; null if there is none
 * @param source who decided; null for an error
 * @param seconds the time from the call to the decision
 * @param batch the number of checks in the request; 0 without a request
 */
public record Event(String call, String policy, Outcome outcome, Source source, double seconds, int batch) {
  /** How a call ended. */
  public enum Outcome {
    ALLOWED("allowed"),
    REFUSED("refused"),
    ERROR("error");

    private final String word;

    Outcome(String word) {
      this.word = word;
    }

    @Override
    public String toString() {
      return word;
    }
  }
}
