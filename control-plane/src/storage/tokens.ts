// Tokens, found by their hash: comparing secrets is left to an index over digests, whose timing tells nothing of them.

import type { Database } from "./database.ts";

export type Role = "admin" | "gateway";

export interface TokenRecord {
  readonly hash: string;
  readonly name: string;
  readonly role: Role;
  /** The app that it is for; undefined: all. */
  readonly app: string | undefined;
  readonly createdAtMs: number;
  readonly expiresAtMs: number | undefined;
  readonly lastFour: string;
}

export async function findToken(database: Database, hash: string): Promise<TokenRecord | undefined> {
  const row = await database.selectFrom("tokens").selectAll().where("hash", "=", hash).executeTakeFirst();
  if (row === undefined) return undefined;
  return {
    hash: row.hash,
    name: row.name,
    role: row.role as Role,
    app: row.app ?? undefined,
    createdAtMs: Number(row.created_at),
    expiresAtMs: row.expires_at === null ? undefined : Number(row.expires_at),
    lastFour: row.last_four,
  };
}

export async function hasToken(database: Database, role: Role): Promise<boolean> {
  const row = await database.selectFrom("tokens").select("hash").where("role", "=", role).limit(1).executeTakeFirst();
  return row !== undefined;
}

/** Makes the given one the only token of its name and role; a token that had them before is worth nothing any more. */
export async function replaceToken(database: Database, token: TokenRecord): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    await transaction.deleteFrom("tokens").where("name", "=", token.name).where("role", "=", token.role).execute();
    await transaction.deleteFrom("tokens").where("hash", "=", token.hash).execute();
    await transaction
      .insertInto("tokens")
      .values({
        hash: token.hash,
        name: token.name,
        role: token.role,
        app: token.app ?? null,
        created_at: token.createdAtMs,
        expires_at: token.expiresAtMs ?? null,
        last_four: token.lastFour,
      })
      .execute();
  });
}

export async function deleteToken(database: Database, role: Role, name: string): Promise<void> {
  await database.deleteFrom("tokens").where("role", "=", role).where("name", "=", name).execute();
}
