// Identifies the callers of the check API by the hash of their token. The table is made once for each snapshot, so that a request
// needs one lookup and no search.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { bearerToken } from "../../../limiter/src/key/authorization.ts";
import type { CompiledSnapshot, SnapshotCaller } from "../../../limiter/src/protocol/load-snapshot.ts";
import { readHeader } from "../request/request-headers.ts";
import { sha256Hex } from "../runtime/sha256.ts";
import { currentSnapshot, policiesOf } from "../snapshot/current.ts";

/** The rights of a caller's token. */
export interface Caller {
  readonly app: string;
  readonly expiresAtSeconds: number;
  /** The policies of its app by name. */
  readonly policies: Readonly<Record<string, CompiledPolicy>>;
}

const mostVerified = 1000;

let made: CompiledSnapshot | undefined;
let callersByHash: Record<string, Caller> = {};
/** By the whole header. Only known tokens are cached, so strangers cannot fill it. */
let verified: Record<string, Caller> = {};
let verifiedCount = 0;

/** @returns the caller of the current request; undefined if its token is missing, unknown or expired */
export function currentCaller(): Caller | undefined {
  const header = readHeader("authorization");
  if (header === undefined || header === false) return undefined;
  follow(currentSnapshot());
  const caller = verified[header] ?? verify(header);
  return caller === undefined || ngx.now() >= caller.expiresAtSeconds ? undefined : caller;
}

function verify(header: string): Caller | undefined {
  const token = bearerToken(header);
  if (token === undefined || token === false) return undefined;
  const caller = callersByHash[sha256Hex(token)];
  if (caller === undefined) return undefined;
  if (verifiedCount >= mostVerified) forgetVerified();
  verified[header] = caller;
  verifiedCount += 1;
  return caller;
}

function follow(snapshot: CompiledSnapshot): void {
  if (snapshot === made) return;
  callersByHash = emptyTable();
  for (const { app, sha256, expiresAtSeconds } of snapshot.callers ?? noCallers) {
    callersByHash[sha256] = {
      app,
      policies: policiesOf(app),
      expiresAtSeconds: expiresAtSeconds ?? math.huge,
    };
  }
  forgetVerified();
  made = snapshot;
}

const noCallers: readonly SnapshotCaller[] = [];

function forgetVerified(): void {
  verified = emptyTable();
  verifiedCount = 0;
}
