// Decides one request of Envoy: each descriptor is asked by itself, all of them at once, and the client puts them into batches with those
// of other requests. What cannot be decided is answered as the operator chose.

import { type Decision, type SluiceClient, SluiceError } from "../../clients/typescript/src/index.ts";
import { answerOf, type Finding, findingOf, refused, undecided, unlimited } from "./answers.ts";
import type { DescriptorMap } from "./descriptor-map.ts";
import { type Question, questionsOf } from "./descriptors.ts";
import type { RateLimitRequest, RateLimitResponse } from "./protocol.ts";
import type { Reports } from "./reports.ts";
import type { UnknownPolicies } from "./unknown-policies.ts";

/** What Envoy hears if nobody could be asked; `error` leaves it to Envoy. */
export type OnFailure = "error" | "allow" | "deny";

/** Nobody could decide, and `onFailure` is `error`. */
export class Undecided extends Error {
  override readonly name = "Undecided";
  /** Whether the operator has to mend something: to ask again changes nothing. */
  readonly isMistake: boolean;

  constructor(reason: string, isMistake: boolean) {
    super(reason);
    this.isMistake = isMistake;
  }
}

/** The domain is none of those that the map serves. */
export class ForeignDomain extends Error {
  override readonly name = "ForeignDomain";
}

export interface DecisionsOptions {
  readonly client: Pick<SluiceClient, "check" | "peek">;
  readonly map: DescriptorMap | undefined;
  readonly onFailure: OnFailure;
  readonly withHeaders: boolean;
  readonly unknown: UnknownPolicies;
  readonly reports: Reports;
}

/** A value that a client of Envoy wrote, and not the number of values, which the operator's configuration says. */
const oneValue = /^key\[\d+\]$/;

export class Decisions {
  readonly #options: DecisionsOptions;

  constructor(options: DecisionsOptions) {
    this.#options = options;
  }

  /** @throws InvalidRequest, ForeignDomain or Undecided */
  async decide(request: RateLimitRequest): Promise<RateLimitResponse> {
    const { map, withHeaders, onFailure } = this.#options;
    if (map?.domains?.has(request.domain) === false) {
      throw new ForeignDomain(
        `domain: expected one of the map's domains, got ${JSON.stringify(request.domain.slice(0, 100))}`,
      );
    }
    const failures: Undecided[] = [];
    const findings = await Promise.all(questionsOf(request, map).map((question) => this.#find(question, failures)));
    const answer = answerOf(findings, withHeaders);
    const [failure] = failures;
    // A refusal is certain, whatever the others would have said.
    if (failure === undefined || onFailure !== "error" || answer.overallCode === "OVER_LIMIT") return answer;
    throw failure;
  }

  /** @param failures receives why nobody decided */
  async #find(question: Question | undefined, failures: Undecided[]): Promise<Finding> {
    if (question === undefined || this.#options.unknown.has(question.policy)) return unlimited;
    try {
      const decision = await this.#ask(question);
      if (decision.source !== "failure") {
        this.#options.unknown.remove(question.policy);
        return findingOf(decision);
      }
      return this.#fail(new Undecided(decision.failure ?? "nobody answered", false), "gateway", failures);
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      return this.#hearMistake(question, error, failures);
    }
  }

  #ask({ policy, key, cost, isPeek }: Question): Promise<Decision> {
    const { client } = this.#options;
    return isPeek ? client.peek(policy, key) : client.check(policy, key, { cost });
  }

  #hearMistake({ policy }: Question, error: SluiceError, failures: Undecided[]): Finding {
    if (error.code === "policy-not-found") {
      this.#options.unknown.add(policy);
      return unlimited;
    }
    // If it were an error, whoever writes nonsense into a header would pass without a limit: Envoy lets pass what fails.
    if (
      error.code === "invalid-request" &&
      error.errors.length > 0 &&
      error.errors.every(({ path }) => oneValue.test(path))
    ) {
      return refused;
    }
    const hint = error.code === "unauthorized" ? "SLUICE_RLS_TOKEN: " : `policy ${policy}: `;
    return this.#fail(new Undecided(`${hint}${error.message}`, true), `${error.code} ${policy}`, failures);
  }

  #fail(failure: Undecided, subject: string, failures: Undecided[]): Finding {
    const { onFailure, reports } = this.#options;
    reports.say(subject, failure.message);
    failures.push(failure);
    return onFailure === "allow" ? unlimited : onFailure === "deny" ? refused : undecided;
  }
}
