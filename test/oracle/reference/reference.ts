// Compares what a world answered, event by event. The documents mostly allow one answer; where they allow several, the reference goes on
// with every state that the answer fits, and it finds a difference when none is left.

import type {
  Answer,
  Ask,
  AskAnswer,
  Check,
  Checks,
  Consumer,
  CounterAnswer,
  CounterRow,
  PolicyDocument,
  Restart,
  World,
  WorldEvent,
} from "../world.ts";
import {
  type Applied,
  applicability,
  applicabilityOfCheck,
  type Circumstances,
  everyLimitOfKey,
  type LimitOfKey,
  limitsOfKey,
} from "./applicability.ts";
import {
  type CheckGroup,
  groupsOf,
  type HeardResult,
  isHeard,
  type Result,
  resultOf,
  resultOfRefusal,
  resultWords,
} from "./check-results.ts";
import { type Counter, type Look, look, type Moment, released, toppedUp } from "./counters.ts";
import { isSettled, lookAhead, settled } from "./debts.ts";
import { type Limit, policyItem } from "./limits.ts";
import { floorDivide, largest, least } from "./rational.ts";

/** Counters by name. What was never used is not there. */
type Store = ReadonlyMap<string, Counter>;

/** What is shown of a limit. */
interface Shown {
  readonly policyHeader: string;
  readonly limit: Limit;
  readonly remaining: bigint;
  readonly resetsUs: readonly bigint[];
}

/** One thing that the documents allow a request to hear. */
interface Outcome {
  readonly status: number;
  /** The headers show one of these; none: there are no such headers. */
  readonly shown: readonly Shown[];
  /** undefined: there is no such header. */
  readonly retryAfter: bigint | undefined;
  /** The same before it is rounded, of a refusal by limits. */
  readonly retryAfterUs: bigint | "never";
  readonly violated: readonly string[];
  /** undefined: it is not compared. */
  readonly body?: string | undefined;
  readonly delayUs: bigint;
  readonly marks: readonly string[];
  readonly store: Store;
  /** What the worker may remember of refusals by Redis, by worker, policy, counters and cost. */
  readonly heard: Heard;
}

type Heard = ReadonlyMap<string, Refused>;

/** A refusal by Redis, which the worker that heard it remembers until it can first change. */
interface Refused {
  readonly atUs: bigint;
  /** "never": waiting does not help. */
  readonly retryUs: bigint | "never";
  readonly refusing: readonly Shown[];
}

export interface Difference {
  /** Which event of the world. */
  readonly index: number;
  /** What was expected, and what came. */
  readonly words: string;
}

/** More states than these are not followed: the world ends there. */
const mostStates = 64;

export interface Compared {
  readonly difference: Difference | undefined;
  readonly decisions: number;
  readonly refusals: number;
  /** Whether so much was left open that the rest was not compared. */
  readonly gaveUp: boolean;
}

export function compare(world: World, answers: readonly Answer[]): Compared {
  const reference = new Reference(world);
  let refusals = 0;
  let decisions = 0;
  for (const [index, event] of world.events.entries()) {
    const answer = answers[index];
    if (answer === undefined) break;
    const words = reference.compare(event, answer, index);
    if (event.do === "ask" || event.do === "check") {
      decisions += event.do === "ask" ? 1 : event.checks.length;
      const { status, body } = answer as AskAnswer;
      if (status !== 200 || body.startsWith('{"allowed":false')) refusals += 1;
    }
    if (words !== undefined) return { difference: { index, words }, decisions, refusals, gaveUp: false };
    if (reference.states > mostStates) return { difference: undefined, decisions, refusals, gaveUp: true };
  }
  return { difference: undefined, decisions, refusals, gaveUp: false };
}

class Reference {
  readonly #policies = new Map<string, PolicyDocument>();
  readonly #consumers = new Map<string, Consumer>();
  /** States of all counters that fit what was heard, by gateway; gateways share those of policies of scope `cluster`. */
  #stores: readonly Store[] = [new Map()];
  #nowUs: bigint;
  readonly #redisAheadUs: bigint;
  #elapsedUs = 0n;
  /** Requests whose responses have not been charged yet, and when these have been sent. */
  #sent: readonly { readonly request: number; readonly endsUs: bigint }[] = [];
  readonly #refused = new Map<string, readonly Refused[]>();
  /** Whether clocks have stepped since refusals were remembered. */
  #hasStepped = false;
  /** Requests that have not ended, and when they end. */
  #open: readonly { readonly request: number; readonly endsUs: bigint }[] = [];

  constructor({ startMs, redisAheadUs, policies, consumers = [] }: World) {
    this.#redisAheadUs = BigInt(redisAheadUs);
    this.#nowUs = BigInt(startMs) * 1_000n;
    for (const policy of policies) this.#policies.set(policy.name, policy);
    for (const consumer of consumers) this.#consumers.set(consumer.id, consumer);
  }

  get #circumstances(): Circumstances {
    return { consumers: this.#consumers, nowMs: Number(this.#nowUs / 1_000n) };
  }

