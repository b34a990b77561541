// Turns a document, which anyone may have written, into a policy, or into a list of everything that is wrong with it. This runs
// where the document comes in (control plane), and again where it is applied (gateway).

import { lifetimeWindowUs } from "../algorithms/fixed-window.ts";
import type { Calendar, CalendarUnit, Limit } from "../algorithms/limit.ts";
import { capacity, rateOf } from "../algorithms/rate.ts";
import { byteLength, cutToBytes } from "../basics/byte-length.ts";
import { shared, sharing } from "../basics/sharing.ts";
import { emptyTable } from "../basics/table.ts";
import { isWellFormed, printable } from "../basics/unicode.ts";
import { isAlwaysCredential } from "../key/credential.ts";
import { isToken, type KeyPart, keyPartText, parseKeyPart, withSecrets } from "../key/key-part.ts";
import { expectedKinds, kindOfPatterns, mostKinds, patternValue } from "../key/key-patterns.ts";
import { mostInstructions, readRegex } from "../match/regex-syntax.ts";
import { calendarUnits, longestWindowUs, parseMonthAndDay } from "./calendar.ts";
import { type CostSource, parseCostOrigin } from "./cost.ts";
import { parseDuration } from "./duration.ts";
import { checkOnLimit, fieldsOfAction, onLimitFields, onLimitFrom } from "./on-limit.ts";
import type { Exempt, Mode, Override, Plans, Policy } from "./policy.ts";
import {
  algorithms,
  anchor as anchorShape,
  byConsumer,
  costFields,
  initialShape,
  isName,
  lifetime,
  limitDuration,
  limitFields,
  limitWindow,
  maxPathBytes,
  maxUnits,
  most,
  policyShape,
  unitsShape,
  windowButForLifetime,
} from "./policy-shape.ts";
import { addProblem, type Findings, listProblems, noFindings, type Problem, replaceProblem } from "./problems.ts";
import { days, parseTimeOfDay, type Schedule, type ScheduleWindow, utc } from "./schedule.ts";
import type { Field, Shape } from "./shape.ts";

export type { Problem } from "./problems.ts";

export interface Validation {
  /** Present when there are no problems. */
  policy?: Policy;
  problems: Problem[];
}

type Json = Record<string, unknown>;

/** The most blocks of a sliding-window, and so the most entries of its counters. */
const mostBlocks = 1000;
const blocksUnlessSaid = 10;
const ttlUnlessSaid = "60s";
const maxDelayUnlessSaid = "60s";
const hundredYearsUs = 3_153_600_000_000_000;
const onLimitUnlessSaid = onLimitFrom({});
const noTexts: readonly string[] = [];
const noHeaders = emptyTable<readonly string[]>();
const keyParts = sharing<KeyPart | undefined>();

/** @param document as parsed from JSON or YAML. Never throws. */
export function validatePolicy(document: unknown): Validation {
  const problems = problemsOf(document);
  return problems.length > 0 ? { problems } : { policy: policyFrom(document as Json), problems };
}

/** Returns everything that is wrong with a document. Never throws. */
export function problemsOf(document: unknown): Problem[] {
  const findings = noFindings();
  checkShape(policyShape, document, "", findings);
  if (isRecord(document)) {
    if (isRecord(document["match"])) checkMatch(document["match"], findings);
    for (const { limits, path } of listsOfLimits(document)) checkLimits(limits, path, document, findings);
    checkSecret(document, findings);
    checkPlans(document, findings);
    checkOverrides(document, findings);
    checkExempt(document, findings);
    checkSchedule(document["schedule"], findings);
    checkCost(document, findings);
    if (isRecord(document["onLimit"])) {
      const { onLimit } = document;
      const ofAction = fieldsOfAction(onLimit["action"] ?? "reject");
      if (ofAction !== undefined) {
        reportUnknown(
          onLimitFields,
          onLimit,
          "onLimit",
          findings,
          (name) => name === "action" || ofAction.includes(name),
        );
      }
      checkOnLimit(onLimit, findings);
    }
  }
  return listProblems(findings);
}

/** Reports what is wrong with the value by its shape alone. */
export function checkShape(shape: Shape, value: unknown, path: string, findings: Findings): void {
  if (!conforms(shape, value)) reportShape(shape, value, path, findings);
}

/**
 * Returns whether there is nothing to report. Ten thousand documents without problems are looked at in a fraction of the time that the
 * paths and lists for reports take.
 */
function conforms(shape: Shape, value: unknown): boolean {
  if (!fits(shape, value)) return false;
  if (typeof value === "string") return isWellFormed(value);
  if (shape.kind === "list") {
    const items = value as unknown[];
    for (let i = 0; i < items.length; i++) {
      if (!conforms(shape.of, items[i])) return false;
    }
  } else if (shape.kind === "map") {
    for (const name in value as Json) {
      if (!conforms(shape.names, name) || !conforms(shape.of, (value as Json)[name])) return false;
    }
  } else if (shape.kind === "record") {
    return conformsInFields(shape.fields, value as Json);
  } else if (shape.kind === "either") {
    for (const one of shape.of) if (fits(one, value)) return conforms(one, value);
  }
  return true;
}

