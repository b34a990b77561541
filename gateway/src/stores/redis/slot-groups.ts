// Which counters one script can be told of: with Redis Cluster those of one slot, elsewhere all.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { groupOf } from "../../redis/script-call.ts";
import type { RedisSettings } from "../../settings.ts";

/** One policy and the key values that pick its counters. */
interface Counted {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
}

/** What one script can be told of. */
export interface Group<Member> {
  readonly id: number;
  readonly members: Member[];
}

/** Of its first counter. */
export function firstKey({ policy, keyValues }: Counted): string {
  return keyOf(policy, policy.limits[0] as CompiledLimit, keyValues);
}

/** In the order of their first members. A policy's limits for one key value are always in one group: so their keys are made. */
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
