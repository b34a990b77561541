// Variants of compiled policies that requests bring about: a policy at the cost that a request states, or with a consumer's own limits. A
// worker keeps a bounded number of each sort for all policies together, so that nobody makes it grow by stating ever other ones.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { weakTable } from "../runtime/tables.ts";

/** More than honest clients bring about at a time. A variant takes one to some KB. */
const mostKept = 1_000;

export interface KeptVariants<Key extends number | string> {
  /** By the policy, then by what the variant is made from. */
  byPolicy: LuaTable<CompiledPolicy, LuaTable<Key, CompiledPolicy | undefined> | undefined>;
  count: number;
}

export function keptVariants<Key extends number | string>(): KeptVariants<Key> {
  return { byPolicy: weakTable(), count: 0 };
}

/** Keeps a variant that is not kept. If there are too many, all others are forgotten: those that are still used come again. */
export function keepVariant<Key extends number | string>(
  kept: KeptVariants<Key>,
  policy: CompiledPolicy,
  key: Key,
  variant: CompiledPolicy,
): undefined {
  if (kept.count >= mostKept) {
    kept.byPolicy = weakTable();
    kept.count = 0;
  }
  let ofPolicy = kept.byPolicy.get(policy);
  if (ofPolicy === undefined) {
    ofPolicy = new LuaTable();
    kept.byPolicy.set(policy, ofPolicy);
  }
  ofPolicy.set(key, variant);
  kept.count += 1;
}