  get states(): number {
    return this.#stores.length;
  }

  /** @returns in words how the answer differs from all that the documents allow; undefined: it does not */
  compare(event: WorldEvent, answer: Answer, request: number): string | undefined {
    const afterUs = BigInt(event.afterMs) * 1_000n;
    this.#nowUs += afterUs;
    this.#elapsedUs += afterUs;
    this.#release();
    this.#settle();
    switch (event.do) {
      case "step":
        this.#hasStepped = true;
        if (event.byMs < 0) this.#stores = this.#stores.map((store) => seenBy(store, this.#nowUs));
        this.#nowUs += BigInt(event.byMs) * 1_000n;
        return undefined;
      case "reload":
      case "restart":
        this.#restart(event);
        return undefined;
      case "put":
        this.#policies.set(event.policy.name, event.policy);
        return undefined;
      case "delete":
        this.#policies.delete(event.policy);
        return undefined;
      case "put-consumer":
        this.#consumers.set(event.consumer.id, event.consumer);
        return undefined;
      case "delete-consumer":
        this.#consumers.delete(event.id);
        return undefined;
      case "ask":
        return this.#judgeAsk(event, answer as AskAnswer, request);
      case "check":
        return this.#judgeChecks(event, answer as AskAnswer, request);
      case "reset":
      case "top-up":
      case "read":
        return this.#judgeCounter(event, answer as CounterAnswer);
    }
  }

  /** On a node, time is in whole ms. */
  #moment(request: number, scope: PolicyDocument["scope"]): Moment {
    const isShared = scope === "cluster";
    return { nowUs: isShared ? this.#nowUs + this.#redisAheadUs : this.#nowUs, isShared, request };
  }

