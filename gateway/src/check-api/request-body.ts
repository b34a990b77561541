// Reads the bodies of the check API strictly: rejects everything that is not expected, and reports where it is.
//
// cjson reads the values. It silently accepts a repeated key, of which it keeps the last, and {} for []. Both are found by
// counting: in a valid body, the numbers of keys and of objects are known.

import { formatDuration, parseDuration } from "../../../limiter/src/document/duration.ts";
import { addProblem, type Findings, listProblems, noFindings } from "../../../limiter/src/document/problems.ts";
import { describeValue } from "../../../limiter/src/document/validate.ts";
import { readHeader } from "../request/request-headers.ts";
import { strictJson } from "../runtime/lua-modules.ts";
import type { CheckError } from "./check-errors.ts";
import type { Mode } from "./decide.ts";
import { aPlan, type Written } from "./requested-policy.ts";

export const mostBodyBytes = 65536;
const mostChecks = 100;
const longestValueBytes = 8192;
const mostCost = 2147483648;

/** The names of the fields that an object may have. */
interface Fields {
  readonly names: readonly string[];
  readonly has: Readonly<Record<string, true>>;
}

/** The depth of the request, its list of checks, a check, its key. */
const json = strictJson(4);
const fieldsOfRequest = fieldsNamed(["mode", "checks"]);
const fieldsOfCheck = fieldsNamed(["policy", "key", "cost", "plan", "peek", "report", "maxWait"]);
const fieldsOfHoldRequest = fieldsNamed(["policy", "key", "slots", "ttl", "plan", "maxWait"]);
const fieldsOfHold = fieldsNamed(["hold"]);
/** A caller that waits keeps a connection and a place in the line. */
const longestWaitUs = 60_000_000;
/** Of a check that waits: nginx keeps the body meanwhile, and thousands may wait. */
const mostWaitingBytes = 8_192;

export const aCost = `an integer from 0 to ${mostCost}`;
const someSlots = `an integer from 1 to ${mostCost}`;
export const aValue = `text of at most ${longestValueBytes} bytes`;
export const aPolicy = "the name of a policy, or APP/POLICY of one that another app shares";

/** Whether a check may say this cost. 0 only looks. */
export function isCost(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= mostCost && math.floor(value) === value;
}

/** Whether a hold may be of so many slots. */
export function isSlots(value: unknown): value is number {
  return isCost(value) && value >= 1;
}

/** Returns the cost that a check hears about: one that only looks, by the cost 0, hears what a charge of the policy's own cost would. */
export function costToCharge(cost: number | undefined): number | undefined {
  return cost === 0 ? undefined : cost;
}

export function isKeyValue(value: unknown): value is string {
  return typeof value === "string" && value.length <= longestValueBytes;
}

/** @returns the checks, and how they belong together; or what is wrong with the body */
export function readChecks(
  body: string,
): LuaMultiReturn<[checks: Written[] | undefined, mode: Mode, error: CheckError | undefined]> {
  const [request, failure] = decode(body);
  if (failure !== undefined) return $multi(undefined, "all", failure);
  const findings = noFindings();
  const written: Written[] = [];
  let keys = 0;
  let mode: Mode = "all";
  if (!isRecord(request)) {
    addProblem(findings, { path: "", expected: 'an object with "checks"', got: describeValue(request) });
  } else {
    keys += countKnown(request, fieldsOfRequest, "", findings);
    const { checks } = request;
    mode = readMode(request["mode"], findings);
    if (!Array.isArray(checks) || checks.length < 1 || checks.length > mostChecks) {
      addProblem(findings, {
        path: "checks",
        expected: `a list of 1 to ${mostChecks} checks`,
        got: describeValue(checks),
      });
    } else {
      for (let i = 0; i < checks.length; i++) {
        keys += readCheck(checks[i], `checks[${i}]`, written, findings);
      }
      if (mode === "all") refuseMixture(written, findings);
      refuseWaitingTogether(written, findings);
      refuseLongWaiting(body, written[0], findings);
    }
  }
  const error = errorOf(body, keys, written.length + 1, findings);
  if (error !== undefined) return $multi(undefined, "all", error);
  return $multi(written, mode, undefined);
}

