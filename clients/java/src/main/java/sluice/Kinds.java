// What the answers of the calls have in common: an event says whether they allow, and onFailure makes one.
package sluice;

import java.util.List;
import java.util.function.UnaryOperator;

/** The kinds of calls, by their answers. */
final class Kinds {
  private Kinds() {}

  static Call.Kind<Decision> one(String policy) {
    return decision(policy, UnaryOperator.identity());
  }

  static Call.Kind<Decision> report(String policy) {
    return decision(policy, Decision::asReport);
  }

  private static Call.Kind<Decision> decision(String policy, UnaryOperator<Decision> completed) {
    return new Call.Kind<>() {
      @Override
      public boolean allowed(Decision answer) {
        return answer.allowed();
      }

      @Override
      public Source source(Decision answer) {
        return answer.source();
      }

      @Override
      public Decision ofFailure(OnFailure onFailure, Failure failure) {
        return completed.apply(Decision.ofFailure(onFailure, policy, failure.getMessage()));
      }
    };
  }

  static Call.Kind<Decisions> all(List<Check> checks) {
    return new Call.Kind<>() {
      @Override
      public boolean allowed(Decisions answer) {
        return answer.allowed();
      }

      @Override
      public Source source(Decisions answer) {
        return answer.source();
      }

      @Override
      public Decisions ofFailure(OnFailure onFailure, Failure failure) {
        String sentence = failure.getMessage();
        var results = checks.stream().map(check -> Decision.ofFailure(onFailure, check.policy(), sentence)).toList();
        return new Decisions(onFailure == OnFailure.ALLOW, results, Source.FAILURE, sentence);
      }
    };
  }

  static Call.Kind<Held> hold(String policy) {
    return new Call.Kind<>() {
      @Override
      public boolean allowed(Held answer) {
        return answer.allowed();
      }

      @Override
      public Source source(Held answer) {
        return answer.decision().source();
      }

      @Override
      public Held ofFailure(OnFailure onFailure, Failure failure) {
        Decision decision = Decision.ofFailure(onFailure, policy, failure.getMessage());
        return new Held(decision, decision.allowed() ? Hold.withoutSlots() : null);
      }
    };
  }
}