  /** Other workers remember no refusal. Shared memory outlives a reload only. */
  #restart({ do: how, gateway }: Restart): void {
    for (const name of this.#refused.keys()) if (name.startsWith(`${gateway} `)) this.#refused.delete(name);
    if (how === "reload") return;
    this.#stores = distinct(
      this.#stores.map((store) => new Map([...store].filter(([name]) => !name.startsWith(`${gateway} `)))),
    );
  }

  #release(): void {
    const ended = this.#open.filter(({ endsUs }) => endsUs <= this.#elapsedUs);
    if (ended.length === 0) return;
    this.#open = this.#open.filter(({ endsUs }) => endsUs > this.#elapsedUs);
    this.#stores = this.#stores.map((store) => {
      const next = new Map(store);
      for (const [name, counter] of store) {
        if (counter.kind !== "slots") continue;
        let left = counter;
        for (const { request } of ended) left = released(left, request);
        next.set(name, left);
      }
      return next;
    });
  }

  /** Charges the responses that have been sent, a moment later. Those of one moment are charged in any order, or together. */
  #settle(): void {
    const due = this.#sent.filter(({ endsUs }) => endsUs <= this.#elapsedUs);
    for (const endsUs of new Set(due.map((one) => one.endsUs))) {
      const requests = due.filter((one) => one.endsUs === endsUs).map(({ request }) => request);
      const atUs = this.#nowUs - (this.#elapsedUs - endsUs);
      const isSure = endsUs + settlesUs <= this.#elapsedUs;
      this.#stores = distinct(
        this.#stores.flatMap((store) => {
          const all = coursesOf(requests).map((course) =>
            course.reduce((one, together) => this.#settledOf(one, together, atUs), store),
          );
          return isSure ? all : [...all, store];
        }),
      );
    }
    this.#sent = this.#sent.filter(({ endsUs }) => endsUs + settlesUs > this.#elapsedUs);
  }

  #settledOf(store: Store, requests: readonly number[], atUs: bigint): Store {
    const next = new Map(store);
    const owed = new Map<string, { readonly limit: Limit; readonly units: bigint }>();
    for (const [name, response] of store) {
      if (response.kind !== "response" || !requests.includes(response.request)) continue;
      next.delete(name);
      for (const { limit, counter } of response.owed) {
        owed.set(counter, { limit, units: response.units + (owed.get(counter)?.units ?? 0n) });
      }
    }
    for (const [counter, { limit, units }] of owed) {
      const isShared = !isOfNode(counter);
      const nowUs = isShared ? atUs + this.#redisAheadUs : atUs;
      next.set(counter, settled(next.get(counter), limit, units, { nowUs, isShared, request: 0 }));
    }
    return next;
  }

  #judgeAsk(ask: Ask, answer: AskAnswer, request: number): string | undefined {
    const outcomes = this.#stores.flatMap((store) => this.#outcomes(ask, store, request));
    const fitting = outcomes.filter((outcome) => mismatches(outcome, answer).length === 0);
    if (fitting.length === 0) return wordsOf(outcomes, answer);
    this.#stores = distinct(fitting.map(({ store }) => store));
    this.#remember(fitting);
    // A request that is refused returns the slots that policies in shadow mode have counted.
    const serviceUs = answer.status === 200 ? BigInt(ask.serviceMs) * 1_000n : 0n;
    const endsUs = this.#elapsedUs + BigInt(answer.waitedUs) + serviceUs;
    this.#open = [...this.#open, { request, endsUs }];
    const isOwed = (one: Counter) => one.kind === "response" && one.request === request;
    if (this.#stores.some((store) => [...store.values()].some(isOwed))) {
      const sent = [...this.#sent, { request, endsUs: floorDivide(endsUs, 1_000n) * 1_000n }];
      this.#sent = sent.sort((a, b) => Number(a.endsUs - b.endsUs));
    }
    return undefined;
  }

  #remember(fitting: readonly { readonly heard: Heard }[]): void {
    for (const { heard } of fitting) {
      for (const [name, refused] of heard) {
        const others = (this.#refused.get(name) ?? []).filter((one) => !isSameRefusal(one, refused));
        this.#refused.set(name, [...others, refused].slice(-mostRemembered));
      }
    }
  }

  #judgeChecks(event: Checks, answer: AskAnswer, request: number): string | undefined {
    const status = this.#statusOf(event.checks);
    if (status !== 200 || answer.status !== 200) {
      return answer.status === status ? undefined : `expected status ${status}; got ${answer.status}, ${answer.body}`;
    }
    const heard = JSON.parse(answer.body) as { readonly results: readonly HeardResult[] };
    const all = this.#stores.flatMap((store) => this.#checked(event, store, request));
    const fitting = all.filter(({ results, refused }) =>
      results.every((one, i) => isHeard(one, heard.results[i] as HeardResult, refused && event.mode === "all")),
    );
    if (fitting.length === 0) {
      const expected = new Set(all.map(({ results }) => results.map(resultWords).join(", ")));
      return `expected ${[...expected].join(" or ")}; got ${answer.body}`;
    }
    this.#stores = distinct(fitting.map(({ course, refused }) => (refused ? course.kept : course.charged)));
    this.#remember(fitting.map(({ course }) => course));
    return undefined;
  }

  /** @returns 200, or of what kind the error is */
  #statusOf(checks: readonly Check[]): number {
    if (checks.some(({ policy }) => !this.#policies.has(policy))) return 404;
    const isWrong = checks.some(({ key, plan, peek, policy: name }) => {
      const { plans, planBy = "", key: parts, cost } = this.#policies.get(name) as PolicyDocument;
      // Nobody would report the number of bytes.
      if (isSettled({ cost })) return true;
      if (plan !== undefined && (plans === undefined || planBy === "consumer" || parts.includes(planBy))) return true;
      if (plan !== undefined && !Object.hasOwn(plans ?? {}, plan)) return true;
      const policy = this.#policies.get(name) as PolicyDocument;
      const own = limitsOfKey(policy, key, this.#consumers, plan);
      return peek !== true && own.some(({ limit }) => limit.algorithm === "concurrency");
    });
    return isWrong ? 400 : 200;
  }

  /** All that the documents allow these checks to hear. Redis decides those that are by themselves in any order. */
  #checked(event: Checks, store: Store, request: number): Checked[] {
    const groups = groupsOf(event);
    const areInRedis = (one: CheckGroup) =>
      one.check.peek !== true && this.#policies.get(one.check.policy)?.scope === "cluster";
    const others = groups.filter((one) => !areInRedis(one));
    const inRedis = groups.filter(areInRedis);
    const orders = event.mode === "all" ? [inRedis] : ordersOf(inRedis);
    return orders.flatMap((order) => this.#checkedInOrder([...others, ...order], event, store, request));
  }

  #checkedInOrder(
    groups: readonly CheckGroup[],
    { checks, mode, gateway, worker }: Checks,
    store: Store,
    request: number,
  ): Checked[] {
    const begin: Course = { charged: store, kept: store, shown: [], delayUs: 0n, marks: [], heard: new Map() };
    let all: Checked[] = [{ course: begin, refused: false, hasRefusedPeek: false, results: [] }];
    const areTogether = mode === "all";
    const isAlone = !areTogether || groups.length === 1;
    for (const { check, places } of groups) {
      all = all.flatMap((one) =>
        this.#checkedOne(
          check,
          places.map((i) => checks[i] as Check),
          one.course,
          { gateway, worker, request, isAlone, hasRefusedPeek: areTogether && one.hasRefusedPeek },
        ).map((decided) => {
          const { charged, kept } = decided.course;
          const results = [...one.results];
          for (const place of places) results[place] = decided.result;
          return {
            course: { ...decided.course, kept: areTogether ? kept : charged },
            refused: one.refused || !decided.result.allowed,
            hasRefusedPeek: one.hasRefusedPeek || (check.peek === true && !decided.result.allowed),
            results,
          };
        }),
      );
    }
    return all;
  }

  /** @param together the checks of the same policy and key, with this one */
  #checkedOne(
    check: Check,
    together: readonly Check[],
    course: Course,
    { gateway, worker, request, isAlone, hasRefusedPeek }: CheckPlace,
  ): { readonly course: Course; readonly result: Result }[] {
    const policy = this.#policies.get(check.policy) as PolicyDocument;
    const applied = applicabilityOfCheck(policy, check, this.#circumstances);
    if ("passes" in applied) return [{ course, result: { allowed: true, reasons: [applied.reason, "shadow"] } }];
    if ("statuses" in applied) return [{ course, result: { allowed: false, reasons: ["key-missing"] } }];
    const cost = together.reduce((sum, one) => {
      const other = applicabilityOfCheck(policy, one, this.#circumstances);
      return sum + ("cost" in other ? other.cost : 0n);
    }, 0n);
    const { limits, mode } = applied;
    const place = policy.scope === "cluster" ? "" : `${gateway} `;
    const names = limits.map(({ counter }) => place + counter);
    const moment = this.#moment(request, policy.scope);
    const looksAt = (units: bigint) =>
      limits.map(({ limit }, i) => look(course.kept.get(names[i] as string), limit, units, moment));
    const isPeek = check.peek === true;
    const nothing = combinations(looksAt(0n));
    const refusalName = nameOfRefusal({ gateway, worker }, names, limits, cost);
    const fresh = combinations(looksAt(cost)).flatMap((looks, i) => {
      const isAllowed = looks.every((one) => one.allowed);
      const isShadow = mode === "shadow";
      const kept = withCounters(course.kept, names, looks, isAllowed ? (isShadow ? "charged" : "refunded") : "kept");
      const charged = withCounters(course.charged, names, looks, isAllowed ? "charged" : "kept");
      const result: Result = isShadow
        ? { allowed: true, reasons: ["shadow"] }
        : resultOf(applied, looks, nothing[i] as Look[], isPeek);
      const untouched = { course, result };
      if (isPeek) return [untouched];
      const refused = isAllowed || isShadow ? undefined : refusedBy(policy, limits, looks, moment);
      const heard = refused === undefined ? course.heard : new Map([...course.heard, [refusalName, refused]]);
      const touched = { course: { ...course, charged, kept, heard }, result };
      // Nothing says whether what another check refuses is only looked at, or charged and refunded.
      if (hasRefusedPeek) return [untouched, touched];
      const isRefundable = !isAlone && isAllowed && !isShadow;
      return isRefundable ? [{ course: { ...touched.course, kept: course.kept }, result }, touched] : [touched];
    });
    if (mode === "shadow") return fresh;
    const isLikely = fresh.some(({ result }) => !result.allowed);
    const remembered = this.#remembered(refusalName, moment, isLikely).map(({ refusing, retryUs }) => ({
      course,
      result: resultOfRefusal(refusing, retryUs),
    }));
    return [...fresh, ...remembered];
  }

  #outcomes(ask: Ask, store: Store, request: number): Outcome[] {
    const policies = [...this.#policies.values()]
      .filter(({ match }) => match.paths.includes(ask.path))
      .sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0) || (a.name < b.name ? -1 : 1));
    const begin: Course = { charged: store, kept: store, shown: [], delayUs: 0n, marks: [], heard: new Map() };
    return this.#follow(policies, [], ask, request, begin);
  }

  /** Asks the first of these policies, and then the others. @param last those that one call to Redis decides after all others */
  #follow(
    policies: readonly PolicyDocument[],
    last: readonly Applying[],
    ask: Ask,
    request: number,
    course: Course,
  ): Outcome[] {
    const [policy, ...others] = policies;
    if (policy === undefined) return this.#together(last, ask, request, course);
    const applied = applicability(policy, ask, this.#circumstances);
    if ("passes" in applied) return this.#follow(others, last, ask, request, course);
    if ("statuses" in applied) {
      return applied.statuses.map((status) => ({ ...refusal(course, []), status, retryAfter: undefined, shown: [] }));
    }
    if (isLast(policy, applied)) return this.#follow(others, [...last, { policy, applied }], ask, request, course);
    const { fresh, remembered } = this.#decisions(policy, applied, ask, course, request);
    return [...fresh, ...remembered].flatMap((decision) => {
      const next = { ...course, ...decision.course };
      return decision.outcome === undefined ? this.#follow(others, last, ask, request, next) : [decision.outcome];
    });
  }

  /** One call to Redis decides all of these, unless the worker remembers that one of them refuses. */
  #together(policies: readonly Applying[], ask: Ask, request: number, course: Course): Outcome[] {
    type Asked = { readonly course: Course; readonly refusals: readonly Outcome[] };
    let all: readonly Asked[] = [{ course, refusals: [] }];
    const alone: Outcome[] = [];
    for (const { policy, applied } of policies) {
      const { remembered } = this.#decisions(policy, applied, ask, course, request);
      alone.push(...remembered.flatMap(({ outcome }) => outcome ?? []));
      all = all.flatMap((one) =>
        this.#decisions(policy, applied, ask, one.course, request, "kept").fresh.map((decision): Asked => {
          const { outcome } = decision;
          const next = { ...one.course, ...decision.course };
          if (outcome === undefined) return { course: next, refusals: one.refusals };
          return {
            course: { ...next, kept: outcome.store, heard: outcome.heard },
            refusals: [...one.refusals, outcome],
          };
        }),
      );
    }
    return [...all.map((one) => (one.refusals.length === 0 ? passed(one.course) : joined(one))), ...alone];
  }

  /** All that the limits of one policy may decide. @param ifRefused what becomes of its counters if another policy refuses */
  #decisions(
    policy: PolicyDocument,
    applied: Applied,
    ask: Ask,
    course: Course,
    request: number,
    ifRefused: "refunded" | "kept" = "refunded",
  ): Decisions {
    const { limits, cost, mode } = applied;
    const place = policy.scope === "cluster" ? "" : `${ask.gateway} `;
    const names = limits.map(({ counter }) => place + counter);
    const moment = this.#moment(request, policy.scope);
    const settles = isSettled(policy);
    const looks = limits.map(({ limit }, i) => {
      const counter = course.kept.get(names[i] as string);
      return settles ? lookAhead(counter, limit, moment) : look(counter, limit, cost, moment);
    });
    const owed = limits.map(({ limit }, i) => ({ limit, counter: names[i] as string }));
    const response: Counter = { kind: "response", request, units: BigInt(ask.bytes ?? 0), owed };
    const responseName = `${place}response ${request} ${policy.name}`;
    const name = nameOfRefusal(ask, names, limits, cost);
    const decisions = combinations(looks).flatMap((own): Decision[] => {
      const allowed = own.every((one) => one.allowed);
      const kept = withCounters(course.kept, names, own, allowed ? ifRefused : "kept");
      const counted = withCounters(course.charged, names, own, allowed ? "charged" : "kept");
      const isOwed = settles && allowed && response.units > 0n;
      const charged = isOwed ? withCounter(counted, responseName, response) : counted;
      if (mode === "shadow") {
        // A policy in shadow mode keeps what it has counted, whatever the others decide.
        return [
          {
            course: { kept: withCounters(course.kept, names, own, allowed ? "charged" : "kept"), charged },
            outcome: undefined,
          },
        ];
      }
      const shown = shownOf(limits, own);
      const delayUs = largest(course.delayUs, ...own.map((one) => one.delayUs));
      if (allowed) {
        return [{ course: { kept, charged, shown: [...course.shown, ...shown], delayUs }, outcome: undefined }];
      }
      const refusing = shown.filter((_, i) => own[i]?.allowed === false);
      const retries = own.filter((one) => !one.allowed).map(({ retryUs }) => retryUs);
      const refused = refusedBy(policy, limits, own, moment);
      const heard = refused === undefined ? course.heard : new Map([...course.heard, [name, refused]]);
      return overLimit(policy, { ...course, kept, charged, heard }, refusing, retries);
    });
    if (mode === "shadow") return { fresh: decisions, remembered: [] };
    const isLikely = decisions.some(({ isRefusal }) => isRefusal);
    const remembered = this.#remembered(name, moment, isLikely);
    return {
      fresh: decisions,
      remembered: remembered.flatMap(({ refusing, retryUs }) => overLimit(policy, course, refusing, [retryUs])),
    };
  }

  /** What a worker may say that remembers a refusal. @param isLikely whether the counters refuse now */
  #remembered(name: string, moment: Moment, isLikely: boolean): Refused[] {
    // It cannot have changed by itself; but clocks may have stepped since.
    return this.#recalled(name, moment).filter(
      ({ retryUs }) => isLikely || this.#hasStepped || (retryUs !== "never" && retryUs <= questionUs),
    );
  }

  /** What a worker says of a refusal that it remembers. Others may have charged the counters since. */
  #recalled(name: string, { nowUs }: Moment): Refused[] {
    return (this.#refused.get(name) ?? []).flatMap(({ atUs, retryUs, refusing }) => {
      const passedUs = nowUs - atUs;
      const untilUs = retryUs === "never" ? longestRememberedUs : least(retryUs, longestRememberedUs);
      // A worker remembers by its stopwatch, which does not step back with the clock.
      if ((passedUs < -questionUs && retryUs !== "never") || passedUs > untilUs) return [];
      // The worker counts from its question, which is some µs older than the answer.
      return [passedUs, passedUs + questionUs, passedUs - questionUs].map((us) => ({
        atUs,
        retryUs: retryUs === "never" ? retryUs : retryUs - us,
        refusing: refusing.map((one) => ({ ...one, resetsUs: one.resetsUs.map((reset) => largest(reset - us, 0n)) })),
      }));
    });
  }

  #judgeCounter(event: Extract<WorldEvent, { do: "read" | "reset" | "top-up" }>, answer: CounterAnswer) {
    const policy = this.#policies.get(event.policy);
    if (policy === undefined) return undefined;
    if (event.do !== "reset" && !Array.isArray(answer.limits)) return "expected limits; got no answer";
    const place = policy.scope === "cluster" ? "" : `${event.gateway} `;
    const limits = limitsOfKey(policy, event.key, this.#consumers);
    const expected: string[] = [];
    const changed = this.#stores.flatMap((store): Store[] => {
      if (event.do === "reset") {
        const names = new Set(
          everyLimitOfKey(policy, event.key, this.#consumers).map(({ counter }) => place + counter),
        );
        return [new Map([...store].filter(([name]) => !names.has(name)))];
      }
      if (event.do !== "top-up") return [store];
      return limits.reduce<Store[]>(
        (stores, { limit, counter }) =>
          stores.flatMap((one) =>
            toppedUp(one.get(place + counter), limit, BigInt(event.units), this.#moment(0, policy.scope)).map((next) =>
              withCounter(one, place + counter, next),
            ),
          ),
        [store],
      );
    });
    const fitting = changed.flatMap((store) => {
      const looks = limits.map(({ limit, counter }) =>
        look(store.get(place + counter), limit, 0n, this.#moment(0, policy.scope)),
      );
      // The gateway reads a counter that it has reset when its workers have agreed, some ms later.
      if (event.do === "reset") return [store];
      const fits = combinations(looks).some((own) => {
        const rows = own.map(({ remaining, resetsUs }, i) => {
          const { name, capacity } = (limits[i] as LimitOfKey).limit;
          return { name, limit: Number(capacity), remaining: Number(remaining), resetsUs };
        });
        expected.push(rows.map((row) => rowWords(row)).join(", "));
        return rows.every((row, i) => {
          const heard = answer.limits[i];
          return (
            heard?.name === row.name &&
            heard.limit === row.limit &&
            heard.remaining === row.remaining &&
            (row.resetsUs.length === 0 || row.resetsUs.some((us) => written(us) === written(heard.resetAfterUs)))
          );
        });
      });
      return fits ? [store] : [];
    });
    if (fitting.length === 0) {
      const got = answer.limits.map((row) => rowWords({ ...row, resetsUs: [row.resetAfterUs] })).join(", ");
      return `expected ${[...new Set(expected)].join(" or ")}; got ${got}`;
    }
    this.#stores = distinct(fitting);
    return undefined;
  }
}

