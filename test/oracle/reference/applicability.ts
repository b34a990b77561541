// Tells whether and how a policy applies to a request: its key, its plan, its overrides, its exemptions, its cost (docs/policies.md).

import type { Ask, Check, Consumer, LimitDocument, Mode, PolicyDocument } from "../world.ts";
import { isSettled } from "./debts.ts";
import { type Limit, readLimit, timeOf } from "./limits.ts";
import { floor, largest, least } from "./rational.ts";
import { isOn } from "./schedule.ts";

/** What decides beside the policy and the request. */
export interface Circumstances {
  readonly consumers: ReadonlyMap<string, Consumer>;
  /** What the gateway's clock shows. */
  readonly nowMs: number;
}

/** How a policy decides a request. */
export interface Applied {
  readonly mode: Exclude<Mode, "off">;
  readonly limits: readonly LimitOfKey[];
  readonly cost: bigint;
}

export interface LimitOfKey {
  readonly limit: Limit;
  /** Which counter it uses. */
  readonly counter: string;
}

/** Why a policy does not count a request. */
export type Reason = "off" | "exempt" | "key-missing";

/** `passes`: the policy does not count the request. `statuses`: it refuses the request, and no limit has decided that. */
export type Applicability =
  | { readonly passes: true; readonly reason: Reason }
  | { readonly statuses: readonly number[]; readonly mode: Mode }
  | Applied;

/** What a policy asks of a request, or of a check. */
interface Asked {
  readonly values: readonly string[];
  /** undefined: a check whose key has none. */
  readonly address: string | undefined;
  /** undefined: the request states a cost that is none. */
  readonly cost: bigint | undefined;
  /** What names its plan. */
  plan(): string;
}

export function applicability(policy: PolicyDocument, ask: Ask, circumstances: Circumstances): Applicability {
  const asked = {
    values: policy.key.map((part) => valueOfPart(part, ask)),
    address: ask.address,
    cost: costOf(policy, ask),
    plan: () => valueOfPart(policy.planBy ?? "", ask),
  };
  return applicabilityOf(policy, asked, circumstances);
}

/** @param check of this policy */
export function applicabilityOfCheck(
  policy: PolicyDocument,
  { key, cost, plan = "" }: Check,
  circumstances: Circumstances,
): Applicability {
  const own = typeof policy.cost === "number" ? policy.cost : (policy.cost?.default ?? 1);
  const place = policy.key.indexOf(policy.planBy ?? "");
  const asked = {
    values: key,
    address: key[policy.key.indexOf("ip")],
    cost: BigInt(cost ?? own),
    plan: () => (place < 0 ? plan : (key[place] ?? "")),
  };
  return applicabilityOf(policy, asked, circumstances);
}

function applicabilityOf(policy: PolicyDocument, asked: Asked, { consumers, nowMs }: Circumstances): Applicability {
  const { values, cost } = asked;
  const policyMode = policy.mode ?? "enforce";
  if (policyMode === "off") return passesBecause("off");
  if (policy.schedule !== undefined && !isOn(policy.schedule, nowMs)) return passesBecause("off");
  if (asked.address !== undefined && isExemptAddress(policy, asked.address)) return passesBecause("exempt");
  const isMissing = values.includes("") && policy.onMissingKey !== "shared";
  const override = isMissing ? undefined : policy.overrides?.find(({ key }) => matches(key, values));
  const mode = override?.mode ?? policyMode;
  if (!isMissing && policy.exempt?.keys?.some((key) => matches(key, values))) return passesBecause("exempt");
  if (mode === "off") return passesBecause("off");
  if (isMissing) {
    return policy.onMissingKey === "deny" && mode === "enforce"
      ? { statuses: [403], mode }
      : passesBecause("key-missing");
  }
  if (cost === undefined) return mode === "enforce" ? { statuses: [400], mode } : passesBecause("key-missing");
  if (override !== undefined || policy.plans === undefined) {
    return { mode, cost, limits: limitsOf(policy, values, policy.defaultPlan, override?.limits) };
  }
  const { plan, limits } = ofClient(policy, values, consumers, asked.plan);
  return { mode, cost, limits: limitsOf(policy, values, plan, limits) };
}

function passesBecause(reason: Reason): Applicability {
  return { passes: true, reason };
}

/** The limits of a key, as an operator sees them. @param named the plan that a caller names, if it may */
export function limitsOfKey(
  policy: PolicyDocument,
  values: readonly string[],
  consumers: Circumstances["consumers"],
  named?: string,
): readonly LimitOfKey[] {
  const override = policy.overrides?.find(({ key }) => matches(key, values));
  if (override !== undefined || policy.plans === undefined) {
    return limitsOf(policy, values, policy.defaultPlan, override?.limits);
  }
  const { plan, limits } = ofClient(
    policy,
    values,
    consumers,
    () => named ?? values[policy.key.indexOf(policy.planBy ?? "")] ?? "",
  );
  return limitsOf(policy, values, plan, limits);
}

