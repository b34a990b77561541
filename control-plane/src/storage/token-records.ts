// Tokens as they are stored and described, and the end of all tokens of an app or of a member.

import type { Transaction } from "kysely";
import type { Role } from "../rights/roles.ts";
import { writeTrace } from "./audit.ts";
import type { Origin } from "./change.ts";
import type { Tables, TokenTable } from "./tables.ts";

export interface TokenRecord {
  readonly id: string;
  readonly hash: string;
  readonly name: string;
  readonly role: Role;
  /** The app that the token is for; undefined: all apps, or those of the member. */
  readonly app: string | undefined;
  /** The member to whom the token belongs; undefined: a service's token. */
  readonly member: string | undefined;
  readonly createdAtMs: number;
  /** A whole second, in milliseconds since 1970. */
  readonly expiresAtMs: number | undefined;
  readonly lastFour: string;
  /** Up to a minute late; undefined: never used. */
  readonly lastUsedAtMs: number | undefined;
}

/**
 * Deletes them, with an entry of the audit trail for each: somebody may ask why one does not work any more. What is counted as used
 * by the app stays as it is.
 */
export async function deleteTokensOf(
  transaction: Transaction<Tables>,
  origin: Origin,
  owner: "app" | "member",
  name: string,
): Promise<void> {
  const rows = await transaction.selectFrom("tokens").selectAll().where(owner, "=", name).orderBy("id").execute();
  await transaction.deleteFrom("tokens").where(owner, "=", name).execute();
  for (const row of rows) {
    const token = tokenFrom(row);
    const trace = { action: "delete-token", subject: token.name, before: describedToken(token) } as const;
    await writeTrace(transaction, origin, { ...trace, app: token.app ?? "" });
  }
}

/** Describes a token for the history as JSON, without any secret. */
export function describedToken({ id, name, role, member, expiresAtMs }: TokenRecord): string {
  const expiresAt = expiresAtMs === undefined ? undefined : new Date(expiresAtMs).toISOString();
  return JSON.stringify({ id, name, role, member, expiresAt });
}

export function tokenFrom(row: TokenTable): TokenRecord {
  return {
    id: row.id,
    hash: row.hash,
    name: row.name,
    role: row.role as Role,
    app: row.app ?? undefined,
    member: row.member ?? undefined,
    createdAtMs: Number(row.created_at),
    expiresAtMs: row.expires_at === null ? undefined : Number(row.expires_at),
    lastFour: row.last_four,
    lastUsedAtMs: row.last_used_at === null ? undefined : Number(row.last_used_at),
  };
}
