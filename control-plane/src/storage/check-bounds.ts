// Checks that there is room for what a request wants to store. Stored data stays: an app that exceeds a bound which was set
// later keeps what it has, and may shrink.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import {
  always,
  type Bounds,
  boundNames,
  bytesAroundDocument,
  bytesOfCaller,
  mostConsumers,
  mostDocumentBytes,
  mostNetworkBytes,
  policyBytesInAll,
  type TotalBounds,
  type Usage,
  urgentBytesInAll,
} from "../bounds/bounds.ts";
import { ApiError, type ExceededBound } from "../errors/api-error.ts";

/** How much more, or less, the app uses after a change. */
export type UsageChange = Partial<CountedUsage>;

/** What is used, including what has no bound of its own. */
export interface CountedUsage extends Usage {
  /** The number of callers' tokens, which gateways learn of. */
  readonly callers: number;
  /** The number of policies by which ids of consumers may be credentials. */
  readonly hiding: number;
}

/** Returns the problem with the size of a document that is validated but not stored. */
export function documentProblems(bytes: number): Problem[] {
  if (bytes <= mostDocumentBytes) return [];
  return [{ path: "", expected: `a document of at most ${mostDocumentBytes} bytes`, got: `${bytes} bytes` }];
}

/**
 * @param before size of the stored document; undefined if there is none yet
 * @throws ApiError bound-exceeded if the document is too large
 */
export function checkDocumentBytes(what: "policy" | "template", bytes: number, before: number | undefined): void {
  if (bytes <= mostDocumentBytes || bytes <= (before ?? 0)) return;
  throw exceeded([
    { bound: "bytes", of: what, used: before ?? 0, allowed: mostDocumentBytes, wanted: bytes - (before ?? 0) },
  ]);
}

/** @throws ApiError bound-exceeded, or too-many-bans if the number of the app's bans is the only exceeded bound */
export function checkBounds(
  app: { readonly name: string; readonly used: CountedUsage; readonly bounds: Bounds },
  all: { readonly used: CountedUsage; readonly bounds: TotalBounds },
  change: UsageChange,
): void {
  const found: ExceededBound[] = [];
  for (const bound of boundNames) {
    const wanted = change[bound] ?? 0;
    const used = app.used[bound];
    const allowed = app.bounds[bound];
    if (wanted > 0 && used + wanted > allowed) found.push({ bound, of: "app", used, allowed, wanted });
  }
  found.push(...exceededInAll(app.used, all, change));
  if (found.length === 0) return;
  throw exceeded(found, app.name);
}

function exceededInAll(
  ofApp: CountedUsage,
  { used, bounds }: { readonly used: CountedUsage; readonly bounds: TotalBounds },
  change: UsageChange,
): ExceededBound[] {
  const found: ExceededBound[] = [];
  const look = (bound: ExceededBound["bound"], used: number, wanted: number, allowed: number) => {
    if (wanted > 0 && used + wanted > allowed) found.push({ bound, of: "all", used, allowed, wanted });
  };
  look("policies", used.policies, change.policies ?? 0, bounds.policies);
  look("steps", used.steps, change.steps ?? 0, bounds.steps);
  for (const [bound, most] of [
    ["consumers", mostConsumers],
    ["networkBytes", mostNetworkBytes],
  ] as const) {
    const wanted = change[bound] ?? 0;
    if (ofApp[bound] + wanted > always[bound]) look(bound, used[bound], wanted, most);
  }
  look("bytes", policyBytes(used), policyBytes(change), policyBytesInAll(bounds));
  if (!isAlwaysTaken(ofApp, change)) {
    look("banBytes", urgentBytes(used), urgentBytes(change), urgentBytesInAll(bounds));
  }
  return found;
}

/** Returns the size of policies in a snapshot. */
export function policyBytes({ policies = 0, bytes = 0 }: UsageChange): number {
  return bytes + policies * bytesAroundDocument;
}

/** Returns the size of bans and callers' tokens in a snapshot. */
export function urgentBytes({ banBytes = 0, callers = 0 }: UsageChange): number {
  return banBytes + callers * bytesOfCaller;
}

function isAlwaysTaken({ bans, banBytes, callers }: CountedUsage, change: UsageChange): boolean {
  return (
    bans + (change.bans ?? 0) <= always.bans &&
    banBytes + (change.banBytes ?? 0) <= always.banBytes &&
    callers + (change.callers ?? 0) <= always.tokens
  );
}

function exceeded(bounds: readonly ExceededBound[], app?: string): ApiError {
  const errors = bounds.map(({ bound, of, used, allowed, wanted }) => ({
    path: `bounds.${bound}`,
    expected: `at most ${allowed} ${whose(of, app)}`,
    got: `${used + wanted}: ${used} are used, and ${wanted} more are asked for`,
  }));
  const tooManyBans = bounds.every(({ bound, of }) => bound === "bans" && of === "app");
  const first = errors[0];
  const detail = `${first?.path}: expected ${first?.expected}, got ${first?.got}.`;
  return new ApiError(tooManyBans ? "too-many-bans" : "bound-exceeded", detail, { errors, bounds });
}

function whose(of: ExceededBound["of"], app: string | undefined): string {
  switch (of) {
    case "app":
      return `of the app "${app}"`;
    case "all":
      return "of all apps together";
    default:
      return `of one ${of}`;
  }
}
