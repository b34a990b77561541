// Limits how many requests an address and a token may send, and how often an address may sign in and fail. All counting is in
// memory, with the limiter's own token bucket.

import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import type { FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { Counter } from "prom-client";
import type { RequestAllowances } from "../configuration.ts";
import { ApiError } from "../errors/api-error.ts";
import type { ErrorCode } from "../errors/catalogue.ts";
import { Counters } from "../limits/counters.ts";
import { KnownTokens } from "../limits/known-tokens.ts";
import { type Decided, type LimitName, limitNames, rateHeaders, retryAfterHeader } from "../limits/rate-headers.ts";
import { type Caller, ownersOf } from "../rights/caller.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** false: no limit counts requests for this route. */
    readonly limited?: boolean;
  }
  interface FastifyInstance {
    readonly requestLimits: RequestLimits;
  }
  interface FastifyRequest {
    /** What limits decided about this request so far. */
    decided: Decided[];
  }
}

interface LimitOptions {
  readonly allowances: RequestAllowances;
  /** Returns milliseconds of a clock that never steps back. */
  readonly uptimeMs: () => number;
}

export default fp<LimitOptions>(
  async (app, { allowances, uptimeMs }) => {
    const refused = new Counter({
      name: "sluice_control_requests_refused_total",
      help: "Requests answered 429, by the limit that refused them.",
      labelNames: ["limit"] as const,
      registers: [app.metrics.registry],
    });
    for (const limit of limitNames) refused.inc({ limit }, 0);
    app.decorateRequest("decided");
    const limits = new RequestLimits(allowances, uptimeMs, (limit) => refused.inc({ limit }));
    app.decorate("requestLimits", limits);
    app.addHook("onRequest", async (request, reply) => {
      request.decided = [];
      limits.countAddress(request, reply);
    });
  },
  { name: "request-limits", dependencies: ["client-address", "metrics"] },
);

const tooMany = "Too many sign-ins from this address have failed";

export class RequestLimits {
  readonly #ofAddress: Counters | undefined;
  readonly #ofToken: Counters | undefined;
  readonly #failures: Counters | undefined;
  /** Apart from each other: whoever makes very many tokens or sessions makes none of another kind unknown. */
  readonly #known = { gateway: new KnownTokens(), session: new KnownTokens(), token: new KnownTokens() };
  readonly #onRefused: (limit: LimitName) => void;

  constructor(
    { perAddress, perToken, failedSignIns }: RequestAllowances,
    uptimeMs: () => number,
    onRefused: (limit: LimitName) => void,
  ) {
    const countersOf = (allowance: RequestAllowances[keyof RequestAllowances]) =>
      allowance === "off" ? undefined : new Counters(allowance, uptimeMs);
    this.#ofAddress = countersOf(perAddress);
    this.#ofToken = countersOf(perToken);
    this.#failures = countersOf(failedSignIns);
    this.#onRefused = onRefused;
  }

  /** @param callers by the hashes of tokens that were right before, the one that was used last at the end */
  remember(callers: ReadonlyMap<string, Caller>): void {
    for (const [hash, caller] of callers) this.#remember(hash, caller);
  }