function conformsInFields(fields: Readonly<Record<string, Field>>, record: Json): boolean {
  let known = 0;
  for (const name in fields) {
    const field = fields[name] as Field;
    const value = record[name];
    if (value !== undefined) {
      if (!conforms(field.shape, value)) return false;
      known += 1;
    } else if (field.required === true) {
      return false;
    }
  }
  return countOf(record) === known;
}

function reportShape(shape: Shape, value: unknown, path: string, findings: Findings): void {
  const expected = mismatch(shape, value);
  if (expected !== undefined) {
    addProblem(findings, { path, expected, got: describeValue(value) });
  } else if (shape.kind === "list") {
    const items = value as unknown[];
    for (let i = 0; i < items.length; i++) reportShape(shape.of, items[i], `${path}[${i}]`, findings);
  } else if (shape.kind === "map") {
    checkEntries(shape, value as Json, path, findings);
  } else if (shape.kind === "record") {
    checkFields(shape.fields, value as Json, path, findings);
  } else if (shape.kind === "either") {
    reportShape(shape.of.find((one) => fits(one, value)) as Shape, value, path, findings);
  }
}

function checkFields(fields: Readonly<Record<string, Field>>, record: Json, path: string, findings: Findings): void {
  const known: string[] = [];
  for (const name in fields) {
    known.push(name);
    const field = fields[name] as Field;
    const value = record[name];
    const inner = fieldPath(path, name);
    if (value !== undefined) reportShape(field.shape, value, inner, findings);
    else if (field.required === true)
      addProblem(findings, { path: inner, expected: expectation(field.shape), got: "nothing" });
  }
  reportUnknown(known, record, path, findings, () => true);
}

/** @param isOffered whether a known field may be there, as far as the other fields of the record tell */
function reportUnknown(
  known: readonly string[],
  record: Json,
  path: string,
  findings: Findings,
  isOffered: (this: void, name: string) => boolean,
): void {
  const unknown: string[] = [];
  for (const name in record) {
    if (!known.includes(name)) unknown.push(name);
  }
  if (unknown.length === 0) return;
  unknown.sort();
  const offered = known.filter((name) => isOffered(name));
  const expected = offered.length === 0 ? "no such field" : `no such field; known here: ${offered.join(", ")}`;
  for (const name of unknown) {
    replaceProblem(findings, {
      path: fieldPath(path, shortLine(name)),
      expected,
      got: describeValue(record[name]),
    });
  }
}

function checkEntries(shape: Shape & { kind: "map" }, map: Json, path: string, findings: Findings): void {
  for (const name of sortedNames(map)) {
    const inner = fieldPath(path, shortLine(name));
    const expected = mismatch(shape.names, name);
    if (expected !== undefined) addProblem(findings, { path: inner, expected, got: describeValue(name) });
    else reportShape(shape.of, map[name], inner, findings);
  }
}

function countOf(record: Json): number {
  let count = 0;
  for (const _ in record) count += 1;
  return count;
}

function sortedNames(record: Json): string[] {
  const names: string[] = [];
  for (const name in record) names.push(name);
  return names.sort();
}

/** Checks the rules between the items of a match. Looks only at items of the right type and length. */
function checkMatch(match: Json, findings: Findings): void {
  const { paths, headers } = match;
  if (isListOf(paths, most.paths)) {
    let instructions = 0;
    for (const path of paths) {
      if (typeof path !== "string" || !path.startsWith("~") || path.length > maxPathBytes) continue;
      instructions += readRegex(path.slice(1)).node?.size ?? 0;
    }
    if (instructions > mostInstructions) {
      replaceProblem(findings, {
        path: "match.paths",
        expected: `regular expressions of at most ${mostInstructions} steps together, repetitions written out`,
        got: `${instructions}`,
      });
    }
  }
  if (!isRecord(headers) || countOf(headers) > most.headers) return;
  const firstNames = emptyTable<string>();
  for (const name of sortedNames(headers)) {
    if (!isToken(name)) continue;
    const lower = name.toLowerCase();
    const first = firstNames[lower];
    if (first === undefined) firstNames[lower] = name;
    else
      replaceProblem(findings, {
        path: fieldPath("match.headers", shortLine(name)),
        expected: `a header that ${shortLine(first)} does not name already`,
        got: describeValue(name),
      });
  }
}

/** Checks the rules between fields. Looks only at fields of the right type and length: the others are reported already. */
function checkLimits(limits: readonly unknown[], path: string, document: Json, findings: Findings): void {
  const firstAt = emptyTable<number>();
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i];
    if (!isRecord(limit)) continue;
    const inner = `${path}[${i}]`;
    const name = nameOf(limit);
    if (typeof name === "string") {
      const earlier = firstAt[name];
      if (earlier === undefined) firstAt[name] = i;
      else
        replaceProblem(findings, {
          path: `${inner}.name`,
          expected: `a name that ${path}[${earlier}] does not have`,
          got: describeValue(name),
        });
    }
    checkFieldsOfAlgorithm(limit, inner, findings);
    checkInitial(limit, inner, findings);
    checkWindow(limit, document, inner, findings);
    checkCalendar(limit, inner, findings);
    checkPrecision(limit, inner, findings);
  }
}

interface ListOfLimits {
  readonly limits: readonly unknown[];
  readonly path: string;
}