/** A response that has been sent is charged within this time. */
const settlesUs = 1_000n;
const longestRememberedUs = 10_000_000n;
/** Refusals of one kind that are kept: a worker may remember any of them. */
const mostRemembered = 16;
/** What the questions to Redis of one moment take in virtual time, at most. */
const questionUs = 200n;

/** What has happened to a request so far. */
interface Course {
  /** The counters if the request passes, and if a later policy refuses it. */
  readonly charged: Store;
  readonly kept: Store;
  readonly shown: readonly Shown[];
  readonly delayUs: bigint;
  readonly marks: readonly string[];
  readonly heard: Heard;
}

interface Decision {
  readonly course: Partial<Course>;
  /** undefined: the request goes on to the next policy. */
  readonly outcome: Outcome | undefined;
  readonly isRefusal?: boolean;
}

/** Who decides a check, and what is known of its request. */
interface CheckPlace extends Pick<Checks, "gateway" | "worker">, Pick<Checked, "hasRefusedPeek"> {
  readonly request: number;
  /** Whether no other check can have it refunded. */
  readonly isAlone: boolean;
}

/** What becomes of a request of the check API. */
interface Checked {
  readonly course: Course;
  readonly refused: boolean;
  /** Whether a peek refuses, so that no check of the request is charged. */
  readonly hasRefusedPeek: boolean;
  readonly results: readonly Result[];
}

