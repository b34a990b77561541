// Tells from a reply's status whether the gateway answered, whether the caller made a mistake, or whether something failed.
package sluice;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Reads problem documents. */
final class Problems {
  private static final Set<Integer> MISTAKES = Set.of(400, 401, 403, 404, 405, 413, 415);

  /** What a gateway says at most: a hundred, and how many others there are. Each check of a request may get a copy. */
  private static final int MOST_FAULTS = 101;

  private Problems() {}

  /**
   * @return the object of an answer with 200
   * @throws SluiceException if the status is a mistake of the caller, and a problem document says which
   * @throws Failure for everything else
   */
  static Map<?, ?> answer(Reply reply) throws Failure {
    if (reply.status() != 200) throw problem(reply);
    try {
      if (Json.read(reply.body()) instanceof Map<?, ?> answer) return answer;
      throw new Failure("the gateway's answer is not a JSON object");
    } catch (Json.Malformed e) {
      throw new Failure("the gateway's answer is not JSON: " + e.getMessage());
    }
  }

  private static Failure problem(Reply reply) {
    var failure = new Failure("the gateway answered " + reply.status(), retryAfter(reply), false);
    if (!MISTAKES.contains(reply.status())) return failure;
    try {
      boolean isProblem = reply.contentType().equals("application/problem+json");
      if (isProblem && Json.read(reply.body()) instanceof Map<?, ?> problem && problem.get("code") instanceof String code) {
        String detail = problem.get("detail") instanceof String text ? text : null;
        throw new SluiceException(code, reply.status(), detail, faults(problem.get("errors")), null);
      }
    } catch (Json.Malformed e) {
      // A proxy's page, for example.
    }
    return new Failure(failure.getMessage() + " without a problem document");
  }

  private static long retryAfter(Reply reply) {
    return reply.status() == 503 || reply.status() == 429 ? reply.retryAfterSeconds() : 0;
  }

  private static List<SluiceException.Fault> faults(Object errors) {
    List<SluiceException.Fault> faults = new ArrayList<>();
    if (!(errors instanceof List<?> list)) return faults;
    for (Object each : list) {
      if (faults.size() == MOST_FAULTS) break;
      if (!(each instanceof Map<?, ?> error) || !(error.get("path") instanceof String path)) continue;
      faults.add(new SluiceException.Fault(path, text(error.get("expected")), text(error.get("got"))));
    }
    return faults;
  }

  private static String text(Object value) {
    return value == null ? null : value.toString();
  }
}