function readMode(mode: unknown, findings: Findings): Mode {
  if (mode === undefined) return "all";
  if (mode === "all" || mode === "each") return mode;
  addProblem(findings, { path: "mode", expected: '"all" or "each"', got: describeValue(mode) });
  return "all";
}

/** The body of POST /sluice/v1/hold: one check, whose cost is slots. */
export function readHoldRequest(
  body: string,
): LuaMultiReturn<[check: Written | undefined, error: CheckError | undefined]> {
  const [request, failure] = decode(body);
  if (failure !== undefined) return $multi(undefined, failure);
  const findings = noFindings();
  let keys = 0;
  let written: Written | undefined;
  if (isRecord(request)) {
    keys = countKnown(request, fieldsOfHoldRequest, "", findings);
    written = holdIn(request, findings);
    refuseLongWaiting(body, written, findings);
  } else {
    addProblem(findings, { path: "", expected: "a check: an object", got: describeValue(request) });
  }
  const error = errorOf(body, keys, 1, findings);
  if (error !== undefined) return $multi(undefined, error);
  return $multi(written, undefined);
}

function holdIn(request: Readonly<Record<string, unknown>>, findings: Findings): Written {
  const { policy, key, slots, ttl, plan } = request;
  readNames(request, "", findings);
  if (slots !== undefined && !isSlots(slots)) {
    addProblem(findings, { path: "slots", expected: someSlots, got: describeValue(slots) });
  }
  const ttlUs = typeof ttl === "string" ? parseDuration(ttl) : undefined;
  if (ttl !== undefined && (ttlUs === undefined || ttlUs === 0)) {
    addProblem(findings, { path: "ttl", expected: 'a time like "10s"', got: describeValue(ttl) });
  }
  return {
    policy: policy as string,
    key: (key ?? noValues) as string[],
    cost: slots as number | undefined,
    plan: plan as string | undefined,
    isPeek: false,
    isReport: false,
    maxWaitUs: readMaxWait(request["maxWait"], "maxWait", findings),
    ttlUs: ttlUs ?? 0,
    path: "",
  };
}

/** The body of POST /sluice/v1/renew and /release. */
export function readHoldText(body: string): LuaMultiReturn<[hold: string | undefined, error: CheckError | undefined]> {
  const [request, failure] = decode(body);
  if (failure !== undefined) return $multi(undefined, failure);
  const findings = noFindings();
  let keys = 0;
  let hold: unknown;
  if (isRecord(request)) {
    keys = countKnown(request, fieldsOfHold, "", findings);
    hold = request["hold"];
  } else {
    addProblem(findings, { path: "", expected: 'an object with "hold"', got: describeValue(request) });
  }
  if (isRecord(request) && (typeof hold !== "string" || hold === "")) {
    addProblem(findings, { path: "hold", expected: "what /sluice/v1/hold answered", got: describeValue(hold) });
  }
  const error = errorOf(body, keys, 1, findings);
  if (error !== undefined) return $multi(undefined, error);
  return $multi(hold as string, undefined);
}

/** @returns what the JSON says, or what is wrong with it */
function decode(body: string): LuaMultiReturn<[request: unknown, error: CheckError | undefined]> {
  if (!isUtf8(body)) return $multi(undefined, malformed("The body is not UTF-8."));
  // cjson takes it for the end of the text, whatever follows.
  if (string.find(body, "%z")[0] !== undefined) return $multi(undefined, malformed("The body has a byte 0 in it."));
  const [request, failure] = json.decode<unknown>(body);
  if (request === undefined) {
    return $multi(undefined, malformed(`The body is not the JSON that is read here: ${failure}.`));
  }
  return $multi(request, undefined);
}

