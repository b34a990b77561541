// The format and the storage form of tokens: 256 random bits with a prefix that secret scanners recognise, stored only as a
// hash.

import { createHash, randomBytes } from "node:crypto";
import type { Role } from "../rights/roles.ts";
import { newId } from "../storage/new-id.ts";
import type { TokenRecord } from "../storage/tokens.ts";

const prefixes: Record<Role, string> = {
  admin: "sluice_adm_",
  owner: "sluice_own_",
  member: "sluice_mbr_",
  editor: "sluice_edt_",
  viewer: "sluice_vwr_",
  caller: "sluice_call_",
  gateway: "sluice_gw_",
};

export function mintToken(role: Role): string {
  return prefixes[role] + randomBytes(32).toString("base64url");
}

/** A fast hash is enough: nobody can try 2^256 tokens, and a token that an operator chooses must be long. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token, "utf8").digest("hex");
}

/** Makes the record of a token for all apps that never expires. */
export function tokenRecord(token: string, name: string, role: Role, createdAtMs: number): TokenRecord {
  return {
    id: newId(createdAtMs),
    hash: hashToken(token),
    name,
    role,
    app: undefined,
    member: undefined,
    createdAtMs,
    expiresAtMs: undefined,
    lastFour: token.slice(-4),
    lastUsedAtMs: undefined,
  };
}
