// Reads decisions from the gateway's answers. An answer of another shape is a failure: half a decision must not let a call pass.
package sluice;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Reads answers of /sluice/v1/check and /sluice/v1/hold. */
final class Answers {
  private Answers() {}

  /** @return the decision of each check, in their order */
  static Decisions checks(Map<?, ?> answer, List<Check> checks) throws Failure {
    boolean allowed = allowed(answer);
    if (!(answer.get("results") instanceof List<?> results)) throw shape("results", "a list", answer.get("results"));
    if (results.size() != checks.size()) throw wrong("results", "a list of " + checks.size(), "one of " + results.size());
    List<Decision> decisions = new ArrayList<>();
    for (int i = 0; i < results.size(); i++) {
      if (!(results.get(i) instanceof Map<?, ?> result)) throw shape("results[" + i + "]", "an object", results.get(i));
      decisions.add(decision(result, checks.get(i).policy()));
    }
    return new Decisions(allowed, List.copyOf(decisions), Source.GATEWAY, null);
  }

  /** @return the decision of the only check, which is a report */
  static Decision report(Map<?, ?> answer, Check check) throws Failure {
    Decision decision = only(answer, check);
    if (decision.debt() == null && decision.reason() == null) throw wrong("debt", "a number", "none");
    return decision.asReport();
  }

  /** @return the decision of the only check */
  static Decision only(Map<?, ?> answer, Check check) throws Failure {
    return checks(answer, List.of(check)).results().get(0);
  }

  /** @param policy the policy that was asked for */
  static Decision decision(Map<?, ?> result, String policy) throws Failure {
    Object name = result.get("policy");
    if (name != null && !(name instanceof String)) throw shape("policy", "a text", name);
    return new Decision(
        allowed(result),
        name == null ? policy : (String) name,
        whole(result, "limit", false),
        whole(result, "remaining", false),
        whole(result, "retryAfter", true),
        whole(result, "resetAfter", true),
        seconds(result, "delay"),
        seconds(result, "waited"),
        whole(result, "debt", false),
        text(result, "reason"),
        Source.GATEWAY,
        null);
  }

  /** @return whether a renewal found slots; if not, they are lost */
  static boolean renewed(Map<?, ?> answer) throws Failure {
    if (answer.get("renewed") instanceof Boolean renewed) return renewed;
    throw shape("renewed", "true or false", answer.get("renewed"));
  }

  /** @return how long a hold lasts, in nanoseconds */
  static long ttlNanos(Map<?, ?> answer) throws Failure {
    Object ttl = answer.get("ttl");
    if (ttl instanceof Number seconds && seconds.doubleValue() > 0) return (long) Math.min(seconds.doubleValue() * 1e9, 1e18);
    throw shape("ttl", "a number above 0", ttl);
  }

  /** @return the hold's text */
  static String hold(Map<?, ?> answer) throws Failure {
    if (answer.get("hold") instanceof String hold) return hold;
    throw shape("hold", "a text", answer.get("hold"));
  }

  private static boolean allowed(Map<?, ?> result) throws Failure {
    if (result.get("allowed") instanceof Boolean allowed) return allowed;
    throw shape("allowed", "true or false", result.get("allowed"));
  }

  private static Long whole(Map<?, ?> result, String field, boolean maybeNull) throws Failure {
    Object value = result.get(field);
    if (value == null && (maybeNull || !result.containsKey(field))) return null;
    if (value instanceof Long whole) return whole;
    // A time is rounded up as the gateway rounds it; a number of units is rounded down.
    if (value instanceof Double number) return (long) (maybeNull ? Math.ceil(number) : Math.floor(number));
    throw shape(field, "a number", value);
  }

  private static Double seconds(Map<?, ?> result, String field) throws Failure {
    if (!result.containsKey(field)) return null;
    if (result.get(field) instanceof Number seconds && seconds.doubleValue() >= 0) return seconds.doubleValue();
    throw shape(field, "a number of at least 0", result.get(field));
  }

  private static String text(Map<?, ?> result, String field) throws Failure {
    if (!result.containsKey(field)) return null;
    if (result.get(field) instanceof String text) return text;
    throw shape(field, "a text", result.get(field));
  }

  private static Failure shape(String field, String expected, Object got) {
    String text = JsonWriter.text(got);
    String brief = text.length() > 60 ? text.substring(0, 60) + "…" : text;
    return wrong(field, expected, brief);
  }

  private static Failure wrong(String field, String expected, String got) {
    return new Failure("the gateway's answer has a wrong " + field + ": expected " + expected + ", got " + got);
  }
}