  /**
   * Divides all limits among control planes: together they allow what one alone would.
   * @param controlPlanes how many run, this one included
   */
  shareAmong(controlPlanes: number): void {
    for (const counters of [this.#ofAddress, this.#ofToken, this.#failures]) counters?.shareAmong(controlPlanes);
  }

  /** @throws ApiError too-many-requests */
  countAddress(request: FastifyRequest, reply: FastifyReply): void {
    this.#count("address", this.#ofAddress, networkOf(request), request, reply);
  }

  /** Returns whose the credential was when it was right the last time; undefined if it never was. */
  ownersOf(credential: string): readonly string[] | undefined {
    for (const one of Object.values(this.#known)) {
      const owners = one.ownersOf(credential);
      if (owners !== undefined) return owners;
    }
    return undefined;
  }

  /**
   * Finds out who signs in, unless the token has sent too many requests. From an address where too many sign-ins have failed,
   * only tokens that were right before go on: nobody can lock out those who share their address.
   *
   * @param credential the token's hash, or `session/` and the session's id
   * @param find asks the database
   * @param identifiedBy says afterwards which credential it was, if several came with the request
   * @throws ApiError too-many-requests, too-many-failed-sign-ins
   */
  async signIn<Refusal extends string>(
    credential: string,
    request: FastifyRequest,
    reply: FastifyReply,
    find: () => Promise<Caller | Refusal>,
    identifiedBy = () => credential,
  ): Promise<Caller | Refusal> {
    const failures = this.#failures;
    const network = networkOf(request);
    const known = Object.values(this.#known);
    if (this.ownersOf(credential) !== undefined) {
      this.#count("token", this.#ofToken, credential, request, reply);
      const found = await find();
      if (typeof found !== "string") {
        const identified = identifiedBy();
        if (identified !== credential) {
          // What was right once must not give another one a counter more.
          for (const one of known) one.delete(credential);
          this.#count("token", this.#ofToken, identified, request, reply);
        }
        this.#remember(identified, found);
        return found;
      }
      for (const one of known) one.delete(credential);
      failures?.take(network);
      return found;
    }
    // Charged before the answer is known: many at once must not pass together.
    if (failures !== undefined)
      this.#requireTry(failures, network, request, reply, `${tooMany}, and this token was not used here before.`);
    let failed = false;
    try {
      const found = await find();
      failed = typeof found === "string";
      if (typeof found === "string") return found;
      this.#remember(identifiedBy(), found);
      this.#count("token", this.#ofToken, identifiedBy(), request, reply);
      return found;
    } finally {
      if (!failed) failures?.refund(network);
    }
  }

  /**
   * For a sign-in without a credential that could be known before.
   *
   * @param isFailure whether what was thrown counts as a failed sign-in
   * @throws ApiError too-many-failed-sign-ins
   */
  async tryToSignIn<Result>(
    request: FastifyRequest,
    reply: FastifyReply,
    attempt: () => Promise<Result>,
    isFailure: (thrown: unknown) => boolean,
  ): Promise<Result> {
    const failures = this.#failures;
    if (failures === undefined) return attempt();
    const network = networkOf(request);
    this.#requireTry(failures, network, request, reply, `${tooMany}.`);
    let failed = false;
    try {
      return await attempt();
    } catch (thrown) {
      failed = isFailure(thrown);
      throw thrown;
    } finally {
      if (!failed) failures.refund(network);
    }
  }

  #remember(credential: string, caller: Caller): void {
    const kind = caller.isGateway ? "gateway" : credential.startsWith("session/") ? "session" : "token";
    this.#known[kind].add(credential, ownersOf(caller));
  }

  #requireTry(failures: Counters, network: string, request: FastifyRequest, reply: FastifyReply, detail: string): void {
    const decision = failures.take(network);
    if (decision.allowed) return;
    const decided: Decided = { limit: "failed-sign-ins", counters: failures, decision };
    reply.headers(rateHeaders([...request.decided, decided]));
    throw this.#refusal("too-many-failed-sign-ins", decided, detail);
  }

  #count(
    limit: LimitName,
    counters: Counters | undefined,
    key: string,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    if (counters === undefined || request.routeOptions.config?.limited === false) return;
    const decision = counters.take(key);
    const decided = { limit, counters, decision };
    request.decided.push(decided);
    reply.headers(rateHeaders(request.decided));
    if (decision.allowed) return;
    const { quota, windowUs } = counters.rate;
    const perSecond = Number(((quota * 1_000_000) / windowUs).toFixed(1));
    const whose = limit === "address" ? "this address" : "this token";
    throw this.#refusal("too-many-requests", decided, `More than ${perSecond} requests a second came with ${whose}.`);
  }

  #refusal(code: ErrorCode, { limit, decision }: Decided, detail: string): ApiError {
    this.#onRefused(limit);
    const headers = retryAfterHeader(decision);
    return new ApiError(code, `${detail} Try again in ${headers["retry-after"]} s.`, {}, headers);
  }
}

/** IPv6 addresses count by their /64, which is what one customer of a provider gets. */
function networkOf({ address }: FastifyRequest): string {
  return ipPrefix(address, 32, 64);
}
