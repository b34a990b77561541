// Measures how much of its app's bounds a policy uses.

import { expressionSteps } from "@sluice/limiter/match/expression-steps.ts";
import { pathPattern } from "@sluice/limiter/match/path-pattern.ts";

export interface PolicySize {
  /** Size of its document as JSON without spaces, in UTF-8. */
  readonly bytes: number;
  readonly steps: number;
}

/** @param document a valid document with its templates resolved */
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