/** Returns the lists that a request may have, but for those of overrides. A list of the wrong kind is reported already. */
function listsOfLimits(document: Json): ListOfLimits[] {
  const lists: ListOfLimits[] = [];
  const { limits, plans } = document;
  if (isListOf(limits, most.limits)) lists.push({ limits, path: "limits" });
  if (!isRecord(plans) || countOf(plans) > most.plans) return lists;
  for (const name of sortedNames(plans)) {
    const ofPlan = plans[name];
    if (isName(name) && isListOf(ofPlan, most.limits)) lists.push({ limits: ofPlan, path: `plans.${name}` });
  }
  return lists;
}

/** Returns the limit that holds least; undefined if no limit says how much it holds. */
function leastCapacity(document: Json): { units: number; path: string } | undefined {
  let least: { units: number; path: string } | undefined;
  const lists = listsOfLimits(document);
  const { overrides } = document;
  if (isListOf(overrides, most.overrides)) {
    for (let i = 0; i < overrides.length; i++) {
      const limits = isRecord(overrides[i]) ? (overrides[i] as Json)["limits"] : undefined;
      if (isListOf(limits, most.limits)) lists.push({ limits, path: `overrides[${i}].limits` });
    }
  }
  for (const { limits, path } of lists) {
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i];
      const units = isRecord(limit) ? capacityOf(limit) : undefined;
      if (units !== undefined && (least === undefined || units < least.units)) least = { units, path: `${path}[${i}]` };
    }
  }
  return least;
}

/** Returns the limits that overrides change: with plans, those of the default plan. */
function ownLimitsOf({ limits, plans, defaultPlan }: Json): unknown {
  return isRecord(plans) && typeof defaultPlan === "string" ? plans[defaultPlan] : limits;
}

function checkPlans(document: Json, findings: Findings): void {
  const { limits, plans, planBy, defaultPlan } = document;
  if (plans === undefined) {
    if (limits === undefined) replaceProblem(findings, { path: "limits", expected: limitsOrPlans, got: "nothing" });
    for (const field of ["planBy", "defaultPlan"]) {
      if (document[field] === undefined) continue;
      replaceProblem(findings, { path: field, expected: "nothing, or plans", got: describeValue(document[field]) });
    }
    return;
  }
  if (limits !== undefined) {
    const expected = "nothing: each of the plans has its limits";
    replaceProblem(findings, { path: "limits", expected, got: describeValue(limits) });
  }
  if (planBy === undefined) {
    replaceProblem(findings, { path: "planBy", expected: 'what names the plan, like "jwt:plan"', got: "nothing" });
  }
  if (planBy === byConsumer && isListOf(document["key"], most.keyParts) && document["key"].length === 0) {
    const expected = "a part that names the consumer, because planBy is consumer";
    replaceProblem(findings, { path: "key", expected, got: "no parts" });
  }
  if (!isRecord(plans) || countOf(plans) > most.plans) return;
  const names = sortedNames(plans).filter((name) => isName(name));
  if (names.length === 0 || (typeof defaultPlan === "string" && names.includes(defaultPlan))) return;
  const expected = `one of the plans: ${shortLine(names.join(", "))}`;
  replaceProblem(findings, { path: "defaultPlan", expected, got: describeValue(defaultPlan) });
}

const limitsOrPlans = `a list of 1 to ${most.limits}, or plans`;

function nameOf(limit: Json): unknown {
  return limit["name"] === undefined ? "default" : limit["name"];
}

function checkOverrides(document: Json, findings: Findings): void {
  const { overrides } = document;
  if (!isListOf(overrides, most.overrides)) return;
  const key = keyOf(document);
  const own = ownLimitsOf(document);
  for (let i = 0; i < overrides.length; i++) {
    const override = overrides[i];
    if (!isRecord(override)) continue;
    const path = `overrides[${i}]`;
    if (key !== undefined) checkKeyPatterns(override["key"], key, `${path}.key`, findings);
    if (override["limits"] === undefined && override["mode"] === undefined) {
      replaceProblem(findings, { path, expected: "limits, or a mode, or both", got: "neither" });
    }
    if (!isListOf(override["limits"], most.limits)) continue;
    checkLimits(override["limits"], `${path}.limits`, document, findings);
    checkOverridden(override["limits"], own, `${path}.limits`, findings);
  }
  const keys = overrides.map((override) => (isRecord(override) ? override["key"] : undefined));
  checkKinds(keys, "overrides", findings);
}

function checkExempt(document: Json, findings: Findings): void {
  const { exempt } = document;
  if (!isRecord(exempt) || !isListOf(exempt["keys"], most.exemptKeys)) return;
  const key = keyOf(document);
  if (key === undefined) return;
  for (let i = 0; i < exempt["keys"].length; i++) {
    checkKeyPatterns(exempt["keys"][i], key, `exempt.keys[${i}]`, findings);
  }
  checkKinds(exempt["keys"], "exempt.keys", findings);
}

function checkSecret(document: Json, findings: Findings): void {
  const { secret } = document;
  const key = keyOf(document);
  if (!isRecord(secret) || countOf(secret) > most.keyParts || key === undefined) return;
  for (const text of sortedNames(secret)) {
    const part = partOf(text);
    if (part === undefined) continue;
    const path = fieldPath("secret", shortLine(text));
    if (!key.some((one) => keyPartText(one) === keyPartText(part))) {
      replaceProblem(findings, { path, expected: "a part of the policy's key", got: describeValue(text) });
    } else if (secret[text] === false && isAlwaysCredential(part)) {
      replaceProblem(findings, { path, expected: "true: these values are credentials", got: "false" });
    }
  }
}

