// Counters in Redis, where gateways keep those of cluster policies: read, forgotten, topped up. Only by their scripts and
// under their keys, so that what is told here is what a gateway would be told.

import { capacity, sizeOf } from "@sluice/limiter/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "@sluice/limiter/compiled/compile.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import type { CounterReading } from "@sluice/limiter/protocol/push-messages.ts";
import type { RedisLink } from "./redis-link.ts";
import type { RedisScripts } from "./redis-scripts.ts";

export class RedisCounters {
  readonly #link: RedisLink;
  readonly #scripts: RedisScripts;

  constructor(link: RedisLink, scripts: RedisScripts) {
    this.#link = link;
    this.#scripts = scripts;
  }

  /** What a request of one unit would be told. Charges nothing. @throws RedisFailure; Error for an odd reply */
  async read(policy: CompiledPolicy, keyValues: string): Promise<CounterReading[]> {
    return Promise.all(
      policy.limits.map(async (limit) => {
        const { remaining, resetAfterUs } = await (policy.deferred
          ? this.#readDeferred(policy, limit, keyValues)
          : this.#readCounter(policy, limit, keyValues));
        return { name: limit.name, capacity: capacity(limit.rate), remaining, resetAfterUs };
      }),
    );
  }

  /** As if they were never used: counters, what is owed beside them, and what is out on leases. @throws RedisFailure */
  async forget(policies: readonly CompiledPolicy[], keyValues: string): Promise<void> {
    const keys = policies.flatMap((policy) => policy.limits.map((limit) => keyOf(policy, limit, keyValues)));
    const ledgers = policies.map((policy) => ledgerKeyOf(policy, keyValues));
    await this.#link.delete([...new Set([...keys.flatMap((key) => [key, `${key}:debt`]), ...ledgers])]);
  }

  /**
   * Gives units back, as far as they count.
   *
   * @param name of a limit; undefined: of every one
   * @throws RedisFailure; Error for an odd reply
   */
  async topUp(policy: CompiledPolicy, keyValues: string, name: string | undefined, units: number): Promise<void> {
    const limits = policy.limits.filter((limit) => name === undefined || limit.name === name);
    const keys = limits.map((limit) => keyOf(policy, limit, keyValues));
    const reply = await this.#link.run(
      this.#scripts.top_up,
      keys,
      limits.flatMap((limit) => [...numbersOf(limit), units]),
    );
    readNumbers([reply], 1);
  }

  async #readCounter(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string) {
    const keys = [keyOf(policy, limit, keyValues)];
    if (policy.store === "leased") keys.push(ledgerKeyOf(policy, keyValues));
    const reply = await this.#link.run(this.#scripts.peek, keys, [...numbersOf(limit), 1]);
    return readReported(reply, 5);
  }

  /** What is owed is part of it. No units: it only asks. */
  async #readDeferred(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string) {
    const key = keyOf(policy, limit, keyValues);
    const reply = await this.#link.run(
      this.#scripts.charge_deferred,
      [key, `${key}:debt`],
      [...numbersOf(limit), onlyTells],
    );
    return readReported(reply, 4);
  }
}

/** To `settle`, in place of units. */
const onlyTells = -1;

/** What peek and settle tell, among so many numbers. */
function readReported(reply: unknown, count: number) {
  const [, remaining, , resetAfterUs] = readNumbers(reply, count) as [number, number, number, number];
  return { remaining, resetAfterUs };
}

/** @throws Error where a server that is no Redis of ours replied */
function readNumbers(reply: unknown, count: number): readonly number[] {
  if (Array.isArray(reply) && reply.length === count && reply.every((each) => typeof each === "number")) return reply;
  throw new Error(`expected a reply of ${count} numbers, got ${describeValue(reply)}`);
}

function keyOf(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): string {
  return `sluice:${policy.counterPrefix}${keyValues}${limit.counterSuffix}`;
}

/** Where Redis notes what gateways have on lease of a policy's units. */
function ledgerKeyOf(policy: CompiledPolicy, keyValues: string): string {
  return `sluice:${policy.counterPrefix}${keyValues}}::leases`;
}

/** What every script is told of a counter. */
function numbersOf({ rate }: CompiledLimit): (string | number)[] {
  return [rate.algorithm, rate.quota, rate.windowUs, sizeOf(rate)];
}
