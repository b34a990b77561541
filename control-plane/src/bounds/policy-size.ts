// Measures what a policy takes of its app's bounds.

import { expressionSteps } from "@sluice/limiter/match/expression-steps.ts";
import { pathPattern } from "@sluice/limiter/match/path-pattern.ts";

export interface PolicySize {
  /** Of its document in JSON without spaces, in UTF-8. */
  readonly bytes: number;
  readonly steps: number;
}

/** @param document valid, with what its templates say in place */
export function policySize(document: unknown): PolicySize {
  return { bytes: documentBytes(document), steps: stepsOf(document) };
}

export function documentBytes(document: unknown): number {
  return Buffer.byteLength(JSON.stringify(document) ?? "");
}

function stepsOf(document: unknown): number {
  const { match } = document as { match?: { paths?: readonly string[] } };
  const patterns = [...new Set(match?.paths ?? [])].map(pathPattern);
  return expressionSteps(patterns.filter(({ kind }) => kind === "regex").map(({ text }) => text));
}