/** Each request is looked up once for each kind. */
function checkKinds(lists: readonly unknown[], path: string, findings: Findings): void {
  const known = emptyTable<boolean>();
  let count = 0;
  for (const patterns of lists) {
    if (!isListOf(patterns, most.keyParts)) continue;
    const kind = kindOfPatterns(patterns.filter((pattern) => typeof pattern === "string"));
    if (known[kind] === undefined) count += 1;
    known[kind] = true;
  }
  if (count > mostKinds) replaceProblem(findings, { path, expected: expectedKinds, got: `${count} kinds` });
}

function checkSchedule(schedule: unknown, findings: Findings): void {
  if (!isRecord(schedule) || !isListOf(schedule["windows"], most.windows)) return;
  for (let i = 0; i < schedule["windows"].length; i++) {
    const window = schedule["windows"][i];
    if (!isRecord(window) || typeof window["to"] !== "string" || window["to"] !== window["from"]) continue;
    if (parseTimeOfDay(window["to"]) === undefined) continue;
    replaceProblem(findings, {
      path: `schedule.windows[${i}].to`,
      expected: 'another time than from; "00:00" to "24:00" is the whole day',
      got: describeValue(window["to"]),
    });
  }
}

/** An override may only change limits of the policy: it cannot add one, nor count one by another algorithm. */
function checkOverridden(limits: readonly unknown[], own: unknown, path: string, findings: Findings): void {
  if (!isListOf(own, most.limits)) return;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i];
    if (!isRecord(limit) || typeof nameOf(limit) !== "string") continue;
    const overridden = own.find((one) => isRecord(one) && nameOf(one) === nameOf(limit)) as Json | undefined;
    if (overridden === undefined) {
      replaceProblem(findings, {
        path: `${path}[${i}].name`,
        expected: "the name of one of the policy's limits",
        got: describeValue(nameOf(limit)),
      });
    } else if (isAlgorithm(overridden["algorithm"]) && overridden["algorithm"] !== limit["algorithm"]) {
      replaceProblem(findings, {
        path: `${path}[${i}].algorithm`,
        expected: `"${overridden["algorithm"]}", as of the policy's limit of that name`,
        got: describeValue(limit["algorithm"]),
      });
    }
  }
}

/** @param patterns one for each part of the key, of the right shape or reported already */
export function checkKeyPatterns(patterns: unknown, key: readonly KeyPart[], path: string, findings: Findings): void {
  if (!isList(patterns) || patterns.length !== key.length) {
    replaceProblem(findings, {
      path,
      expected: `a list of ${key.length}: a pattern for each part of the policy's key`,
      got: describeValue(patterns),
    });
    return;
  }
  for (let i = 0; i < patterns.length; i++) {
    const pattern = patterns[i];
    if (typeof pattern !== "string" || pattern.includes("*")) continue;
    if (patternValue(key[i] as KeyPart, pattern) !== undefined) continue;
    replaceProblem(findings, {
      path: `${path}[${i}]`,
      expected: 'an address, a network of the length that the key has, "*", or the beginning of one and "*"',
      got: describeValue(pattern),
    });
  }
}

/** Returns the policy's key; undefined if it is invalid. */
function keyOf(document: Json): KeyPart[] | undefined {
  const parts: KeyPart[] = [];
  if (document["key"] === undefined) return parts;
  if (!isListOf(document["key"], most.keyParts)) return undefined;
  for (const text of document["key"]) {
    if (typeof text !== "string") return undefined;
    const part = partOf(text);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return parts;
}

function partOf(text: string): KeyPart | undefined {
  return keyParts.known[text] ?? shared(keyParts, text, () => parseKeyPart(text));
}

/** Returns the most that a request may cost according to the document, which has no problems. */
function mostCostOf(cost: unknown): number {
  if (!isRecord(cost)) return (cost ?? 1) as number;
  return isDeferred(cost) ? 1 : ((cost["max"] ?? cost["default"] ?? 1) as number);
}

function isDeferred(cost: Json): boolean {
  return cost["from"] === "response-bytes";
}

/** The others need the cost before a request goes on: for a place in a queue, or for a slot until it ends. */
const deferred = algorithms.filter((algorithm) => algorithm !== "leaky-bucket" && algorithm !== "concurrency");

/** The bytes of a response are always known and have no bound. They are known when the request can no longer wait or be held. */
function checkDeferredCost(cost: Json, document: Json, findings: Findings): void {
  reportUnknown(costFields, cost, "cost", findings, (name) => name === "from");
  for (const field of ["default", "max"]) {
    if (cost[field] === undefined) continue;
    const expected = `nothing: response-bytes has no ${field}`;
    replaceProblem(findings, { path: `cost.${field}`, expected, got: describeValue(cost[field]) });
  }
  for (const { limits, path } of listsOfLimits(document)) {
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i];
      if (!isRecord(limit) || deferred.includes(limit["algorithm"] as string)) continue;
      replaceProblem(findings, {
        path: `${path}[${i}].algorithm`,
        expected: `one of ${deferred.join(", ")}, where response-bytes are the cost`,
        got: describeValue(limit["algorithm"]),
      });
    }
  }
}

