// POST /sluice/v1/check: decides up to a hundred checks at once: all or none, or each by itself.

import type { Settings } from "../settings.ts";
import { type CheckError, sendProblem } from "./check-errors.ts";
import { allAllowed, decideRequestedChecks, type Outcome } from "./decide.ts";
import { readPost, sendJson } from "./post.ts";
import { readChecks } from "./request-body.ts";
import { readRequestedChecks } from "./requested-policy.ts";
import { resultOf } from "./results.ts";
import { beginChecks } from "./under-way.ts";

export function check(_settings: Settings): void {
  const error = answer();
  if (error !== undefined) sendProblem(error);
}

function answer(): CheckError | undefined {
  const [caller, body, postError] = readPost();
  if (caller === undefined || body === undefined) return postError;
  const [written, mode, bodyError] = readChecks(body);
  if (written === undefined) return bodyError;
  const [requested, checkError] = readRequestedChecks(caller, written, false);
  if (requested === undefined) return checkError;
  const overload = beginChecks(caller, requested);
  if (overload !== undefined) return overload;
  send(caller.app, decideRequestedChecks(caller, requested, [], mode));
  return undefined;
}

function send(app: string, outcomes: readonly Outcome[]): void {
  const results: string[] = [];
  for (const outcome of outcomes) results.push(`{${resultOf(app, outcome)}}`);
  sendJson(`{"allowed":${allAllowed(outcomes)},"results":[${results.join(",")}]}\n`);
}