/** @param keys how many keys, and @param objects how many objects a valid body has */
function errorOf(body: string, keys: number, objects: number, findings: Findings): CheckError | undefined {
  if (findings.problems.length > 0) {
    const detail = "This cannot be decided. Nothing was charged.";
    return { code: "invalid-request", detail, errors: listProblems(findings) };
  }
  const [bare] = string.gsub(string.gsub(body, "\\.", "")[0], '"[^"]*"', "");
  if (countOf(bare, ":") !== keys) return malformed("The body repeats a key.");
  if (countOf(bare, "{") !== objects) return malformed("A key is a list: it came as an object.");
  return undefined;
}

/** Checks that are decided together cannot wait for each other's units. */
function refuseWaitingTogether(written: readonly Written[], findings: Findings): void {
  if (written.length < 2) return;
  for (const { maxWaitUs, path } of written) {
    if (maxWaitUs === 0) continue;
    addProblem(findings, {
      path: `${path}maxWait`,
      expected: "a request with one check: several are not waited for",
      got: `one of ${written.length} checks`,
    });
  }
}

/** nginx keeps the buffer in which the body came: one as long as the body only if its length was known before. */
function refuseLongWaiting(body: string, first: Written | undefined, findings: Findings): void {
  if (first === undefined || first.maxWaitUs === 0) return;
  if (readHeader("content-length") === undefined) {
    addProblem(findings, {
      path: `${first.path}maxWait`,
      expected: "a request with Content-Length: a body in chunks takes 64 KB while the check waits",
      got: "none",
    });
  }
  if (body.length <= mostWaitingBytes) return;
  addProblem(findings, {
    path: `${first.path}maxWait`,
    expected: `a body of at most ${mostWaitingBytes} bytes: it is kept while the check waits`,
    got: `${body.length} bytes`,
  });
}

/** @param path of the check @returns how many fields it has */
function readCheck(check: unknown, path: string, written: Written[], findings: Findings): number {
  if (!isRecord(check)) {
    addProblem(findings, { path, expected: "a check: an object", got: describeValue(check) });
    return 0;
  }
  const before = findings.problems.length;
  const inside = `${path}.`;
  const fields = countKnown(check, fieldsOfCheck, inside, findings);
  const { policy, key, cost, plan, peek, report, maxWait } = check;
  readNames(check, inside, findings);
  if (cost !== undefined && !isCost(cost)) {
    addProblem(findings, { path: `${inside}cost`, expected: aCost, got: describeValue(cost) });
  }
  if (peek !== undefined && typeof peek !== "boolean") {
    addProblem(findings, { path: `${inside}peek`, expected: "true or false", got: describeValue(peek) });
  }
  const maxWaitUs = readMaxWait(maxWait, `${inside}maxWait`, findings);
  const looks = peek === true || cost === 0;
  if (report !== undefined) readReport(check, inside, findings);
  if (looks && report !== true) refuseWaitingPeek(maxWaitUs, `${inside}maxWait`, findings);
  if (findings.problems.length === before) {
    written.push({
      policy: policy as string,
      key: (key ?? noValues) as string[],
      cost: costToCharge(cost as number | undefined),
      plan: plan as string | undefined,
      isPeek: looks,
      isReport: report === true,
      maxWaitUs,
      ttlUs: 0,
      path: inside,
    });
  }
  return fields;
}