interface Decisions {
  readonly fresh: readonly Decision[];
  /** What a worker may say that remembers a refusal by Redis. */
  readonly remembered: readonly Decision[];
}

/** A policy that counts a request. */
interface Applying {
  readonly policy: PolicyDocument;
  readonly applied: Applied;
}

/** By what a worker remembers a refusal by Redis. */
function nameOfRefusal(
  { gateway, worker }: { readonly gateway: number; readonly worker: number },
  names: readonly string[],
  limits: readonly LimitOfKey[],
  cost: bigint,
): string {
  return [gateway, worker, ...names, ...limits.map(({ limit }) => limit.quota), cost].join(" ");
}

/** @returns undefined: no worker remembers this refusal */
function refusedBy(
  { scope }: PolicyDocument,
  limits: readonly LimitOfKey[],
  looks: readonly Look[],
  { nowUs }: Moment,
): Refused | undefined {
  const retries = looks.filter((one) => !one.allowed).map(({ retryUs }) => retryUs);
  const retryUs = retries.includes("never") ? "never" : longestOf(retries);
  if (scope !== "cluster" || retryUs === 0n) return undefined;
  return { atUs: nowUs, retryUs, refusing: shownOf(limits, looks).filter((_, i) => looks[i]?.allowed === false) };
}

