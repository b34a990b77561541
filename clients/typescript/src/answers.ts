// Reads what the gateway answered. Whatever has not the shape of an answer is undefined here, and a failure for its callers: a
// decision is never guessed.

import type { Decision, ReportDecision } from "./decision.ts";

type Json = Readonly<Record<string, unknown>>;

/** @returns the decisions of a check request, in the order of `policies` */
export function readDecisions(body: Json, policies: readonly string[]): Decision[] | undefined {
  const { allowed, results } = body;
  if (typeof allowed !== "boolean" || !Array.isArray(results) || results.length !== policies.length) return undefined;
  const decisions = results.map((result, i) => readDecision(result, policies[i] ?? ""));
  return decisions.every((decision) => decision !== undefined) ? decisions : undefined;
}

/** @param asked the policy as the caller named it */
export function readDecision(result: unknown, asked: string): Decision | undefined {
  if (typeof result !== "object" || result === null) return undefined;
  const {
    policy = asked,
    allowed,
    limit,
    remaining,
    retryAfter,
    resetAfter,
    delay,
    waited,
    debt,
    reason,
  } = result as Json;
  if (typeof policy !== "string" || typeof allowed !== "boolean") return undefined;
  if (![limit, remaining, delay, waited, debt].every((figure) => figure === undefined || typeof figure === "number"))
    return undefined;
  if (![retryAfter, resetAfter].every((figure) => figure == null || typeof figure === "number")) return undefined;
  if (reason !== undefined && typeof reason !== "string") return undefined;
  const figures = { limit, remaining, retryAfter, resetAfter, delay, waited, debt, reason };
  const present = Object.fromEntries(Object.entries(figures).filter(([, figure]) => figure !== undefined));
  return { allowed, policy, ...present, source: "gateway" };
}

/** @returns the decision of the one report that was asked: of a limit that does not say what it charged beyond, undefined */
export function readReport(body: Json, policy: string): ReportDecision | undefined {
  const decision = readDecisions(body, [policy])?.[0];
  if (decision === undefined || (decision.debt === undefined && decision.reason === undefined)) return undefined;
  return { ...decision, debt: decision.debt ?? 0 };
}

/** @returns the hold's text and how long it lasts */
export function readHoldText({ hold, ttl }: Json): { text: string; ttlMs: number } | undefined {
  const ttlMs = readTtlMs(ttl);
  return typeof hold === "string" && hold !== "" && ttlMs !== undefined ? { text: hold, ttlMs } : undefined;
}

/** @returns how long the slots last again; "lost": they are held no more; undefined: the answer says neither */
export function readRenewal({ renewed, ttl }: Json): number | "lost" | undefined {
  if (renewed === false) return "lost";
  return renewed === true ? readTtlMs(ttl) : undefined;
}

function readTtlMs(ttl: unknown): number | undefined {
  return typeof ttl === "number" && ttl > 0 ? ttl * 1000 : undefined;
}
