// What a caller asks: may this key have so many units of this policy?
package sluice;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A question to the gateway.
 *
 * @param policy the name of a policy of the token's app, or APP/POLICY
 * @param key a value for each part of the policy's key
 * @param cost the units it costs; null: the policy's own cost; 0: the check only looks
 * @param plan one of the policy's plans, if the policy is of the token's app and neither its key nor a consumer has
 *     the plan; null: the plan that they have, or the default plan
 */
public record Check(String policy, List<String> key, Long cost, String plan) {
  public Check {
    Objects.requireNonNull(policy, "policy: expected a name, got null");
    Objects.requireNonNull(key, "key: expected a list of texts, got null");
    for (String value : key) Objects.requireNonNull(value, "key: expected texts, got null among them");
    key = List.copyOf(key);
  }

  /** @param key a value for each part of the policy's key */
  public static Check of(String policy, String... key) {
    return new Check(policy, List.of(key), null, null);
  }

  /** @param cost the units it costs, to 2147483648; a check of 0 only looks */
  public Check withCost(long cost) {
    return new Check(policy, key, cost, plan);
  }

  public Check withPlan(String plan) {
    return new Check(policy, key, cost, plan);
  }

  /**
   * @param path where the check is, such as checks[1]. or nothing
   * @throws IllegalArgumentException if a text is not valid Unicode: as JSON, two such keys could become one
   */
  void requireUnicode(String path) {
    requireUnicode(path + "policy", policy);
    for (int i = 0; i < key.size(); i++) requireUnicode(path + "key[" + i + "]", key.get(i));
    if (plan != null) requireUnicode(path + "plan", plan);
  }

  private static void requireUnicode(String path, String text) {
    if (!JsonWriter.isUnicode(text)) throw Options.wrong(path, "valid Unicode", JsonWriter.text(text));
  }

  /** @return whether it costs no units, and therefore charges nothing */
  boolean onlyLooks() {
    return cost != null && cost == 0;
  }

  /** @return the fields of a check that charges nothing. A look at no units is one at the policy's own cost */
  Map<String, Object> fieldsOfLook() {
    Map<String, Object> fields = onlyLooks() ? new Check(policy, key, null, plan).fields() : fields();
    fields.put("peek", true);
    return fields;
  }

  /** @return its fields in the order of the contract; what was not given is absent */
  Map<String, Object> fields() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("policy", policy);
    fields.put("key", key);
    if (cost != null) fields.put("cost", cost);
    if (plan != null) fields.put("plan", plan);
    return fields;
  }
}
