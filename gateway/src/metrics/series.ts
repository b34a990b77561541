// Which series the metrics dict has of a policy, and their keys: decisions by result and plan, refused requests by limit. The policies in
// force bound their number.

import { type CompiledPolicy, hasPlan } from "../../../limiter/src/compiled/compile.ts";
import { policiesOf } from "../snapshot/current.ts";

/**
 * degraded: Redis did not decide. delayed: the request had to wait, or its caller was told to. Both are counted once a request, in
 * addition to the result that it then had.
 */
export type Result = "allowed" | "refused" | "shadow-refused" | "degraded" | "delayed";

/** refused-requests: by the limit that the answer names. */
export type SeriesKind = Result | "refused-requests";

/** Separates app and policy in the key of a series, and says of which kind it is. */
const separators: Readonly<Record<SeriesKind, string>> = {
  allowed: "=",
  refused: "!",
  "shadow-refused": "~",
  degraded: "?",
  delayed: "+",
  "refused-requests": "#",
};
/** Of a plan or a limit, its name follows. */
const partSeparator = ":";
const seriesPattern = "^([%w-]+)([=!~?+#])([%w-]+):?([%w-]*)$";
/**
 * LuaJIT hashes only a few bytes of a longer string, and to make the keys of ten thousand such names takes seconds. Without a plan or a
 * limit, none is longer.
 */
const longestKey = 127;

/** @param part the name of a plan or a limit; empty: of none. Beside very long names of app and policy it is left out */
export function seriesKey(kind: SeriesKind, app: string, policy: string, part: string): string {
  const key = app + separators[kind] + policy;
  return part === "" || key.length + part.length >= longestKey ? key : key + partSeparator + part;
}

/** Returns the plans or limits by which this kind counts the policy's requests. The empty name stands for what belongs to none. */
export function partsOf(kind: SeriesKind, { app, name, limits, plans }: CompiledPolicy): string[] {
  const found: Record<string, true> = {};
  if (kind === "refused-requests") for (const limit of limits) found[limit.name] = true;
  if (plans !== undefined) {
    if (kind !== "refused-requests") found[plans.default] = true;
    for (const plan in plans.policies) {
      if (kind !== "refused-requests") found[plan] = true;
      else for (const limit of (plans.policies[plan] as CompiledPolicy).limits) found[limit.name] = true;
    }
  }
  const parts = [""];
  for (const part in found) if (app.length + name.length + part.length + 2 <= longestKey) parts.push(part);
  return parts;
}

/** Returns whether the policy has this limit, in any of its plans. Limits of overrides and of consumers count only if they have the same names. */
export function hasLimit({ limits, plans }: CompiledPolicy, name: string): boolean {
  if (limits.some((limit) => limit.name === name)) return true;
  if (plans === undefined) return false;
  for (const plan in plans.policies) {
    if ((plans.policies[plan] as CompiledPolicy).limits.some((limit) => limit.name === name)) return true;
  }
  return false;
}

/** Returns whether the policy of a series is in force and has its plan or its limit. Undefined: this is no key of a series. */
export function isSeriesInForce(key: string): boolean | undefined {
  const [app, separator, name, part = ""] = string.match(key, seriesPattern);
  if (app === undefined) return undefined;
  const policy = policiesOf(app)[name as string];
  if (policy === undefined || part === "") return policy !== undefined;
  return separator === separators["refused-requests"] ? hasLimit(policy, part) : hasPlan(policy, part);
}
