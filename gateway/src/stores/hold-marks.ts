// Stores note these marks of a hold besides the moments of its slots.

import type { CompiledLimit } from "../../../limiter/src/compiled/compile.ts";
import type { NamedHold } from "./store.ts";

/** Returns 32 characters that say of which policy and key, of how many slots, and for how long a hold is: whoever changes what it shows has another mark. */
export function holdMark({ policy, keyValues, ttlMs = 0 }: NamedHold): string {
  return ngx.md5(`${policy.policy.cost} ${ttlMs} ${policy.counterPrefix}${keyValues}`);
}

/** Returns 16 characters that say which limit slots are of. Others may come and go while the slots are held. */
export function limitMark({ counterSuffix }: CompiledLimit): string {
  return string.sub(ngx.md5(counterSuffix), 1, 16);
}

/** For how long the slots are held that are not renewed. */
export function holdLifeMs({ limits, ttlMs }: NamedHold): number {
  return ttlMs ?? slotLifeMs(limits);
}

/** How long slots of these limits live that are not renewed: those that live shortest. */
export function slotLifeMs(limits: readonly CompiledLimit[]): number {
  let shortest = math.huge;
  for (const { rate } of limits) shortest = math.min(shortest, rate.windowUs);
  return math.max(1, math.floor(shortest / 1000));
}

/** How long a hold is noted: as long as any of its slots lives. */
export function noteLifeMs({ limits }: NamedHold): number {
  let longest = 1000;
  for (const { rate } of limits) longest = math.max(longest, rate.windowUs);
  return math.ceil(longest / 1000);
}