/** Of one moment, there may be several: a limit may refuse in some states only. */
function isSameRefusal(one: Refused, other: Refused): boolean {
  const words = ({ refusing }: Refused) => refusing.map(shownWords).join();
  return one.atUs === other.atUs && one.retryUs === other.retryUs && words(one) === words(other);
}

function shownOf(limits: readonly LimitOfKey[], looks: readonly Look[]): Shown[] {
  const policyHeader = limits.map(({ limit }) => policyItem(limit)).join(", ");
  return looks.map(({ remaining, resetsUs }, i) => ({
    policyHeader,
    limit: limits[i]?.limit as Limit,
    remaining,
    resetsUs,
  }));
}

/** Policies of scope cluster that can only refuse, and do, come after all others. */
function isLast(policy: PolicyDocument, { mode }: Applied): boolean {
  const { scope, onLimit } = policy;
  return scope === "cluster" && mode === "enforce" && (onLimit?.action ?? "reject") === "reject" && !isSettled(policy);
}

/** Counters of a node begin with the number of its gateway. */
function isOfNode(counter: string): boolean {
  return !counter.startsWith("[");
}

/** What is heard if several policies refuse together: the response of the one with the longest wait, of equal ones the first. */
function joined({ course, refusals }: { course: Course; refusals: readonly Outcome[] }): Outcome {
  const isLonger = (a: Outcome, b: Outcome) =>
    b.retryAfterUs !== "never" && (a.retryAfterUs === "never" || a.retryAfterUs > b.retryAfterUs);
  const speaks = refusals.reduce((longest, one) => (isLonger(one, longest) ? one : longest));
  const { status, retryAfter, retryAfterUs, shown } = speaks;
  return {
    ...refusal(course, shown),
    status,
    retryAfter,
    retryAfterUs,
    violated: refusals.flatMap((one) => one.violated),
  };
}

