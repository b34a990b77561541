// On which terms a policy that matches holds the request: by the bans, its schedule, its exemptions, its overrides and the
// cost that the request states. A policy with none of them costs a few looks at fields.

import { isBannedAddress, isBannedKey, type PolicyBans } from "../../../limiter/src/compiled/bans.ts";
import {
  atCost,
  type CompiledPolicy,
  isExemptAddress,
  isExemptKey,
  overrideFor,
} from "../../../limiter/src/compiled/compile.ts";
import { type CostSource, costFrom } from "../../../limiter/src/document/cost.ts";
import { type CompiledSchedule, isOpen, nextChangeSeconds } from "../../../limiter/src/document/schedule.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { isWithin } from "../../../limiter/src/key/networks.ts";
import { currentSnapshot } from "../snapshot/current.ts";
import { rawKeyValues, readKeyValues } from "./key-values.ts";
import { readHeader } from "./request-headers.ts";

/**
 * applies: it is to be decided. banned: it is to be refused. off: by schedule or override, the policy is. exempt: it leaves the request
 * alone. key-missing: an attribute of the key is absent, and what then happens is onMissingKey's. key-ambiguous: servers differ on
 * what an attribute is, and the request is to be answered 400. cost-invalid: it states a cost that is none, and is to be too.
 */
export type Applicability = ClientApplicability | "key-missing" | "key-ambiguous" | "cost-invalid";
/** By who the client is. */
export type ClientApplicability = "applies" | "banned" | "off" | "exempt";

/** Filled where the standing is held; of cost-invalid, the policy alone. */
export interface AppliedPolicy {
  /** As it holds this request: an override of it, and at the request's cost. To be decided, refunded and held as it is. */
  policy: CompiledPolicy;
  keyValues: string;
}

/** By what the current request says. */
export function readApplicability(policy: CompiledPolicy, applied: AppliedPolicy): Applicability {
  const before = applicabilityToAddress(policy, addressFor(policy));
  if (before !== "applies") return before;
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined) return "key-missing";
  if (keyValues === false) return "key-ambiguous";
  const applicability = applicabilityToKey(policy, rawKeyValues, applied);
  if (applicability !== "applies") return applicability;
  applied.keyValues = keyValues;
  const { costSource } = policy.policy;
  if (costSource !== undefined && !policy.deferred) {
    const stated = statedCost(costSource);
    const cost = stated === false ? undefined : costFrom(stated, costSource);
    if (cost === undefined) return "cost-invalid";
    applied.policy = atCost(applied.policy, cost);
  }
  return "applies";
}

/** Whether app `default` bans this address: it is refused whatever it asks for, and no policy is looked at. */
export function isBannedEverywhere(address: string): boolean {
  const { bannedEverywhere } = currentSnapshot();
  return bannedEverywhere !== undefined && isWithin(bannedEverywhere, address, ngx.now());
}

function addressFor({ bans, exempt }: CompiledPolicy): string | undefined {
  return bans === undefined && exempt === undefined ? undefined : ngx.var["remote_addr"];
}

/**
 * What can be said before the key is known. A ban of an address is its app's: neither the policy's mode nor its schedule or
 * exemptions lift it.
 *
 * @param address the client's; undefined: unknown, and in no network
 */
export function applicabilityToAddress(policy: CompiledPolicy, address: string | undefined): ClientApplicability {
  const { bans, schedule, exempt } = policy;
  if (bans !== undefined && address !== undefined && isBannedAddress(bans, address, ngx.now())) return "banned";
  if (policy.policy.mode === "off") return "off";
  if (schedule !== undefined && !isOpenNow(schedule)) return "off";
  if (address === undefined) return "applies";
  return exempt !== undefined && isExemptAddress(policy, address) ? "exempt" : "applies";
}

/**
 * What is left to say when it is.
 *
 * @param values in the key's order, not encoded
 * @param terms has the policy as it holds the request afterwards, where it does
 */
export function applicabilityToKey(
  policy: CompiledPolicy,
  values: readonly string[],
  applied: AppliedPolicy,
): ClientApplicability {
  const { exempt, overrides } = policy;
  const bans = enforcedBans(policy);
  if (bans !== undefined && isBannedKey(bans, values, ngx.now())) return "banned";
  if (exempt !== undefined && isExemptKey(policy, values)) return "exempt";
  applied.policy = overrides === undefined ? policy : (overrideFor(policy, values) ?? policy);
  return applied.policy.policy.mode === "off" ? "off" : "applies";
}

/** A ban of key values belongs to its policy, and a policy in shadow mode changes no response. */
function enforcedBans({ policy, bans }: CompiledPolicy): PolicyBans | undefined {
  return policy.mode === "enforce" ? bans : undefined;
}

/** @returns false: by several lines, of which each may be another's cost */
function statedCost({ from, name }: CostSource): Reading {
  return from === "header" ? readHeader(name) : ngx.var["content_length"];
}

/** The answer is kept until it may change, or the clock is before it. */
function isOpenNow(schedule: CompiledSchedule): boolean {
  const now = ngx.now();
  let { answer } = schedule;
  if (answer === undefined || now < answer.fromSeconds || now >= answer.untilSeconds) {
    answer = { open: isOpen(schedule, now), fromSeconds: now, untilSeconds: nextChangeSeconds(schedule, now) };
    schedule.answer = answer;
  }
  return answer.open;
}
