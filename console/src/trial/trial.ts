// Which policies a request meets and how they apply to it; for those that it does not meet, why not. By the rules of a gateway
// (limiter/src/index, gateway/src/request/applicability.ts), read from the policies' documents one by one.

import {
  type CompiledPolicy,
  compilePolicy,
  hasPlan,
  isExemptAddress,
  isExemptKey,
  overrideFor,
} from "@sluice/limiter/compiled/compile.ts";
import { appExemptions } from "@sluice/limiter/compiled/exemptions.ts";
import type { AppExempt } from "@sluice/limiter/document/app-exempt.ts";
import { costFrom } from "@sluice/limiter/document/cost.ts";
import type { Mode, Plans, Policy } from "@sluice/limiter/document/policy.ts";
import { isOpen } from "@sluice/limiter/document/schedule.ts";
import { validatePolicy } from "@sluice/limiter/document/validate.ts";
import { type KeyPart, keyPartText, readsPath } from "@sluice/limiter/key/key-part.ts";
import type { NetworkLists } from "@sluice/limiter/key/network-lists.ts";
import { pathPattern } from "@sluice/limiter/match/path-pattern.ts";
import { matchesRegex, pathRegex } from "@sluice/limiter/match/path-regex.ts";
import { isAmbiguousHost } from "@sluice/limiter/match/request-host.ts";
import { isAmbiguousPath, otherPaths, withoutParameters } from "@sluice/limiter/match/request-path.ts";
import { zonesFor } from "../forecast/zone-transitions.ts";
import { headerOf, type MadeUpRequest, normalPath, partValue, sameName } from "./request.ts";

/** Why a policy does not count a request, in the order in which it is found out. */
export const reasons = [
  "realm",
  "host",
  "path",
  "method",
  "header",
  "off",
  "schedule",
  "exempt-address",
  "key-missing",
  "key-ambiguous",
  "exempt-key",
  "override-off",
  "cost-invalid",
] as const;
export type Reason = (typeof reasons)[number];

export type DenialReason = "key-missing" | "key-ambiguous" | "cost-invalid";

export type Trial =
  /** The policy counts the request. */
  | {
      readonly outcome: "counts";
      readonly mode: Mode;
      /** Values of the key, in its order; undefined: only nginx knows it. */
      readonly key: readonly (string | undefined)[];
      readonly cost: number;
      /** Whether limits of an override apply. */
      readonly isOverridden: boolean;
      /** The plan that applies. Undefined: the policy has none, an override applies, or a consumer has it. */
      readonly plan: string | undefined;
      /** Whose plan applies. Undefined: no consumer's, or only nginx knows whose. */
      readonly consumer: string | undefined;
    }
  /** The gateway answers 400 or 403 at once. */
  | {
      readonly outcome: "denied";
      readonly why: DenialReason;
      readonly what: string;
    }
  | { readonly outcome: "passed-by"; readonly why: Reason; readonly what: string };

/** What holds for a policy and is not in its document. */
export interface Surroundings {
  /** The policy's. */
  readonly app: string;
  /** Without a realm, gateways apply the app's policies to no request. */
  readonly hasNoRealm: boolean;
  /** Whom its app and app `default` exempt. */
  readonly ofApps: readonly { readonly app: string; readonly exempt: AppExempt }[];
  /** The lists of networks that any of this refers to. */
  readonly lists: NetworkLists;
}

const nothingAround: Surroundings = { app: "default", hasNoRealm: false, ofApps: [], lists: {} };

/**
 * @param nowMs decides schedules
 * @returns undefined: the document is not valid
 */
export function tryPolicy(
  document: unknown,
  request: MadeUpRequest,
  nowMs: number,
  around = nothingAround,
): Trial | undefined {
  const { policy } = validatePolicy(document);
  if (policy === undefined) return undefined;
  if (around.hasNoRealm) return { outcome: "passed-by", why: "realm", what: around.app };
  const { mode, overrides = [] } = policy;
  const guards = mode === "enforce" || (mode === "shadow" && overrides.some((one) => one.mode === "enforce"));
  const ambiguous = guards ? ambiguousMatch(policy, request) : undefined;
  if (ambiguous !== undefined) return { outcome: "denied", why: "key-ambiguous", what: ambiguous };
  const unmatched = whyUnmatched(policy, request);
  if (unmatched !== undefined) return unmatched;
  return apply(policy, request, nowMs / 1_000, around);
}

/** Returns what servers read differently, so that a gateway refuses the request because of this policy, whichever policies it would meet. */
function ambiguousMatch({ match: { hosts, paths }, key }: Policy, { host, target }: MadeUpRequest): string | undefined {
  const isOfHost = hosts.length === 0 || hosts.some((pattern) => matchesHost(pattern, host));
  if ((paths.length > 0 || readsPath(key)) && isOfHost && isAmbiguousPath(target)) {
    const meets = (path: string) => matchesAny(paths, path);
    const read = normalPath(target) ?? "";
    const others = otherPaths(target, read);
    if (others === undefined || (!meets(read) && others.some(meets))) return "path";
  }
  return hosts.length > 0 && isAmbiguousHost(host, host.toLowerCase()) ? "host" : undefined;
}

