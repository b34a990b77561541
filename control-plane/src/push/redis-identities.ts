// Finds gateways that use another Redis than their fleet, or whose workers use different ones: they count apart, and nobody would
// notice. Each Redis has an identity, which gateways report and the control plane reads (redis/redis-link.ts).

import type { Gateway } from "./fleet.ts";

/**
 * After a Redis has lost everything, it has another identity, and gateways need up to 18 seconds to report it: they look every 10,
 * renew their connections 6 later at most, and report every 2.
 */
const strayAfterMs = 20_000;

export class RedisIdentities {
  /** Since when a gateway has had another Redis, by the gateway's id. */
  #since = new Map<string, number>();
  #strays: ReadonlySet<string> = new Set();

  /** The ids of connected gateways that use another Redis, for longer than a change of it explains. */
  get strays(): ReadonlySet<string> {
    return this.#strays;
  }

  /**
   * @param own the identity of the control plane's Redis. Without one, the Redis of most gateways is the right one
   * @returns whether the strays are others than before
   */
  look(gateways: readonly Gateway[], own: string | undefined, nowMs: number): boolean {
    const found = gateways.flatMap(({ id, disconnectedAtMs, redis }) =>
      disconnectedAtMs === undefined && redis?.id !== undefined
        ? [{ id, redis: redis.id, isDivided: (redis.strayWorkers ?? 0) > 0 }]
        : [],
    );
    const identities = found.map(({ redis }) => redis);
    const expected = own ?? majorityOf(identities);
    // Where no Redis has the most gateways, every gateway may be the wrong one.
    const areSeveral = new Set(own === undefined ? identities : [own, ...identities]).size > 1;
    const others = found.filter(({ redis, isDivided }) => isDivided || (areSeveral && redis !== expected));
    this.#since = new Map(others.map(({ id }) => [id, this.#since.get(id) ?? nowMs]));
    const strays = [...this.#since].filter(([, sinceMs]) => nowMs - sinceMs > strayAfterMs).map(([id]) => id);
    const changed = strays.length !== this.#strays.size || strays.some((id) => !this.#strays.has(id));
    this.#strays = new Set(strays);
    return changed;
  }
}

/** @returns what most have; undefined if nothing is more frequent than everything else */
function majorityOf(texts: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const [first, second] = [...counts].sort(([, one], [, other]) => other - one);
  return first !== undefined && first[1] > (second?.[1] ?? 0) ? first[0] : undefined;
}
