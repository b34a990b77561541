// Slots that callers of the check API hold under a name, from one request to the next: in the store that gave them.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { holdsOnNode } from "../stores/node/holds.ts";
import { holdsInRedis } from "../stores/redis/holds.ts";
import { nodeShare } from "../stores/share/node-share.ts";
import type { Charge, HoldPlace, HoldStore, NamedHold } from "../stores/store.ts";

/** none: the policy lets its requests pass without slots, because of its mode or because Redis is away. */
export type PlaceOfHold = HoldPlace | "none";

const stores: Readonly<Record<HoldPlace, HoldStore>> = { node: holdsOnNode, share: holdsOnNode, exact: holdsInRedis };

/** Returns what is held of a policy at its cost. @param ttlMs as in a hold */
export function holdOf(
  policy: CompiledPolicy,
  keyValues: string,
  place: PlaceOfHold,
  name: string,
  ttlMs: number | undefined,
): NamedHold {
  const limits = place === "share" ? nodeShare(policy) : policy.limits;
  return { policy, limits: slotLimits(limits), keyValues, name, ttlMs };
}

/** Returns those of the limits that are concurrency. */
export function slotLimits(limits: readonly CompiledLimit[]): CompiledLimit[] {
  return limits.filter((limit) => isOfSlots(limit));
}

/** Returns where the slots of a charge are held. @param charge undefined: nothing was charged */
export function placeOf(charge: Charge | undefined): PlaceOfHold {
  return charge === undefined || !charge.limits.some((limit) => isOfSlots(limit))
    ? "none"
    : (charge.store as HoldPlace);
}

/** Notes whose slots the charge took. May yield. @returns false: they are not noted, and the charge is to be refunded */
export function noteHold(place: PlaceOfHold, hold: NamedHold, charge: Charge | undefined): boolean {
  if (place === "none" || charge === undefined) return true;
  const heldAt = charge.chargedAt.filter((_, i) => isOfSlots(charge.limits[i] as CompiledLimit));
  return stores[place].note(hold, heldAt);
}

/** May yield. @returns false: nothing is held under this name; undefined: it is not known */
export function renewHold(place: PlaceOfHold, hold: NamedHold): boolean | undefined {
  return place === "none" ? true : stores[place].renew(hold);
}

/** May yield. @returns as `renewHold` */
export function releaseHold(place: PlaceOfHold, hold: NamedHold): boolean | undefined {
  return place === "none" ? true : stores[place].release(hold);
}

/** Frees it if its time is over. May yield. @returns undefined: it is not known */
export function endHold(place: PlaceOfHold, hold: NamedHold): boolean | undefined {
  return place === "none" ? false : stores[place].end(hold);
}

function isOfSlots({ rate }: CompiledLimit): boolean {
  return rate.algorithm === "concurrency";
}