function checkCost(document: Json, findings: Findings): void {
  const { cost } = document;
  const least = leastCapacity(document);
  if (!isRecord(cost)) {
    checkUnits("cost", cost, least, ", or an object", findings);
    return;
  }
  if (isDeferred(cost)) {
    checkDeferredCost(cost, document, findings);
    return;
  }
  const { default: unstated, max } = cost;
  checkUnits("cost.max", max, least, "", findings);
  const isBounded = fits(unitsShape, max) && (least === undefined || (max as number) <= least.units);
  checkUnits("cost.default", unstated, isBounded ? { units: max as number } : least, "", findings);
}

/** @param least the most that the units may be, and the limit of that capacity; without a limit, it is the cost's own max */
function checkUnits(
  path: string,
  units: unknown,
  least: { units: number; path?: string } | undefined,
  otherwise: string,
  findings: Findings,
): void {
  if (units === undefined || least === undefined) return;
  if (!fits(unitsShape, units)) {
    if (least.units >= maxUnits) return;
    replaceProblem(findings, {
      path,
      expected: `an integer from 1 to ${least.units}${otherwise}`,
      got: describeValue(units),
    });
  } else if ((units as number) > least.units) {
    const why = least.path === undefined ? "the max" : `which is all that ${least.path} ever holds`;
    replaceProblem(findings, { path, expected: `at most ${least.units}, ${why}`, got: describeValue(units) });
  }
}

const algorithmsOfWindows = algorithms.filter((algorithm) => algorithm !== "concurrency");

/** Fields of a limit that only some algorithms have. */
const fieldsOfAlgorithms: readonly { field: string; of: readonly string[]; why?: string }[] = [
  { field: "burst", of: ["token-bucket", "leaky-bucket"] },
  { field: "initial", of: ["token-bucket"], why: "only a token-bucket has units to begin with" },
  { field: "warmUp", of: ["token-bucket"], why: "only a token-bucket refills at a rate" },
  { field: "precision", of: ["sliding-window"] },
  { field: "maxDelay", of: ["leaky-bucket"] },
  { field: "ttl", of: ["concurrency"] },
  { field: "window", of: algorithmsOfWindows },
  { field: "timezone", of: algorithmsOfWindows },
  { field: "anchor", of: algorithmsOfWindows },
];

function checkFieldsOfAlgorithm(limit: Json, path: string, findings: Findings): void {
  const algorithm = limit["algorithm"];
  if (!isAlgorithm(algorithm)) return;
  reportUnknown(limitFields, limit, path, findings, (name) => {
    if ((name === "timezone" || name === "anchor") && !isCalendarUnit(limit["window"])) return false;
    return fieldsOfAlgorithms.every(({ field, of }) => field !== name || of.includes(algorithm));
  });
  for (const { field, of, why } of fieldsOfAlgorithms) {
    if (limit[field] !== undefined && !of.includes(algorithm)) {
      const reason = why === undefined ? "" : `, because ${why}`;
      replaceProblem(findings, {
        path: `${path}.${field}`,
        expected: `nothing: ${algorithm} has no ${field}${reason}`,
        got: describeValue(limit[field]),
      });
    }
  }
}

/** Where a bucket does not begin full, its counters hold moments that are so far ahead, and these must stay exact. */
function checkInitial(limit: Json, path: string, findings: Findings): void {
  const { initial, quota, window } = limit;
  if (limit["algorithm"] !== "token-bucket") return;
  const burst = capacityOf(limit);
  if (burst !== undefined && initial !== undefined && !(fits(initialShape, initial) && (initial as number) <= burst)) {
    replaceProblem(findings, {
      path: `${path}.initial`,
      expected: `an integer from 0 to ${burst}, the burst`,
      got: describeValue(initial),
    });
  }
  if (initial === undefined && limit["warmUp"] === undefined) return;
  if (!fits(unitsShape, quota) || !fits(limitDuration, window)) return;
  const refilled = Math.floor(((quota as number) * hundredYearsUs) / (parseDuration(window as string) as number));
  const longest = Math.max(1, Math.min(maxUnits, refilled));
  if (burst === undefined ? longest === maxUnits : burst <= longest) return;
  replaceProblem(findings, {
    path: `${path}.burst`,
    expected: `an integer from 1 to ${longest}, what refills in a hundred years, where there is initial or warmUp`,
    got: describeValue(burst ?? limit["burst"]),
  });
}

/** The algorithm, the scope and the cost decide which windows there are: an error offers no others. */
function checkWindow(limit: Json, document: Json, path: string, findings: Findings): void {
  const { algorithm, window } = limit;
  // Windows of concurrency are refused already.
  if (algorithm === "concurrency") return;
  let expected: string | undefined;
  if (!fits(limitWindow, window)) expected = expectation(windowOf(limit, document));
  else if (window === lifetime) expected = insteadOfLifetime(limit, document);
  else if (isCalendarUnit(window) && isAlgorithm(algorithm) && algorithm !== "fixed-window")
    expected = "a duration: only fixed-window can have a window of the calendar";
  if (expected !== undefined)
    replaceProblem(findings, { path: `${path}.window`, expected, got: describeValue(window) });
}

function windowOf(limit: Json, document: Json): Shape {
  const { algorithm } = limit;
  if (isAlgorithm(algorithm) && algorithm !== "fixed-window") return limitDuration;
  return insteadOfLifetime(limit, document) === undefined ? limitWindow : windowButForLifetime;
}

