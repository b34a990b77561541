// Reads, resets and tops up the counters in Redis, where gateways count for policies of cluster scope. It uses only the
// gateways' scripts and keys, so that it reports exactly what a gateway would report.

import { followWindow } from "@sluice/limiter/algorithms/calendar-window.ts";
import { capacity } from "@sluice/limiter/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "@sluice/limiter/compiled/compile.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import type { CounterReading } from "@sluice/limiter/protocol/push-messages.ts";
import { debtKeyOf, keyOf, ledgerKeyOf, scriptNumbers, windowMoments } from "@sluice/limiter/protocol/redis-keys.ts";
import type { RedisLink } from "./redis-link.ts";
import type { RedisScripts } from "./redis-scripts.ts";

export class RedisCounters {
  readonly #link: RedisLink;
  readonly #scripts: RedisScripts;

  constructor(link: RedisLink, scripts: RedisScripts) {
    this.#link = link;
    this.#scripts = scripts;
  }

  /** Returns what a request of one unit would see. Charges nothing. @throws RedisFailure; Error for a malformed reply */
  async read(policy: CompiledPolicy, keyValues: string): Promise<CounterReading[]> {
    return Promise.all(
      policy.limits.map(async (limit) => {
        const { remaining, resetAfterUs } = await (policy.policy.deferred
          ? this.#readDeferred(policy, limit, keyValues)
          : this.#readCounter(policy, limit, keyValues));
        return { name: limit.name, capacity: capacity(limit.rate), remaining, resetAfterUs };
      }),
    );
  }

  /** Deletes the counters as if they had never been used, with their debts and the ledger of leases. @throws RedisFailure */
  async forget(policies: readonly CompiledPolicy[], keyValues: string): Promise<void> {
    const keys = policies.flatMap((policy) => policy.limits.map((limit) => keyOf(policy, limit, keyValues)));
    const ledgers = policies.map((policy) => ledgerKeyOf(policy, keyValues));
    await this.#link.delete([...new Set([...keys.flatMap((key) => [key, debtKeyOf(key)]), ...ledgers])]);
  }

  /**
   * Refunds units, at most as many as are charged and still count.
   *
   * @param name of one limit; undefined refunds to all limits
   * @throws RedisFailure; Error for a malformed reply
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
    if (policy.policy.store === "leased") keys.push(ledgerKeyOf(policy, keyValues));
    const reply = await this.#link.run(this.#scripts.peek, keys, [...numbersOf(limit), 1]);
    return readReported(reply);
  }

  /** Reads a counter including its debt. Charges nothing. */
  async #readDeferred(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string) {
    const key = keyOf(policy, limit, keyValues);
    const reply = await this.#link.run(
      this.#scripts.charge_deferred,
      [key, debtKeyOf(key)],
      [...numbersOf(limit), reportOnly],
    );
    return readReported(reply);
  }
}

/** Passed to `charge_deferred` in place of units: the script then only reports. */
const reportOnly = -1;

/** Reads remaining units and reset time from a reply of `peek` or `charge_deferred`, which begin alike and have five numbers. */
function readReported(reply: unknown) {
  const [, remaining, , resetAfterUs] = readNumbers(reply, 5) as [number, number, number, number];
  return { remaining, resetAfterUs };
}

/** @throws Error if the reply is not one that our scripts give */
function readNumbers(reply: unknown, count: number): readonly number[] {
  if (Array.isArray(reply) && reply.length === count && reply.every((each) => typeof each === "number")) return reply;
  throw new Error(`expected a reply of ${count} numbers, got ${describeValue(reply)}`);
}

/** The arguments that describe a counter to every script. */
function numbersOf({ rate }: CompiledLimit): (string | number)[] {
  const [quota, windowUs, size] = scriptNumbers(rate);
  if (rate.algorithm !== "calendar-window") return [rate.algorithm, quota, windowUs, size];
  followWindow(rate, Date.now() * 1000);
  return [rate.algorithm, quota, windowUs, windowMoments(rate, String)];
}