/** What was used is charged at once, so a report neither looks nor waits. */
function readReport(
  { cost, peek, report, maxWait }: Readonly<Record<string, unknown>>,
  inside: string,
  findings: Findings,
): undefined {
  if (typeof report !== "boolean") {
    addProblem(findings, { path: `${inside}report`, expected: "true or false", got: describeValue(report) });
  }
  if (report !== true) return;
  if (cost === 0) {
    addProblem(findings, { path: `${inside}cost`, expected: "1 or more: what was used", got: "0" });
  }
  if (peek === true) {
    addProblem(findings, { path: `${inside}peek`, expected: "nothing: a report charges", got: "true" });
  }
  if (maxWait !== undefined) {
    const expected = "nothing: a report waits for nothing";
    addProblem(findings, { path: `${inside}maxWait`, expected, got: describeValue(maxWait) });
  }
}

/** A report cannot be taken back when another check is refused. */
function refuseMixture(written: readonly Written[], findings: Findings): void {
  for (const { isReport, path } of written) {
    if (isReport === (written[0] as Written).isReport) continue;
    const expected = `${!isReport}, as in the first check; or the mode "each"`;
    addProblem(findings, { path: `${path}report`, expected, got: `${isReport}` });
    return;
  }
}

/** Reports what is wrong with what names the counters. */
function readNames(
  { policy, key, plan }: Readonly<Record<string, unknown>>,
  inside: string,
  findings: Findings,
): undefined {
  if (typeof policy !== "string" || policy === "") {
    addProblem(findings, { path: `${inside}policy`, expected: aPolicy, got: describeValue(policy) });
  }
  if (key !== undefined) readKey(key, inside, findings);
  if (plan !== undefined && typeof plan !== "string") {
    addProblem(findings, { path: `${inside}plan`, expected: aPlan, got: describeValue(plan) });
  }
}

/** @returns 0 if it is absent or wrong */
export function readMaxWait(maxWait: unknown, path: string, findings: Findings): number {
  if (maxWait === undefined) return 0;
  const us = typeof maxWait === "string" ? parseDuration(maxWait) : undefined;
  if (us !== undefined && us > 0 && us <= longestWaitUs) return us;
  addProblem(findings, { path, expected: 'a time like "500ms", of 1ms to 60s', got: describeValue(maxWait) });
  return 0;
}

export function refuseWaitingPeek(maxWaitUs: number, path: string, findings: Findings): void {
  if (maxWaitUs === 0) return;
  addProblem(findings, { path, expected: "nothing: a peek waits for nothing", got: formatDuration(maxWaitUs) });
}

const noValues: readonly string[] = [];

function readKey(key: unknown, inside: string, findings: Findings): void {
  if (!Array.isArray(key)) {
    addProblem(findings, { path: `${inside}key`, expected: "a list of texts", got: describeValue(key) });
    return;
  }
  for (let i = 0; i < key.length; i++) {
    if (!isKeyValue(key[i])) {
      addProblem(findings, { path: `${inside}key[${i}]`, expected: aValue, got: describeValue(key[i]) });
    }
  }
}

/** Reports unknown fields. @returns how many fields there are */
function countKnown(
  record: Readonly<Record<string, unknown>>,
  known: Fields,
  path: string,
  findings: Findings,
): number {
  let count = 0;
  for (const name in record) {
    count += 1;
    if (known.has[name] === true) continue;
    addProblem(findings, {
      path: path + describeValue(name).slice(1, -1),
      expected: `no such field; known here: ${known.names.join(", ")}`,
      got: describeValue(record[name]),
    });
  }
  return count;
}

function fieldsNamed(names: readonly string[]): Fields {
  const has: Record<string, true> = {};
  for (const name of names) has[name] = true;
  return { names, has };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !(Array.isArray(value) && value.length > 0);
}

function isUtf8(text: string): boolean {
  if (string.find(text, "[^%z\x01-\x7f]")[0] === undefined) return true;
  // PCRE validates the whole text before it searches.
  return ngx.re.find(text, "^", "u")[0] !== undefined;
}

function countOf(text: string, character: string): number {
  return string.gsub(text, character, "")[1];
}

function malformed(detail: string): CheckError {
  return { code: "malformed-body", detail: `${detail} Nothing was charged.` };
}