/** A lifetime's total must outlast restarts, and is used up rather than paid later. */
function insteadOfLifetime({ algorithm }: Json, { scope, cost }: Json): string | undefined {
  if (isAlgorithm(algorithm) && algorithm !== "fixed-window")
    return "a duration: only fixed-window can have a lifetime";
  if (scope !== "cluster") return "a duration, or scope: cluster, because what a node has counted ends with it";
  return isRecord(cost) && isDeferred(cost) ? "a duration, where response-bytes are the cost" : undefined;
}

/** Only windows of the calendar go by clocks, and begin on days. */
function checkCalendar(limit: Json, path: string, findings: Findings): void {
  const { window, algorithm } = limit as { window?: unknown; algorithm?: unknown };
  const isCalendar = isCalendarUnit(window);
  // It has none of these fields.
  if (algorithm === "concurrency") return;
  if (!isCalendar && !fits(limitWindow, window)) return;
  if (!isCalendar && limit["timezone"] !== undefined) {
    const expected = `nothing: only windows of ${calendarUnits.join(", ")} go by a time zone`;
    replaceProblem(findings, { path: `${path}.timezone`, expected, got: describeValue(limit["timezone"]) });
  }
  if (limit["anchor"] === undefined) return;
  const expected = isCalendar
    ? insteadOfAnchor(window, limit["anchor"])
    : "nothing: only a week, a month or a year has one";
  if (expected !== undefined) {
    replaceProblem(findings, { path: `${path}.anchor`, expected, got: describeValue(limit["anchor"]) });
  }
}

/** Returns what the anchor should be; undefined if it may begin windows of this kind. */
function insteadOfAnchor(unit: CalendarUnit, anchor: unknown): string | undefined {
  const fitting = fits(anchorShape, anchor);
  if (unit === "year") return fitting && typeof anchor === "string" ? undefined : 'a month and a day, like "04-06"';
  const last = unit === "week" ? 7 : unit === "month" ? 31 : 0;
  if (last === 0) return `nothing: each ${unit} begins with its first moment`;
  if (fitting && typeof anchor === "number" && anchor <= last) return undefined;
  return unit === "week" ? "an integer from 1 (Monday) to 7 (Sunday)" : "an integer from 1 to 31, the day";
}

function isCalendarUnit(window: unknown): window is CalendarUnit {
  return typeof window === "string" && calendarUnits.includes(window);
}

function isAlgorithm(value: unknown): value is string {
  return typeof value === "string" && algorithms.includes(value);
}

function checkPrecision(limit: Json, path: string, findings: Findings): void {
  const { precision, window } = limit as { precision?: unknown; window?: unknown };
  if (limit["algorithm"] !== "sliding-window" || precision === undefined || !fits(limitDuration, window)) return;
  if (fits(limitDuration, precision)) {
    const blocks = (parseDuration(window as string) as number) / (parseDuration(precision as string) as number);
    if (blocks >= 1 && blocks <= mostBlocks && Math.floor(blocks) === blocks) return;
  }
  replaceProblem(findings, {
    path: `${path}.precision`,
    expected: `the window of ${window} divided by a whole number from 1 to ${mostBlocks}`,
    got: describeValue(precision),
  });
}

/** Returns what a limit can hold at once; undefined where the document does not state it validly. */
function capacityOf(limit: Json): number | undefined {
  const units = limit["burst"] === undefined ? limit["quota"] : limit["burst"];
  if (!fits(unitsShape, units)) return undefined;
  return limit["algorithm"] === "leaky-bucket" ? (units as number) + 1 : (units as number);
}

/** Returns what was expected of the value itself (not of its contents); undefined if the value is as expected. */
function mismatch(shape: Shape, value: unknown): string | undefined {
  if (!fits(shape, value)) return explanation(shape, value) ?? expectation(shape);
  // Half a surrogate pair has no UTF-8 form: a gateway's JSON reader would refuse the whole snapshot because of it.
  return typeof value === "string" && !isWellFormed(value)
    ? `${expectation(shape)}, in well-formed Unicode`
    : undefined;
}

function explanation(shape: Shape, value: unknown): string | undefined {
  if (shape.kind !== "text" || shape.explains === undefined || typeof value !== "string") return undefined;
  return byteLength(value) <= shape.maxBytes ? shape.explains(value) : undefined;
}

function fits(shape: Shape, value: unknown): boolean {
  switch (shape.kind) {
    case "text":
      return (
        typeof value === "string" &&
        byteLength(value) <= shape.maxBytes &&
        (shape.accepts === undefined || shape.accepts(value))
      );
    case "integer":
      return typeof value === "number" && value >= shape.min && value <= shape.max && Math.floor(value) === value;
    case "duration": {
      const durationUs = typeof value === "string" ? parseDuration(value) : undefined;
      return durationUs !== undefined && durationUs >= boundUs(shape.min) && durationUs <= boundUs(shape.max);
    }
    case "choice":
      return typeof value === "string" && shape.of.includes(value);
    case "boolean":
      return typeof value === "boolean";
    case "list":
      return isList(value) && value.length >= shape.minItems && value.length <= shape.maxItems;
    case "map": {
      if (!isRecord(value)) return false;
      const count = countOf(value);
      return count >= shape.minItems && count <= shape.maxItems;
    }
    case "either":
      return shape.of.some((one) => fits(one, value));
    case "record":
      return isRecord(value);
  }
}

