// Which bans of a policy's key values hold for a key.

import type { Schemas } from "../../api/client.ts";

export type Ban = Schemas["Ban"];

/** The one that ends last comes first. */
export function bansOfKey(bans: readonly Ban[], policy: string, key: readonly string[]): Ban[] {
  return bans
    .filter((ban) => ban.policy === policy && ban.key !== undefined && matches(ban.key, key))
    .sort((a, b) => Date.parse(b.until) - Date.parse(a.until));
}

function matches(patterns: readonly string[], key: readonly string[]): boolean {
  return (
    patterns.length === key.length &&
    patterns.every((pattern, i) => {
      const value = key[i] as string;
      return pattern.endsWith("*") ? value.startsWith(pattern.slice(0, -1)) : value === pattern;
    })
  );
}
