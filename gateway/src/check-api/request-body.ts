// Reads the body of POST /sluice/v1/check strictly: rejects everything that is not expected, and reports where it is.
//
// cjson reads the values. It silently accepts a repeated key, of which it keeps the last, and {} for []. Both are found by
// counting: in a valid body, the numbers of keys and of objects are known.

import { addProblem, type Findings, listProblems, noFindings } from "../../../limiter/src/document/problems.ts";
import { describeValue } from "../../../limiter/src/document/validate.ts";
import { strictJson } from "../runtime/lua-modules.ts";
import type { CheckError } from "./check-errors.ts";
import { aPlan, type Written } from "./requested-policy.ts";

export const mostBodyBytes = 65536;
const mostChecks = 100;
const longestValueBytes = 8192;
const mostCost = 2147483648;

/** The depth of the request, its list of checks, a check, its key. */
const json = strictJson(4);
const fieldsOfRequest = ["checks"];
const fieldsOfCheck = ["policy", "key", "cost", "plan"];

export const aCost = `an integer from 1 to ${mostCost}`;
export const aValue = `text of at most ${longestValueBytes} bytes`;
export const aPolicy = "the name of a policy, or APP/POLICY of one that another app shares";

export function isCost(value: unknown): value is number {
  return typeof value === "number" && value >= 1 && value <= mostCost && math.floor(value) === value;
}

export function isKeyValue(value: unknown): value is string {
  return typeof value === "string" && value.length <= longestValueBytes;
}

/** @returns the checks; or what is wrong with the body */
export function readChecks(
  body: string,
): LuaMultiReturn<[checks: Written[] | undefined, error: CheckError | undefined]> {
  if (!isUtf8(body)) return $multi(undefined, malformed("The body is not UTF-8."));
  // cjson takes it for the end of the text, whatever follows.
  if (string.find(body, "%z")[0] !== undefined) return $multi(undefined, malformed("The body has a byte 0 in it."));
  const [request, failure] = json.decode<unknown>(body);
  if (request === undefined)
    return $multi(undefined, malformed(`The body is not the JSON that is read here: ${failure}.`));

  const findings = noFindings();
  const written: Written[] = [];
  let keys = 0;
  if (!isRecord(request)) {
    addProblem(findings, { path: "", expected: 'an object with "checks"', got: describeValue(request) });
  } else {
    keys += countKnown(request, fieldsOfRequest, "", findings);
    const { checks } = request;
    if (!Array.isArray(checks) || checks.length < 1 || checks.length > mostChecks) {
      addProblem(findings, {
        path: "checks",
        expected: `a list of 1 to ${mostChecks} checks`,
        got: describeValue(checks),
      });
    } else {
      for (let i = 0; i < checks.length; i++) keys += readCheck(checks[i], `checks[${i}]`, written, findings);
    }
  }
  if (findings.problems.length > 0) {
    const detail = "This cannot be decided. Nothing was charged.";
    return $multi(undefined, { code: "invalid-request", detail, errors: listProblems(findings) });
  }
  const [bare] = string.gsub(string.gsub(body, "\\.", "")[0], '"[^"]*"', "");
  if (countOf(bare, ":") !== keys) return $multi(undefined, malformed("The body repeats a key."));
  if (countOf(bare, "{") !== written.length + 1) {
    return $multi(undefined, malformed("A key is a list: it came as an object."));
  }
  return $multi(written, undefined);
}

/** @returns how many fields it has */
function readCheck(check: unknown, path: string, written: Written[], findings: Findings): number {
  if (!isRecord(check)) {
    addProblem(findings, { path, expected: "a check: an object", got: describeValue(check) });
    return 0;
  }
  const before = findings.problems.length;
  const fields = countKnown(check, fieldsOfCheck, `${path}.`, findings);
  const { policy, key, cost, plan } = check;
  if (typeof policy !== "string" || policy === "") {
    addProblem(findings, { path: `${path}.policy`, expected: aPolicy, got: describeValue(policy) });
  }
  if (key !== undefined) readKey(key, path, findings);
  if (cost !== undefined && !isCost(cost)) {
    addProblem(findings, { path: `${path}.cost`, expected: aCost, got: describeValue(cost) });
  }
  if (plan !== undefined && typeof plan !== "string") {
    addProblem(findings, { path: `${path}.plan`, expected: aPlan, got: describeValue(plan) });
  }
  if (findings.problems.length === before) {
    written.push({
      policy: policy as string,
      key: (key ?? noValues) as string[],
      cost: cost as number | undefined,
      plan: plan as string | undefined,
      path: `${path}.`,
    });
  }
  return fields;
}

const noValues: readonly string[] = [];

function readKey(key: unknown, path: string, findings: Findings): void {
  if (!Array.isArray(key)) {
    addProblem(findings, { path: `${path}.key`, expected: "a list of texts", got: describeValue(key) });
    return;
  }
  for (let i = 0; i < key.length; i++) {
    if (!isKeyValue(key[i])) {
      addProblem(findings, { path: `${path}.key[${i}]`, expected: aValue, got: describeValue(key[i]) });
    }
  }
}

/** Reports unknown fields. @returns how many fields there are */
function countKnown(
  record: Readonly<Record<string, unknown>>,
  known: readonly string[],
  path: string,
  findings: Findings,
): number {
  let count = 0;
  for (const name in record) {
    count += 1;
    if (known.includes(name)) continue;
    addProblem(findings, {
      path: path + describeValue(name).slice(1, -1),
      expected: `no such field; known here: ${known.join(", ")}`,
      got: describeValue(record[name]),
    });
  }
  return count;
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
