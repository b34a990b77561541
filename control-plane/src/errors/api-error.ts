// An error that a client is meant to see, by its code in the catalogue. Whatever else is thrown becomes `internal`.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { Bound } from "../bounds/bounds.ts";
import { type ErrorCode, errorCatalogue } from "./catalogue.ts";

export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  errors?: readonly Problem[];
  etag?: string;
  policies?: readonly string[];
  bounds?: readonly ExceededBound[];
  requestId?: string;
}

/** Something that there may not be more of. */
export interface ExceededBound {
  readonly bound: Bound;
  /** Whose it is: of one document, of the app, or of all apps together. */
  readonly of: "policy" | "template" | "app" | "all";
  readonly used: number;
  readonly allowed: number;
  /** How much more was asked for. */
  readonly wanted: number;
}

export interface ErrorExtras {
  readonly errors?: readonly Problem[];
  /** The current version, where a precondition failed. */
  readonly etag?: string;
  /** Names of the policies that are in the way. */
  readonly policies?: readonly string[];
  readonly bounds?: readonly ExceededBound[];
  readonly requestId?: string;
}

export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly extras: ErrorExtras;
  readonly headers: Readonly<Record<string, string>>;

  /** @param detail one sentence on this occurrence, shown to the client */
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
