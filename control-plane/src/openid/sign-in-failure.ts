// Why somebody could not sign in by OpenID Connect: what the person is told, and what the audit trail and the log say.

import { ApiError } from "../errors/api-error.ts";

const retryAfterSeconds = 5;

export type SignInFailureCode = "sign-in-failed" | "sign-in-refused" | "sign-in-unavailable";

export class SignInFailure extends ApiError {
  /** One line without secrets. */
  readonly reason: string;

  constructor(code: SignInFailureCode, detail: string, reason: string) {
    super(code, detail, {}, code === "sign-in-unavailable" ? { "retry-after": String(retryAfterSeconds) } : {});
    this.reason = reason;
  }
}