/** Cheap, so that all policies of an app can be asked. */
export function whyUnmatched(
  { match: { hosts, paths, methods, headers } }: Pick<Policy, "match">,
  request: MadeUpRequest,
): Extract<Trial, { outcome: "passed-by" }> | undefined {
  const { host, method, target } = request;
  const passedBy = (why: Reason, what: string) => ({ outcome: "passed-by", why, what }) as const;
  if (hosts.length > 0 && !hosts.some((pattern) => matchesHost(pattern, host)))
    return passedBy("host", hosts.join(" "));
  const path = normalPath(target) ?? "";
  if (paths.length > 0 && !matchesAny(paths, path)) return passedBy("path", paths.join(" "));
  if (methods.length > 0 && !methods.includes(method)) return passedBy("method", methods.join(" "));
  for (const name in headers) {
    const wanted = headers[name] ?? [];
    const lines = request.headers.filter((header) => sameName(header.name, name)).map(({ value }) => value);
    if (!lines.some((line) => wanted.includes(line))) return passedBy("header", `${name}: ${wanted.join(", ")}`);
  }
  return undefined;
}

function matchesHost(pattern: string, host: string): boolean {
  return pattern.startsWith("*.")
    ? host.endsWith(pattern.slice(1)) && host.length > pattern.length - 1
    : host === pattern;
}

function matchesAny(patterns: readonly string[], path: string): boolean {
  const other = withoutParameters(path);
  return patterns.some((pattern) => matchesPath(pattern, path) || matchesPath(pattern, other));
}

function matchesPath(pattern: string, path: string): boolean {
  const { kind, text } = pathPattern(pattern);
  if (kind === "exact") return path === text;
  return kind === "prefix" ? path.startsWith(text) : matchesRegex(pathRegex(text), path);
}

function apply(
  policy: Policy,
  request: MadeUpRequest,
  nowSeconds: number,
  { app, ofApps, lists }: Surroundings,
): Trial {
  const passedBy = (why: Reason, what = "") => ({ outcome: "passed-by", why, what }) as const;
  const { mode, key, onMissingKey, costSource, plans } = policy;
  // A policy in shadow mode refuses nothing.
  const refused = (why: DenialReason, what: string): Trial =>
    mode === "enforce" ? { outcome: "denied", why, what } : passedBy(why, what);
  if (mode === "off") return passedBy("off");
  const compiled = compilePolicy(
    app,
    policy,
    zonesFor(policy, nowSeconds, nowSeconds + 1),
    undefined,
    undefined,
    ofApps.flatMap((one) => appExemptions(one.exempt, { lists, app: one.app }) ?? []),
    lists,
  );
  if (compiled.schedule !== undefined && !isOpen(compiled.schedule, nowSeconds)) return passedBy("schedule");
  if (isExemptAddress(compiled, request.address)) return passedBy("exempt-address", request.address);
  const parts = key.map((part) => ({ text: keyPartText(part), ...partValue(part, request) }));
  // As a gateway reads them: one after the other, until one is missing.
  for (const { text, state } of parts) {
    if (state === "ambiguous") return refused("key-ambiguous", text);
    if (state !== "absent" || onMissingKey === "shared") continue;
    return onMissingKey === "deny" ? refused("key-missing", text) : passedBy("key-missing", text);
  }
  const values = parts.map((part) => (part.state === "value" ? part.value : part.state === "absent" ? "" : undefined));
  const known = values.map((value) => value ?? "");
  if (isExemptKey(compiled, known)) return passedBy("exempt-key", known.join(" "));
  const override = overrideFor(compiled, known);
  if (override?.policy.mode === "off") return passedBy("override-off", known.join(" "));
  const cost = costOf(costSource, policy.cost, request);
  const applied = override?.policy.mode ?? mode;
  if (cost === undefined) {
    const what = costSource?.name ?? "";
    return applied === "shadow" ? passedBy("cost-invalid", what) : refused("cost-invalid", what);
  }
  return {
    outcome: "counts",
    mode: applied,
    key: values,
    cost,
    isOverridden: override !== undefined,
    ...(override === undefined && plans !== undefined
      ? planFor(compiled, plans, request, values[0])
      : { plan: undefined, consumer: undefined }),
  };
}

/** @param first value of the key @returns the plan, or whose it is */
function planFor(
  compiled: CompiledPolicy,
  { by, default: otherwise }: Plans,
  request: MadeUpRequest,
  first: string | undefined,
): { readonly plan: string | undefined; readonly consumer: string | undefined } {
  if (by === undefined) return { plan: undefined, consumer: first };
  return { plan: planNamed(compiled, by, otherwise, request), consumer: undefined };
}

function planNamed(compiled: CompiledPolicy, by: KeyPart, otherwise: string, request: MadeUpRequest): string {
  const named = partValue(by, request);
  return named.state === "value" && hasPlan(compiled, named.value) ? named.value : otherwise;
}

/** @returns undefined: the request states an invalid cost */
function costOf(source: Policy["costSource"], cost: number, request: MadeUpRequest): number | undefined {
  if (source === undefined || source.from === "response-bytes") return cost;
  const stated = source.from === "header" ? headerOf(request, source.name) : lengthOf(request);
  return stated === false ? undefined : costFrom(stated, source);
}

/** The length of the body as HTTP/1 states it. @returns undefined: it is unknown */
function lengthOf(request: MadeUpRequest): string | undefined | false {
  return headerOf(request, "transfer-encoding") === undefined
    ? (headerOf(request, "content-length") ?? "0")
    : undefined;
}
