// Determines whether and how a policy that matches applies to the request: by bans, schedule, exemptions, overrides, plans and the cost
// that the request states. A policy with none of these costs a few field reads.

import { isBannedAddress, isBannedKey, type PolicyBans } from "../../../limiter/src/compiled/bans.ts";
import {
  type CompiledPolicy,
  isExemptAddress,
  isExemptKey,
  overrideFor,
} from "../../../limiter/src/compiled/compile.ts";
import { type CostSource, costFrom } from "../../../limiter/src/document/cost.ts";
import { type CompiledSchedule, isOpen, nextChangeSeconds } from "../../../limiter/src/document/schedule.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { isWithin } from "../../../limiter/src/key/networks.ts";
import { weakTable } from "../runtime/tables.ts";
import { currentState } from "../snapshot/current.ts";
import { policyOfClient } from "./client-plan.ts";
import { pricedPolicy } from "./costs.ts";
import { readFormBody } from "./form-value.ts";
import {
  type Readings,
  rawKeyValues,
  readFormBodyOnce,
  readHeaderOnce,
  readKeyValues,
  readPlan,
} from "./key-values.ts";
import { readHeader } from "./request-headers.ts";

/**
 * - applies: the policy is to be decided.
 * - banned: the request is to be refused.
 * - off: the policy is off, by its schedule or an override.
 * - exempt: the policy ignores the request.
 * - key-missing: an attribute of the key is absent, and onMissingKey decides what happens.
 * - key-ambiguous: servers read an attribute differently, and the request is to be answered with 400.
 * - cost-invalid: the request states an invalid cost, and is to be answered with 400 too.
 */
export type Applicability = ClientApplicability | "key-missing" | "key-ambiguous" | "cost-invalid";
/** The part of the result that depends on the client. */
export type ClientApplicability = "applies" | "banned" | "off" | "exempt";

/** Filled if the policy applies; for cost-invalid, only the policy is filled. */
export interface AppliedPolicy {
  /**
   * The policy as it applies to this request: an override of it, at the request's cost. Decide, refund and hold slots with this
   * one.
   */
  policy: CompiledPolicy;
  keyValues: string;
}

interface ScheduleState {
  readonly open: boolean;
  readonly fromSeconds: number;
  readonly untilSeconds: number;
}

const scheduleStates = weakTable<CompiledSchedule, ScheduleState>();

/** Decides from the attributes of the current request. Yields if the policy reads a form. @param readings if the request meets many policies */
export function readApplicability(
  policy: CompiledPolicy,
  applied: AppliedPolicy,
  readings: Readings | undefined,
): Applicability {
  const before = applicabilityToAddress(policy, addressFor(policy));
  if (before !== "applies") return before;
  if (policy.policy.readsForm) {
    if (readings === undefined) readFormBody();
    else readFormBodyOnce(readings);
  }
  const isShadow = policy.policy.mode === "shadow" && policy.overrides?.enforces !== true;
  const keyValues = readKeyValues(policy.policy, readings, isShadow);
  if (keyValues === undefined) return "key-missing";
  if (keyValues === false) return "key-ambiguous";
  const { plans } = policy;
  const plan = plans?.by === undefined ? undefined : readPlan(plans.by, readings, isShadow);
  const applicability = applicabilityToKey(policy, rawKeyValues, plan, applied);
  if (applicability !== "applies") return applicability;
  applied.keyValues = keyValues;
  const { costSource } = policy.policy;
  if (costSource !== undefined && !policy.policy.deferred) {
    const stated = statedCost(costSource, readings);
    const cost = stated === false ? undefined : costFrom(stated, costSource);
    if (cost === undefined) return "cost-invalid";
    applied.policy = pricedPolicy(applied.policy, cost);
  }
  return "applies";
}

/** Returns whether app `default` bans this address: then the request is refused whatever its path, and no policy is evaluated. */
export function isBannedEverywhere(address: string): boolean {
  const { bannedEverywhere } = currentState();
  return bannedEverywhere !== undefined && isWithin(bannedEverywhere, address, ngx.now());
}

function addressFor({ bans, exempt }: CompiledPolicy): string | undefined {
  return bans === undefined && exempt === undefined ? undefined : ngx.var["remote_addr"];
}

/**
 * Evaluates everything that does not depend on the key. A ban of an address belongs to the app: neither the policy's mode nor its
 * schedule or exemptions lift it.
 *
 * @param address the client's address; undefined if unknown, which is in no network
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
 * Evaluates the rest when the key is known.
 *
 * @param values in the key's order, not encoded
 * @param plan that the request has; undefined: it names none
 * @param applied receives the policy as it applies to this request, if it does
 * @param known what `limitsFor` returns; undefined: nobody has asked yet
 */
export function applicabilityToKey(
  policy: CompiledPolicy,
  values: readonly string[],
  plan: string | undefined,
  applied: AppliedPolicy,
  known?: CompiledPolicy,
): ClientApplicability {
  const { exempt } = policy;
  const bans = enforcedBans(policy);
  if (bans !== undefined && isBannedKey(bans, values, ngx.now())) return "banned";
  if (exempt !== undefined && isExemptKey(policy, values)) return "exempt";
  applied.policy = known ?? limitsFor(policy, values, plan);
  return applied.policy.policy.mode === "off" ? "off" : "applies";
}

/**
 * Returns the policy with the limits and the mode that decide: those of an override, of a consumer's own, or of a plan.
 *
 * @param values in the key's order, not encoded
 * @param plan that the request has; undefined: it names none
 */
export function limitsFor(policy: CompiledPolicy, values: readonly string[], plan: string | undefined): CompiledPolicy {
  return overrideFor(policy, values) ?? policyOfClient(policy, values, plan);
}

/** A ban of key values belongs to its policy, and a policy in shadow mode changes no response. */
function enforcedBans({ policy, bans }: CompiledPolicy): PolicyBans | undefined {
  return policy.mode === "enforce" ? bans : undefined;
}

/** @returns false if the header has several lines, as servers may read different ones as the cost */
function statedCost({ from, name }: CostSource, readings: Readings | undefined): Reading {
  if (from === "header") return readings === undefined ? readHeader(name) : readHeaderOnce(readings, name);
  return ngx.var["content_length"] ?? (hasNoBody() ? "0" : undefined);
}

/**
 * For a request without Content-Length. HTTP/1 announces every body. HTTP/2 and HTTP/3 do not have to: only nginx knows whether the
 * stream has ended with the headers, and it does not tell Lua.
 */
function hasNoBody(): boolean {
  const version = ngx.req.http_version();
  return version !== undefined && version < 2 && ngx.var["http_transfer_encoding"] === undefined;
}

/** The result is cached until it may change, or until the clock is set back to before it. */
function isOpenNow(schedule: CompiledSchedule): boolean {
  const now = ngx.now();
  let state = scheduleStates.get(schedule);
  if (state === undefined || now < state.fromSeconds || now >= state.untilSeconds) {
    state = { open: isOpen(schedule, now), fromSeconds: now, untilSeconds: nextChangeSeconds(schedule, now) };
    scheduleStates.set(schedule, state);
  }
  return state.open;
}
