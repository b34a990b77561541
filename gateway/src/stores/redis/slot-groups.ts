// Groups counters that one script may use: with Redis Cluster those of one slot, otherwise all.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { groupOf } from "../../redis/script-call.ts";
import type { RedisSettings } from "../../settings.ts";

/** A policy and the key values that select its counters. */
export interface Counted {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
}

/** Counters that one script may use. */
export interface Group<Member> {
  readonly id: number;
  readonly members: Member[];
}

/** The key of the first counter. */
export function firstKey({ policy, keyValues }: Counted): string {
  return keyOf(policy, policy.limits[0] as CompiledLimit, keyValues);
}

/**
 * In the order of their first members. The limits of a policy for one key are always in the same group, by the way their keys are
 * made.
 */
export function groupsOf<Member extends Counted>(settings: RedisSettings, members: readonly Member[]): Group<Member>[] {
  const groups: Group<Member>[] = [];
  for (const member of members) {
    const id = groupOf(settings, firstKey(member));
    const group = groups.find((one) => one.id === id);
    if (group === undefined) groups.push({ id, members: [member] });
    else group.members.push(member);
  }
  return groups;
}