/** The plan of a client, and its own limits in place of those of the same name and algorithm. */
function ofClient(
  { name, plans = {}, planBy, defaultPlan }: PolicyDocument,
  [id = ""]: readonly string[],
  consumers: Circumstances["consumers"],
  named: () => string,
): { readonly plan: string | undefined; readonly limits: readonly LimitDocument[] | undefined } {
  const consumer = planBy === "consumer" ? consumers.get(id) : undefined;
  const plan = planBy === "consumer" ? (consumer?.plan ?? "") : named();
  return { plan: Object.hasOwn(plans, plan) ? plan : defaultPlan, limits: consumer?.overrides?.[name] };
}

/** The limits of a key in all plans. */
export function everyLimitOfKey(
  policy: PolicyDocument,
  values: readonly string[],
  consumers: Circumstances["consumers"],
): readonly LimitOfKey[] {
  const own = limitsOfKey(policy, values, consumers);
  const override = policy.overrides?.find(({ key }) => matches(key, values));
  const ofPlans = Object.keys(policy.plans ?? {}).flatMap((plan) => limitsOf(policy, values, plan, override?.limits));
  return [...own, ...ofPlans];
}

function limitsOf(
  policy: PolicyDocument,
  values: readonly string[],
  plan: string | undefined,
  ofOverride: readonly LimitDocument[] | undefined,
): LimitOfKey[] {
  const own = (plan === undefined ? policy.limits : policy.plans?.[plan]) ?? [];
  const overridden = own.map((document) => ofOverride?.find((one) => isLike(one, document)) ?? document);
  const most = mostCost(ofOverride === undefined ? policy : { ...policy, limits: overridden });
  // A consumer's own limits may be below what a request costs that states no cost.
  const cost = largest(most, typeof policy.cost === "object" ? BigInt(policy.cost.default ?? 1) : 1n);
  return own.map((document, i) => {
    const limit = readLimit(overridden[i] as LimitDocument, cost);
    return {
      limit,
      counter: JSON.stringify([policy.name, limit.counterName, sharing(policy, plan, document, cost), values]),
    };
  });
}

function isLike(one: LimitDocument, other: LimitDocument): boolean {
  return one.name === other.name && one.algorithm === other.algorithm;
}

/** A bucket shares its counter only with plans in which it fills in the same number of whole µs, and warms as well or does not. */
function sharing(policy: PolicyDocument, plan: string | undefined, document: LimitDocument, cost: bigint): string {
  const isBucket = document.algorithm === "token-bucket" || document.algorithm === "leaky-bucket";
  if (plan === undefined || !isBucket || policy.planBy === "consumer") return "";
  const limit = readLimit(document, cost);
  return `${floor(timeOf(limit, limit.capacity))} ${limit.warmUpUs !== undefined}`;
}

/** @returns "": it is absent or empty */
function valueOfPart(part: string, { headers, address }: Ask): string {
  if (part === "ip") return address;
  const [kind, name = ""] = part.split(/:(.*)/);
  if (kind === "const") return name;
  if (kind === "header") return headers[name] ?? "";
  throw new Error(`no world has the key part ${part}`);
}

function matches(patterns: readonly string[], values: readonly string[]): boolean {
  return patterns.every((pattern, i) => {
    const value = values[i] ?? "";
    return pattern.endsWith("*") ? value.startsWith(pattern.slice(0, -1)) : value === pattern;
  });
}

/** Worlds have addresses of IPv4 only. */
function isExemptAddress({ exempt }: PolicyDocument, address: string): boolean {
  const number = (text: string) => text.split(".").reduce((sum, byte) => sum * 256 + Number(byte), 0);
  return (exempt?.cidrs ?? []).some((cidr) => {
    const [network = "", bits = "32"] = cidr.split("/");
    const size = 2 ** (32 - Number(bits));
    return Math.floor(number(network) / size) === Math.floor(number(address) / size);
  });
}

/** @returns undefined: the request states a cost that is none */
function costOf(policy: PolicyDocument, { headers }: Ask): bigint | undefined {
  const { cost = 1 } = policy;
  if (typeof cost === "number") return BigInt(cost);
  if (isSettled(policy)) return 1n;
  const stated = headers[cost.from.replace("header:", "")];
  if (stated === undefined) return BigInt(cost.default ?? 1);
  if (!/^[1-9][0-9]*$/.test(stated)) return undefined;
  return BigInt(stated) <= mostCost(policy) ? BigInt(stated) : undefined;
}

/** The most that a request of the policy may cost. */
function mostCost({ cost = 1, limits, plans }: PolicyDocument): bigint {
  if (typeof cost === "number") return BigInt(cost);
  if (isSettled({ cost })) return 1n;
  if (cost.max !== undefined) return BigInt(cost.max);
  const all = limits ?? Object.values(plans ?? {}).flat();
  return least(...(all.map((limit) => readLimit(limit, BigInt(cost.default ?? 1)).capacity) as [bigint]));
}
