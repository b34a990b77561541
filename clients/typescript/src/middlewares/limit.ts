// All middlewares use this to check a request, to let it go on, or to refuse it.
// Statuses, types and titles are those of the gateway. The problem document names the policy, and the gateway's own the limits.

import { setTimeout as sleep } from "node:timers/promises";
import { maxWaitOf } from "../checks.ts";
import type { SluiceClient } from "../client.ts";
import type { Decision } from "../decision.ts";
import { described } from "../described-value.ts";

/** What a request is checked for. */
export interface Limit<Request> {
  readonly policy: string;
  /** One value for each part of the policy's key; undefined: the request is not limited. */
  readonly key: (request: Request) => readonly string[] | undefined;
  /** 0: the request is refused if the policy's own cost would be, and charges nothing. */
  readonly cost?: number | ((request: Request) => number | undefined) | undefined;
  readonly plan?: string | ((request: Request) => string | undefined) | undefined;
  /** So long a request may wait in line, 1 to 60,000; if absent, it is refused at once. */
  readonly maxWaitMs?: number | undefined;
}

export interface Refusal {
  readonly decision: Decision;
  readonly status: 403 | 429 | 503;
  readonly headers: Record<string, string>;
  /** A problem document (RFC 9457). */
  readonly body: string;
}

/** What becomes of a request. Nobody waits for the answer to one that has left. */
export type Ruling = "goes on" | "has left" | Refusal;

const known = ["policy", "key", "cost", "plan", "maxWaitMs", "onRefused"];

/** @throws TypeError that names the wrong option: a service must not start with a limit that limits nothing */
export function requireLimit<Request>(limit: Limit<Request>): void {
  const { policy, key, maxWaitMs } = limit;
  const wrong = (name: string, expected: string, got: unknown) =>
    new TypeError(`limit: option ${name}: expected ${expected}, got ${described(got)}`);
  for (const [name, value] of Object.entries(limit)) {
    if (!known.includes(name)) throw wrong(name, `no such option; known are ${known.join(", ")}`, value);
  }
  if (typeof policy !== "string" || policy === "") throw wrong("policy", "the name of a policy", policy);
  if (typeof key !== "function") throw wrong("key", "a function of the request", key);
  if (maxWaitMs !== undefined) maxWaitOf(maxWaitMs);
}

/** @param left aborts when the client leaves @throws SluiceError, and whatever the limit's own functions throw */
export async function ruleOn<Request>(
  sluice: SluiceClient,
  limit: Limit<Request>,
  request: Request,
  left: AbortSignal,
): Promise<Ruling> {
  try {
    const refusal = await refusalOf(sluice, limit, request, left);
    return left.aborted ? "has left" : (refusal ?? "goes on");
  } catch (error) {
    if (left.aborted) return "has left";
    throw error;
  }
}

async function refusalOf<Request>(
  sluice: SluiceClient,
  { policy, key, cost, plan, maxWaitMs }: Limit<Request>,
  request: Request,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const values = key(request);
  if (values === undefined) return undefined;
  const how = {
    cost: typeof cost === "function" ? cost(request) : cost,
    plan: typeof plan === "function" ? plan(request) : plan,
  };
  // A request of no units only looks, and nobody stands in line for that.
  const decision = await (maxWaitMs === undefined || how.cost === 0
    ? sluice.check(policy, values, how)
    : sluice.acquire(policy, values, { ...how, maxWaitMs, signal }));
  if (!decision.allowed) return refusal(decision);
  // A leaky-bucket has charged the request already, and says when its turn is.
  if (decision.delay !== undefined) await sleep(decision.delay * 1000, undefined, { signal });
  return undefined;
}

function refusal(decision: Decision): Refusal {
  const { policy, retryAfter } = decision;
  const { status, type = "about:blank", title, detail, seconds = retryAfter } = problemOf(decision);
  const headers: Record<string, string> = { "content-type": "application/problem+json" };
  if (typeof seconds === "number") headers["retry-after"] = `${seconds}`;
  return { decision, status, headers, body: `${JSON.stringify({ type, title, status, detail, policy })}\n` };
}

interface Problem {
  readonly status: Refusal["status"];
  readonly type?: string;
  readonly title: string;
  readonly detail: string;
  readonly seconds?: number;
}

/** Registered by draft-ietf-httpapi-ratelimit-headers-11. */
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";

function problemOf({ reason, policy, retryAfter, resetAfter }: Decision): Problem {
  switch (reason) {
    case "banned":
      return { status: 403, title: "Banned", detail: "Requests of this client are not served." };
    case "key-missing": {
      const detail = `The request lacks an attribute that policy ${policy} counts by.`;
      return { status: 403, title: "Key missing", detail };
    }
    case "undecided":
    case "failure": {
      const detail = "The limit of this request cannot be checked at the moment.";
      return { status: 503, title: "Limit cannot be checked", detail, seconds: 1 };
    }
  }
  return { status: 429, type: quotaExceeded, title: "Quota exceeded", detail: wayOut(retryAfter, resetAfter) };
}

function wayOut(retryAfter: Decision["retryAfter"], resetAfter: Decision["resetAfter"]): string {
  if (typeof retryAfter === "number") return `Try again ${whenIn(retryAfter)}.`;
  return resetAfter === null
    ? "The limit has no units left for this request, and none come back by themselves."
    : "The request costs more than its limit ever holds.";
}

/** A longer wait is told as a moment. */
const mostPlainSeconds = 120;

/** Returns `in 7 s` or `at 2026-12-02 18:57:34 UTC`, rounded up. */
function whenIn(seconds: number): string {
  if (seconds <= mostPlainSeconds) return `in ${seconds} s`;
  const date = new Date(Math.ceil(Date.now() / 1000 + seconds) * 1000).toISOString();
  return `at ${date.slice(0, 10)} ${date.slice(11, 19)} UTC`;
}
