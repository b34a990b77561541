// Implements If-Match and If-None-Match (RFC 9110 §13.1) with numbers as versions, so that two operators who edit the same policy or
// consumer do not overwrite each other's work.

import type { FastifyRequest } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { lists } from "../http/etags.ts";
import type { Precondition } from "../storage/change.ts";

/** @param version another number after each change: a revision, a consumer's position */
export function etagOf(version: number): string {
  return `"${version}"`;
}

/** Whether a request that changes something may be refused for the version of what it is about. */
export function hasPrecondition({ headers }: FastifyRequest): boolean {
  return headers["if-match"] !== undefined || headers["if-none-match"] !== undefined;
}

/** Returns the check of the request's preconditions, for a request that changes something. */
export function preconditionOf(request: FastifyRequest): Precondition {
  const ifMatch = request.headers["if-match"];
  const ifNoneMatch = request.headers["if-none-match"];
  return (version) => {
    const etag = version === undefined ? undefined : etagOf(version);
    if (ifMatch !== undefined && !lists(ifMatch, etag)) throw failed("If-Match", ifMatch, etag);
    if (ifNoneMatch !== undefined && lists(ifNoneMatch, etag)) throw failed("If-None-Match", ifNoneMatch, etag);
  };
}

function failed(header: "If-Match" | "If-None-Match", got: string, etag: string | undefined): ApiError {
  if (etag === undefined) {
    return new ApiError(
      "precondition-failed",
      `If-Match: expected a version that is stored, got ${got}; there is none.`,
    );
  }
  const expected =
    header === "If-Match" ? `the current version, ${etag}` : `another version than ${etag}, the current one`;
  return new ApiError("precondition-failed", `${header}: expected ${expected}, got ${got}.`, { etag }, { etag });
}
