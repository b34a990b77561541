// The decision about one check. Figures that the decision has not are null.
package sluice;

/**
 * The decision about one check.
 *
 * @param limit the limit that is nearest to refusing; null if no limit decided, as for remaining
 * @param remaining the units left after this check
 * @param retryAfter whole seconds until it can be allowed; null if waiting cannot help, or if no limit decided
 * @param resetAfter whole seconds until all units are free; null: never, or if no limit decided
 * @param delay seconds to wait before going on, of a leaky-bucket only; null: none
 * @param waited seconds that the call was in line, of acquire and of hold with a wait; null for other calls
 * @param debt units that a report charged beyond what was left, 0 if no limit decided; null for other calls
 * @param reason why it was decided without figures: off, exempt, banned, shadow, key-missing, undecided or failure; null: a limit decided
 * @param failure one sentence that says what failed, if the source is FAILURE; null otherwise
 */
public record Decision(
    boolean allowed,
    String policy,
    Long limit,
    Long remaining,
    Long retryAfter,
    Long resetAfter,
    Double delay,
    Double waited,
    Long debt,
    String reason,
    Source source,
    String failure) {

  /** A decision of the option onFailure. */
  static Decision ofFailure(OnFailure onFailure, String policy, String failure) {
    boolean allowed = onFailure == OnFailure.ALLOW;
    return new Decision(allowed, policy, null, null, null, null, null, null, null, "failure", Source.FAILURE, failure);
  }

  /** A refusal that the client remembers, with the seconds that are left of it. */
  static Decision ofMemory(Decision refusal, long retryAfter, Long resetAfter) {
    return new Decision(
        false, refusal.policy, refusal.limit, refusal.remaining, retryAfter, resetAfter, null, null, null, null, Source.MEMORY, null);
  }

  /** The decision of a report, which has a debt also if no limit decided. */
  Decision asReport() {
    if (debt != null) return this;
    return new Decision(allowed, policy, limit, remaining, retryAfter, resetAfter, delay, waited, 0L, reason, source, failure);
  }
}