/** What becomes of a request that a policy refuses. */
function overLimit(
  policy: PolicyDocument,
  course: Course,
  refusing: readonly Shown[],
  retries: readonly Look["retryUs"][],
): Decision[] {
  const { status = 429, action, header = "", response } = policy.onLimit ?? { action: "reject" };
  if (response !== undefined) {
    const { status: cheap, body } = response;
    const outcome = { ...refusal(course, refusing), status: cheap, body };
    return [{ course, outcome, isRefusal: true }];
  }
  if (action !== "reject") {
    // Nothing says which of several limits that refuse is the nearest to refusing.
    return refusing.map((one) => ({
      course: {
        ...course,
        shown: [...course.shown, one],
        marks: [...course.marks, header],
      },
      outcome: undefined,
      isRefusal: true,
    }));
  }
  const violated = refusing.map(({ limit }) => limit.name);
  const retryAfterUs = retries.includes("never") ? "never" : longestOf(retries);
  const retryAfter = retryAfterOf(retries);
  return [
    { course, outcome: { ...refusal(course, refusing), status, retryAfter, retryAfterUs, violated }, isRefusal: true },
  ];
}

function passed({ charged, shown, delayUs, marks, heard }: Course): Outcome {
  const fewest = shown.reduce<bigint | undefined>(
    (least, { remaining }) => (least === undefined || remaining < least ? remaining : least),
    undefined,
  );
  return {
    status: 200,
    shown: shown.filter(({ remaining }) => remaining === fewest),
    retryAfter: undefined,
    retryAfterUs: 0n,
    violated: [],
    delayUs,
    marks,
    store: charged,
    heard,
  };
}

function refusal({ kept, heard }: Course, refusing: readonly Shown[]): Outcome {
  return {
    heard,
    status: 429,
    shown: refusing,
    retryAfter: undefined,
    retryAfterUs: 0n,
    violated: [],
    delayUs: 0n,
    marks: [],
    store: kept,
  };
}

function retryAfterOf(retries: readonly Look["retryUs"][]): bigint | undefined {
  if (retries.includes("never")) return undefined;
  return largest(1n, seconds(longestOf(retries)));
}

function longestOf(retries: readonly Look["retryUs"][]): bigint {
  return largest(0n, ...retries.filter((us) => typeof us === "bigint"));
}

function seconds(us: bigint): bigint {
  return (us + 999_999n) / 1_000_000n;
}

function withCounters(
  store: Store,
  names: readonly string[],
  looks: readonly Look[],
  as: "charged" | "kept" | "refunded",
): Store {
  return looks.reduce((next, one, i) => withCounter(next, names[i] as string, one[as]), store);
}

function withCounter(store: Store, name: string, counter: Counter | undefined): Store {
  const next = new Map(store);
  if (counter === undefined) next.delete(name);
  else next.set(name, counter);
  return next;
}

/** The counters when the clock steps back from this time. */
function seenBy(store: Store, nowUs: bigint): Store {
  return new Map([...store].map(([name, one]) => [name, { ...one, seenUs: largest(nowUs, one.seenUs ?? 0n) }]));
}

function combinations<Item>(lists: readonly (readonly Item[])[]): Item[][] {
  return lists.reduce<Item[][]>((all, list) => all.flatMap((one) => list.map((item) => [...one, item])), [[]]);
}

