// Checks bodies against a shape of the limiter, so that problems are reported in the same words as those of policies.

import { listProblems, noFindings } from "@sluice/limiter/document/problems.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import { checkShape, type Problem } from "@sluice/limiter/document/validate.ts";
import { ApiError } from "../errors/api-error.ts";

export function shapeProblems(shape: Shape, value: unknown): Problem[] {
  const findings = noFindings();
  checkShape(shape, value, "", findings);
  return listProblems(findings);
}

/**
 * @returns the body; its type T is taken from the shape, not checked by the compiler
 * @throws ApiError invalid-request with all problems of the body
 */
export function readBody<T>(shape: Shape, body: unknown): T {
  refuseProblems(shapeProblems(shape, body));
  return body as T;
}

/** @throws ApiError invalid-request if there are problems */
export function refuseProblems(problems: readonly Problem[]): void {
  const [first, ...more] = problems;
  if (first !== undefined) throw invalidRequest(first, ...more);
}

/** The error about one or several problems of a request; its detail is the first of them. */
export function invalidRequest(...errors: readonly [Problem, ...Problem[]]): ApiError {
  const [{ path, expected, got }] = errors;
  const where = path === "" ? "The body" : path;
  return new ApiError("invalid-request", `${where}: expected ${expected}, got ${got}.`, { errors });
}