const boundsUs = emptyTable<number>();

/** Shapes have few bounds, which are looked at again and again. */
function boundUs(text: string): number {
  let us = boundsUs[text];
  if (us === undefined) {
    us = parseDuration(text) as number;
    boundsUs[text] = us;
  }
  return us;
}

function expectation(shape: Shape): string {
  switch (shape.kind) {
    case "text":
      return shape.expected;
    case "integer":
      return `an integer from ${shape.min} to ${shape.max}`;
    case "duration":
      return `a duration from ${shape.min} to ${shape.max}: an integer and one of ms, s, m, h, d, like "30s"`;
    case "choice":
      return shape.of.length === 1 ? `"${shape.of[0]}"` : `one of ${shape.of.join(", ")}`;
    case "boolean":
      return "true or false";
    case "list":
      return `a list of ${shape.minItems} to ${shape.maxItems}`;
    case "map":
      return `an object of ${shape.minItems} to ${shape.maxItems} fields`;
    case "either":
      return shape.of.map((one) => expectation(one)).join(", or ");
    case "record":
      return "an object";
  }
}

/** Describes a value for an error message: shortly, and never in more than one line. */
export function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "string") return `"${shortLine(value)}"`;
  if (typeof value === "number" || typeof value === "boolean") return `${value}`;
  if (isList(value)) return value.length === 1 ? "a list of 1" : `a list of ${value.length}`;
  if (isRecord(value)) return "an object";
  return "null";
}

/** Shortens a text that anyone may have written to at most 80 bytes, in one line. */
function shortLine(text: string): string {
  const start = cutToBytes(text, 80);
  return start.length < text.length ? `${printable(start)}…` : printable(start);
}

function fieldPath(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

/** Lua has a single empty table for [] and {}. Only there, it is accepted as either. */
const emptyIsBoth = Array.isArray({});

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}

/** A longer list is reported as such, so its items are not checked against each other. */
function isListOf(value: unknown, most: number): value is unknown[] {
  return isList(value) && value.length <= most;
}

function isRecord(value: unknown): value is Json {
  if (typeof value !== "object" || value === null) return false;
  return !Array.isArray(value) || (emptyIsBoth && value.length === 0);
}

/** @param document one that has no problems */
export function validPolicy(document: unknown): Policy {
  return policyFrom(document as Json);
}

/** Fills in the defaults. */
function policyFrom(document: Json): Policy {
  const match = (document["match"] ?? {}) as Partial<Policy["match"]>;
  const mostCost = mostCostOf(document["cost"]);
  const plans = plansFrom(document, mostCost);
  const limits =
    plans === undefined
      ? limitsFrom(document["limits"] as Json[], mostCost)
      : (plans.limits[plans.default] as readonly Limit[]);
  const mode = (document["mode"] ?? "enforce") as Policy["mode"];
  const costSource = costSourceFrom(document["cost"], limits, plans);
  const policy: { -readonly [Name in keyof Policy]: Policy[Name] } = {
    name: document["name"] as string,
    description: (document["description"] ?? "") as string,
    mode,
    priority: (document["priority"] ?? 0) as number,
    match: {
      hosts: match.hosts ?? noTexts,
      paths: match.paths ?? noTexts,
      methods: match.methods ?? noTexts,
      headers: match.headers === undefined ? noHeaders : headersFrom(match.headers),
    },
    key: withSecrets(keyOf(document) as KeyPart[], document["secret"] as Record<string, boolean> | undefined),
    onMissingKey: (document["onMissingKey"] ?? "skip") as Policy["onMissingKey"],
    limits,
    cost: costSource === undefined ? ((document["cost"] ?? 1) as number) : costSource.default,
    costSource,
    scope: (document["scope"] ?? "node") as Policy["scope"],
    onStoreFailure: (document["onStoreFailure"] ?? "local") as Policy["onStoreFailure"],
    onLimit: document["onLimit"] === undefined ? onLimitUnlessSaid : onLimitFrom(document["onLimit"] as Json),
    overrides: overridesFrom(document["overrides"] as Json[] | undefined, limits, mode, mostCost),
    exempt: exemptFrom(document["exempt"] as Partial<Exempt> | undefined),
    schedule: scheduleFrom(document["schedule"] as Json | undefined),
  };
  if (plans !== undefined) policy.plans = plans;
  if (document["consistency"] === "leased") policy.consistency = "leased";
  const { maxStoreWait, sharedWith } = document;
  if (sharedWith !== undefined) policy.sharedWith = sharedWith as string[];
  if (maxStoreWait !== undefined) policy.maxStoreWaitUs = parseDuration(maxStoreWait as string) as number;
  return policy;
}

/** @param list of limits without problems @param mostCost the most that one request may cost according to the document */
export function limitsFrom(list: readonly Json[], mostCost: number): Limit[] {
  const limits: Limit[] = [];
  for (const limit of list) limits.push(limitFrom(limit, mostCost));
  return limits;
}

function plansFrom(document: Json, mostCost: number): Plans | undefined {
  if (document["plans"] === undefined) return undefined;
  const plans = document["plans"] as Readonly<Record<string, Json[]>>;
  const limits = emptyTable<readonly Limit[]>();
  for (const name in plans) limits[name] = limitsFrom(plans[name] as Json[], mostCost);
  const by = document["planBy"] === byConsumer ? undefined : (partOf(document["planBy"] as string) as KeyPart);
  return { by, default: document["defaultPlan"] as string, limits };
}

