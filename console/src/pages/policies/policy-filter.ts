// Which policies a search finds.

import type { ListedPolicy } from "../../api/queries.ts";

export const modes = ["enforce", "shadow", "off"] as const;
export type Mode = (typeof modes)[number];

export interface PolicyFilter {
  /** Words that all must be in the name, the description, a host or a path. */
  readonly q?: string;
  readonly mode?: Mode;
  /** A part of the name of who owns it. */
  readonly owner?: string;
}

export function modeOf({ document }: ListedPolicy): Mode {
  return document.mode ?? "enforce";
}

export function filtered(
  policies: readonly ListedPolicy[],
  { q = "", mode, owner = "" }: PolicyFilter,
): ListedPolicy[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return policies.filter((policy) => {
    if (mode !== undefined && modeOf(policy) !== mode) return false;
    if (!(policy.owner ?? "").toLowerCase().includes(owner.toLowerCase())) return false;
    if (words.length === 0) return true;
    const { description = "", match } = policy.document;
    const text = [policy.name, description, ...(match?.hosts ?? []), ...(match?.paths ?? [])].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** What the list's URL says. */
export type PoliciesSearch = PolicyFilter & { readonly app?: string };

export function readPoliciesSearch({ app, q, mode, owner }: Record<string, unknown>): PoliciesSearch {
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(typeof q === "string" && q !== "" ? { q } : {}),
    ...(typeof owner === "string" && owner !== "" ? { owner } : {}),
    ...(modes.includes(mode as Mode) ? { mode: mode as Mode } : {}),
  };
}
