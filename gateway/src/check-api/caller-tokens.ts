// Identifies the callers of the check API by the hash of their token.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import { bearerToken } from "../../../limiter/src/key/authorization.ts";
import { callerSeries } from "../metrics/caller-counts.ts";
import { readHeader } from "../request/request-headers.ts";
import { sha256Hex } from "../runtime/sha256.ts";
import { currentState } from "../snapshot/current.ts";

/** The rights of a caller's token. */
export interface Caller {
  readonly app: string;
  readonly expiresAtSeconds: number;
  /** What counts its decisions. */
  readonly allowedSeries: string;
  readonly refusedSeries: string;
}

const mostVerified = 1000;

/** The version of the policies that the cache is of. */
let verifiedIn = 0;
/** By the whole header. Only known tokens are cached, so strangers cannot fill it. */
let verified: Record<string, Caller> = {};
let verifiedCount = 0;

/** @returns the caller of the current request; undefined if its token is missing, unknown or expired */
export function currentCaller(): Caller | undefined {
  const header = readHeader("authorization");
  if (header === undefined || header === false) return undefined;
  const { callersVersion } = currentState();
  if (callersVersion !== verifiedIn) {
    forgetVerified();
    verifiedIn = callersVersion;
  }
  const caller = verified[header] ?? verify(header);
  return caller === undefined || ngx.now() >= caller.expiresAtSeconds ? undefined : caller;
}

function verify(header: string): Caller | undefined {
  const token = bearerToken(header);
  if (token === undefined || token === false) return undefined;
  const sha256 = sha256Hex(token);
  const known = currentState().callers[sha256];
  if (known === undefined) return undefined;
  const caller: Caller = {
    app: known.app,
    expiresAtSeconds: known.expiresAtSeconds ?? math.huge,
    allowedSeries: callerSeries(sha256, "allowed"),
    refusedSeries: callerSeries(sha256, "refused"),
  };
  if (verifiedCount >= mostVerified) forgetVerified();
  verified[header] = caller;
  verifiedCount += 1;
  return caller;
}

function forgetVerified(): void {
  verified = emptyTable();
  verifiedCount = 0;
}