function scheduleFrom(schedule: Json | undefined): Schedule | undefined {
  if (schedule === undefined) return undefined;
  const windows: ScheduleWindow[] = [];
  for (const { days: own, from, to } of schedule["windows"] as Json[]) {
    windows.push({ days: (own ?? days) as string[], from: from as string, to: to as string });
  }
  return { timezone: schedule["timezone"] as string, windows };
}

function exemptFrom(exempt: Partial<Exempt> | undefined): Exempt | undefined {
  if (exempt === undefined) return undefined;
  const { cidrs = [], keys = [] } = exempt;
  return cidrs.length === 0 && keys.length === 0 ? undefined : { cidrs, keys };
}

function overridesFrom(
  list: readonly Json[] | undefined,
  own: readonly Limit[],
  mode: Mode,
  mostCost: number,
): Override[] | undefined {
  if (list === undefined || list.length === 0) return undefined;
  const overrides: Override[] = [];
  for (const override of list) {
    const changed = emptyTable<Limit>();
    for (const document of (override["limits"] ?? []) as Json[]) {
      const limit = limitFrom(document, mostCost);
      changed[limit.name] = limit;
    }
    const limits: Limit[] = [];
    for (const limit of own) limits.push(changed[limit.name] ?? limit);
    overrides.push({ key: override["key"] as string[], limits, mode: (override["mode"] ?? mode) as Mode });
  }
  return overrides;
}

function costSourceFrom(cost: unknown, limits: readonly Limit[], plans: Plans | undefined): CostSource | undefined {
  if (!isRecord(cost)) return undefined;
  let smallest = smallestOf(limits);
  if (plans !== undefined) {
    for (const name in plans.limits) smallest = Math.min(smallest, smallestOf(plans.limits[name] as readonly Limit[]));
  }
  return {
    ...(parseCostOrigin(cost["from"] as string) as Pick<CostSource, "from" | "name">),
    default: (cost["default"] ?? 1) as number,
    max: (cost["max"] ?? smallest) as number,
    room: mostCostOf(cost),
  };
}

/** Returns the smallest capacity. */
function smallestOf(limits: readonly Limit[]): number {
  let smallest = unitsShape.max;
  for (const limit of limits) smallest = Math.min(smallest, capacity(rateOf(limit)));
  return smallest;
}

function headersFrom(headers: Policy["match"]["headers"]): Policy["match"]["headers"] {
  const lower = emptyTable<readonly string[]>();
  for (const name in headers) lower[name.toLowerCase()] = headers[name] as readonly string[];
  return lower;
}

function limitFrom(limit: Json, mostCost: number): Limit {
  const algorithm = limit["algorithm"] as Limit["algorithm"];
  const quota = limit["quota"] as number;
  if (isCalendarUnit(limit["window"])) return calendarLimitFrom(limit, limit["window"], quota);
  const window = algorithm === "concurrency" ? (limit["ttl"] ?? ttlUnlessSaid) : limit["window"];
  const windowUs = window === lifetime ? lifetimeWindowUs : (parseDuration(window as string) as number);
  let precisionUs = 0;
  if (algorithm === "sliding-window") {
    const { precision } = limit;
    precisionUs =
      precision === undefined ? windowUs / blocksUnlessSaid : (parseDuration(precision as string) as number);
  }
  const burst =
    algorithm === "leaky-bucket" ? queueOf(limit, windowUs, mostCost) : ((limit["burst"] ?? quota) as number);
  const { initial, warmUp } = limit;
  const name = (limit["name"] ?? "default") as string;
  const made: { -readonly [Name in keyof Limit]: Limit[Name] } = {
    name,
    algorithm,
    quota,
    windowUs,
    burst,
    precisionUs,
  };
  if (initial !== undefined && initial !== burst) made.initial = initial as number;
  if (warmUp !== undefined) made.warmUpUs = parseDuration(warmUp as string) as number;
  return made;
}

function calendarLimitFrom(limit: Json, unit: CalendarUnit, quota: number): Limit {
  const { name, timezone, anchor } = limit as { name?: string; timezone?: string; anchor?: number | string };
  const day = typeof anchor === "string" ? (parseMonthAndDay(anchor) as number) : anchor;
  const calendar: Calendar = { unit, timezone: timezone ?? utc, anchor: day ?? (unit === "year" ? 101 : 1) };
  return {
    name: name ?? "default",
    algorithm: "fixed-window",
    quota,
    windowUs: longestWindowUs(calendar),
    burst: quota,
    precisionUs: 0,
    calendar,
  };
}

/**
 * Returns how many units may wait in a leaky-bucket: its burst, but no more than depart within `maxDelay`. There is always room
 * for the cost of one request; otherwise none would ever pass.
 */
function queueOf(limit: Json, windowUs: number, mostCost: number): number {
  const quota = limit["quota"] as number;
  const burst = (limit["burst"] ?? quota) as number;
  const maxDelayUs = parseDuration((limit["maxDelay"] ?? maxDelayUnlessSaid) as string) as number;
  return Math.min(burst, Math.max(Math.floor((quota * maxDelayUs) / windowUs), mostCost - 1));
}
