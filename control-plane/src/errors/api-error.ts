// An error that is meant for the client, with a code of the catalogue. Any other thrown error becomes `internal`.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { Bound } from "../bounds/bounds.ts";
import { type ErrorCode, errorCatalogue } from "./catalogue.ts";

export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  errors?: readonly LocatedProblem[];
  etag?: string;
  policies?: readonly string[];
  bounds?: readonly ExceededBound[];
  stored?: StoredByImport;
  requestId?: string;
}

/** What an import that broke off has stored. */
export interface StoredByImport {
  readonly created: number;
  readonly changed: number;
  readonly deleted: number;
}

/** Where the problem is, if the body has many documents. */
export interface LocatedProblem extends Problem {
  /** The line of the body; the first is 1. */
  readonly line?: number;
  readonly policy?: string;
}

/** A bound that the request would exceed. */
export interface ExceededBound {
  readonly bound: Bound;
  /** Whether the bound applies to one document, to the app, or to all apps together. */
  readonly of: "policy" | "template" | "app" | "all";
  readonly used: number;
  readonly allowed: number;
  /** How much more the request wanted. */
  readonly wanted: number;
}

export interface ErrorExtras {
  readonly errors?: readonly LocatedProblem[];
  /** The current version, if a precondition failed. */
  readonly etag?: string;
  /** Names of the policies that prevent the change. */
  readonly policies?: readonly string[];
  readonly bounds?: readonly ExceededBound[];
  readonly stored?: StoredByImport;
  readonly requestId?: string;
}

export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly extras: ErrorExtras;
  readonly headers: Readonly<Record<string, string>>;

  /** @param detail one sentence about this occurrence, shown to the client */
  constructor(code: ErrorCode, detail: string, extras: ErrorExtras = {}, headers: Record<string, string> = {}) {
    super(detail);
    this.name = "ApiError";
    this.code = code;
    this.extras = extras;
    this.headers = headers;
  }

  get statusCode(): number {
    return errorCatalogue[this.code].status;
  }
}

/** The body of an error response (RFC 9457). */
export function problemDocument(error: ApiError): ProblemDocument {
  const { status, title } = errorCatalogue[error.code];
  return {
    type: `urn:sluice:error:${error.code}`,
    title,
    status,
    detail: error.message,
    code: error.code,
    ...error.extras,
  };
}

/** The number of errors, for the detail of an error that lists them: "1 error". */
export function countOfErrors(count: number): string {
  return count === 1 ? "1 error" : `${count} errors`;
}
