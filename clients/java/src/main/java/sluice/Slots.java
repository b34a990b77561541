// What a caller asks for when it wants to hold slots: of which policy and key, how many, and for how long.
package sluice;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** Slots of a limit of concurrency, as a call of hold asks for them. */
public final class Slots {
  private static final Duration LEAST_TTL = Duration.ofMillis(1);
  /** What can be written in milliseconds. */
  private static final Duration MOST_TTL = Duration.ofMillis(Long.MAX_VALUE);

  private final Check check;
  /** Null: the policy's own cost. */
  private final Long count;
  /** Null: the limit's own. */
  private final Duration ttl;

  private Slots(Check check, Long count, Duration ttl) {
    this.check = check;
    this.count = count;
    this.ttl = ttl;
  }

  /**
   * As many slots as the policy's own cost says, for the limit's own ttl.
   *
   * @param policy the name of a policy of the token's app, or APP/POLICY
   * @param key a value for each part of the policy's key
   */
  public static Slots of(String policy, String... key) {
    return new Slots(Check.of(policy, key), null, null);
  }

  /** @param count how many slots, from 1 */
  public Slots withCount(long count) {
    return new Slots(check, count, ttl);
  }

  /**
   * @param ttl for how long they are held unless they are renewed, which the client does: 1 s to the limit's own ttl, in whole milliseconds
   * @throws IllegalArgumentException for less than a millisecond
   */
  public Slots withTtl(Duration ttl) {
    boolean isRight = ttl != null && ttl.compareTo(LEAST_TTL) >= 0 && ttl.compareTo(MOST_TTL) <= 0;
    if (!isRight) throw Options.wrong("ttl", "a duration of at least 1 ms", ttl);
    return new Slots(check, count, ttl);
  }

  /** @param plan as in {@link Check} */
  public Slots withPlan(String plan) {
    return new Slots(check.withPlan(plan), count, ttl);
  }

  /** @return their policy, key and plan */
  Check check() {
    return check;
  }

  /** @return their fields in the order of the contract; what was not given is absent */
  Map<String, Object> fields() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("policy", check.policy());
    fields.put("key", check.key());
    if (count != null) fields.put("slots", count);
    if (ttl != null) fields.put("ttl", ttl.toMillis() + "ms");
    if (check.plan() != null) fields.put("plan", check.plan());
    return fields;
  }
}
