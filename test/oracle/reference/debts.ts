// Requests that cost what their responses take: they are asked when nothing is charged, and settled when the response has been sent
// (docs/algorithms.md, "Deferred charges").

import type { PolicyDocument } from "../world.ts";
import { type Counter, type Look, look, type Moment } from "./counters.ts";
import { type Limit, timeOf } from "./limits.ts";
import { ceil, largest, least, minus } from "./rational.ts";

export function isSettled({ cost }: { readonly cost?: PolicyDocument["cost"] | undefined }): boolean {
  return typeof cost === "object" && cost.from === "response-bytes";
}

/** Such a request goes on if its counter owes nothing and has one unit. It hears what is there before its response. */
export function lookAhead(counter: Counter | undefined, limit: Limit, moment: Moment): readonly Look[] {
  const nothing = look(counter, limit, 0n, moment);
  return look(counter, limit, 1n, moment).map((one, i) => {
    const { remaining, resetsUs, kept } = nothing[i] as Look;
    return one.allowed ? { ...one, remaining, resetsUs, kept, charged: kept, refunded: kept } : one;
  });
}

/** The counter after a response of so many units: what it does not have, it owes. */
export function settled(counter: Counter | undefined, limit: Limit, units: bigint, moment: Moment): Counter {
  const { nowUs } = moment;
  const fromUs = largest(nowUs, counter?.paidUs ?? 0n);
  const { paidUs: _, ...stands }: Counter = counter ?? ({} as Counter);
  const former = counter === undefined ? undefined : (stands as Counter);
  const [state, paidUs] =
    limit.algorithm === "token-bucket"
      ? overdrawn(former, limit, units, { ...moment, nowUs: fromUs })
      : paid(former, limit, units, fromUs);
  return paidUs > nowUs ? { ...state, paidUs } : state;
}

/** A bucket pays as it refills, to the fraction of a unit. */
function overdrawn(
  counter: Counter | undefined,
  limit: Limit,
  units: bigint,
  moment: Moment,
): readonly [Counter, bigint] {
  const { charged } = one(look(counter, limit, units, moment));
  if (charged?.kind !== "bucket") throw new Error("a token-bucket is not stored as a bucket");
  return [charged, largest(moment.nowUs, ceil(minus(charged.full, timeOf(limit, limit.capacity))))];
}

/** A window pays whole quotas unit by unit, at the moments at which these come back, and the last part when it has all of it at once. */
function paid(counter: Counter | undefined, limit: Limit, units: bigint, fromUs: bigint): readonly [Counter, bigint] {
  let state = counter;
  let nowUs = fromUs;
  const lookFor = (cost: bigint) => one(look(state, limit, cost, { nowUs, request: 0 }));
  const take = (most: bigint) => {
    const taken = least(most, lookFor(0n).remaining);
    if (taken > 0n) state = lookFor(taken).charged;
    return taken;
  };
  const owed = units - take(units);
  if (owed === 0n) return [state as Counter, nowUs];
  const last = ((owed - 1n) % limit.quota) + 1n;
  for (let left = owed - last; left > 0n; left -= take(left)) nowUs += lookFor(1n).retryUs as bigint;
  const { allowed, retryUs } = lookFor(last);
  if (!allowed) nowUs += retryUs as bigint;
  take(last);
  return [state as Counter, nowUs];
}

/** Clocks do not step in worlds with debts, so there is one look. */
function one(looks: readonly Look[]): Look {
  return looks[0] as Look;
}
