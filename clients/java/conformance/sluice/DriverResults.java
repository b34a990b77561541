// How the driver writes decisions, events and errors.
package sluice;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;

/** Results of calls as JSON. */
final class DriverResults {
  private DriverResults() {}

  static Map<String, Object> decision(Decision decision) {
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("allowed", decision.allowed());
    result.put("policy", decision.policy());
    boolean hasFigures = decision.limit() != null;
    putIf(result, "limit", decision.limit(), false);
    putIf(result, "remaining", decision.remaining(), false);
    // With figures, null is itself a figure: waiting cannot help, or never.
    putIf(result, "retryAfter", decision.retryAfter(), hasFigures);
    putIf(result, "resetAfter", decision.resetAfter(), hasFigures);
    putIf(result, "delay", decision.delay(), false);
    putIf(result, "waited", decision.waited(), false);
    putIf(result, "debt", decision.debt(), false);
    putIf(result, "reason", decision.reason(), false);
    result.put("source", decision.source().toString());
    putIf(result, "failure", decision.failure(), false);
    return result;
  }

  static Map<String, Object> decisions(Decisions decisions) {
    Map<String, Object> result = new LinkedHashMap<>();
    List<Object> results = new ArrayList<>();
    for (Decision decision : decisions.results()) results.add(decision(decision));
    result.put("allowed", decisions.allowed());
    result.put("results", results);
    result.put("source", decisions.source().toString());
    putIf(result, "failure", decisions.failure(), false);
    return result;
  }

  static Map<String, Object> event(Event event) {
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("call", event.call());
    putIf(result, "policy", event.policy(), false);
    result.put("outcome", event.outcome().toString());
    if (event.source() != null) result.put("source", event.source().toString());
    result.put("batch", event.batch());
    result.put("seconds", event.seconds());
    return result;
  }

  static Map<String, Object> error(Throwable error) {
    Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    Map<String, Object> told = new LinkedHashMap<>();
    if (cause instanceof SluiceException mistake) {
      told.put("code", mistake.code());
      told.put("status", mistake.status());
      told.put("detail", mistake.detail());
      List<Object> errors = new ArrayList<>();
      for (SluiceException.Fault fault : mistake.errors()) errors.add(fault(fault));
      if (!errors.isEmpty()) told.put("errors", errors);
    } else {
      told.put("message", String.valueOf(cause.getMessage()));
    }
    return Map.of("error", told);
  }

  private static Map<String, Object> fault(SluiceException.Fault fault) {
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("path", fault.path());
    putIf(told, "expected", fault.expected(), false);
    putIf(told, "got", fault.got(), false);
    return told;
  }

  private static void putIf(Map<String, Object> result, String field, Object value, boolean alsoNull) {
    if (value != null || alsoNull) result.put(field, value);
  }
}