function ordersOf<Item>(items: readonly Item[]): Item[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((first, i) => ordersOf(items.filter((_, k) => k !== i)).map((rest) => [first, ...rest]));
}

/** In which order these may be charged, some of them together. */
function coursesOf(requests: readonly number[]): number[][][] {
  const [first, ...others] = requests;
  if (first === undefined) return [[]];
  return coursesOf(others).flatMap((course) => [
    ...course.map((_, i) => course.map((together, k) => (k === i ? [first, ...together] : together))),
    ...[...course, []].map((_, i) => [...course.slice(0, i), [first], ...course.slice(i)]),
  ]);
}

function distinct(stores: readonly Store[]): Store[] {
  if (stores.length < 2) return [...stores];
  const byText = new Map<string, Store>();
  for (const store of stores) {
    const entries = [...store].sort(([a], [b]) => (a < b ? -1 : 1));
    byText.set(
      JSON.stringify(entries, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
      store,
    );
  }
  return [...byText.values()];
}

/** nginx' timers count in whole ms, and one that is due waits for the loop. */
const latestUs = 2_000n;

/** What of the answer differs from this outcome. */
function mismatches(outcome: Outcome, answer: AskAnswer): string[] {
  const found: string[] = [];
  const { headers } = answer;
  if (answer.status !== outcome.status) found.push(`status ${outcome.status}`);
  if (headers["retry-after"] !== outcome.retryAfter?.toString()) found.push(`Retry-After ${outcome.retryAfter}`);
  const waited = BigInt(Math.round(answer.waitedUs));
  const least = waited - BigInt(answer.doubtUs ?? 0);
  if (waited < outcome.delayUs || least > outcome.delayUs + latestUs) found.push(`waits ${outcome.delayUs} µs`);
  // The service hears nothing of a request that is refused.
  if (answer.status === 200 && [...outcome.marks].sort().join("\n") !== answer.marks.split("\n").sort().join("\n"))
    found.push(`marks ${outcome.marks}`);
  if (outcome.body !== undefined && outcome.body !== answer.body) found.push(`body ${outcome.body}`);
  if (outcome.violated.length > 0 && !outcome.violated.every((name) => answer.body.includes(`"${name}"`))) {
    found.push(`violated ${outcome.violated}`);
  }
  if (
    outcome.shown.length === 0 ? headers["ratelimit"] !== undefined : !outcome.shown.some((one) => shows(one, headers))
  ) {
    found.push(`shows ${outcome.shown.map(shownWords).join(" or ") || "nothing"}`);
  }
  return found;
}

const itemPattern = /^"(.*)";r=(\d+)(?:;t=(\d+))?$/;

function shows({ policyHeader, limit, remaining, resetsUs }: Shown, headers: AskAnswer["headers"]): boolean {
  const [first, ...others] = (headers["ratelimit"] ?? "").split(", ");
  const [, name, r, t] = itemPattern.exec(first ?? "") ?? [];
  const listed = [name, ...others.map((item) => itemPattern.exec(item)?.[1])];
  return (
    listed.every((one, i) => policyHeader.includes(`"${one}";q=`) && listed.indexOf(one) === i) &&
    headers["ratelimit-policy"] === policyHeader &&
    name === limit.name &&
    r === `${remaining}` &&
    headers["x-ratelimit-limit"] === `${limit.capacity}` &&
    headers["x-ratelimit-remaining"] === r &&
    headers["x-ratelimit-reset"] === t &&
    (t === undefined) === limit.isForEver &&
    (resetsUs.length === 0 || resetsUs.some((us) => t === `${seconds(us)}`))
  );
}

function shownWords({ policyHeader, limit, remaining, resetsUs }: Shown): string {
  return `${limit.name} r=${remaining} t=${resetsUs.map(seconds).join("|")} of ${policyHeader}`;
}

function wordsOf(outcomes: readonly Outcome[], answer: AskAnswer): string {
  const fewest = Math.min(...outcomes.map((outcome) => mismatches(outcome, answer).length));
  const nearest = outcomes.filter((outcome) => mismatches(outcome, answer).length === fewest);
  const expected = [...new Set(nearest.map((outcome) => mismatches(outcome, answer).join(", ")))].join(" or ");
  const { status, headers, waitedUs, marks } = answer;
  const shown = ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "retry-after"].map(
    (name) => headers[name] ?? "-",
  );
  return `expected ${expected}; got ${status}, ${shown.join(", ")}, waited ${waitedUs} µs, marks ${marks}, ${answer.body}`;
}

/** As gateways tell control planes of it: in JSON, with 14 digits. The µs of four years have more. */
function written(us: bigint | number | string): string {
  return Number(us).toPrecision(14);
}

type Row = Omit<CounterRow, "resetAfterUs"> & { readonly resetsUs: readonly (bigint | number | string)[] };

function rowWords({ name, limit, remaining, resetsUs }: Row): string {
  return `${name} ${remaining} of ${limit}, all after ${resetsUs.join("|")} µs`;
}
