// Which bans of a policy's key values hold for a key.

import type { Schemas } from "../../api/client.ts";
import { visible } from "../../parts/visible.ts";

export type Ban = Schemas["Ban"];

/** The one that ends last comes first. */
export function bansOfKey(bans: readonly Ban[], policy: string, key: readonly string[]): Ban[] {
  return bans
    .filter((ban) => ban.policy === policy && matches(ban, key))
    .sort((a, b) => Date.parse(b.until) - Date.parse(a.until));
}

/** Says who is banned, as people read it. */
export function bannedOf({ cidr, key, keyPattern }: Ban): string {
  return cidr ?? (keyPattern ?? key ?? []).map(visible).join(" · ");
}

function matches({ key: banned, keyPattern }: Ban, key: readonly string[]): boolean {
  const texts = keyPattern ?? banned;
  return (
    texts?.length === key.length &&
    texts.every((text, i) => {
      const value = key[i] as string;
      return keyPattern !== undefined && text.endsWith("*") ? value.startsWith(text.slice(0, -1)) : value === text;
    })
  );
}
