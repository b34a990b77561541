// Stores tokens and finds them by their hash: only an index over digests compares secrets, so its timing reveals nothing
// about them. Gateways get callers' tokens, so making or deleting one changes what gateways enforce.

import type { SnapshotCaller } from "@sluice/limiter/protocol/push-messages.ts";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { getApp } from "./apps.ts";
import { writeTrace } from "./audit.ts";
import { change, type Origin } from "./change.ts";
import type { Database, Tables, TokenTable } from "./tables.ts";
import { addUsage, takeRoom } from "./usage.ts";

/** How long an expired token stays in lists. */
const rememberExpiredMs = 30 * 86_400_000;

/** The roles that a token of an app can have. */
export const appRoles = ["admin", "editor", "viewer", "caller"] as const;
export type AppRole = (typeof appRoles)[number];
export type Role = AppRole | "gateway";

export interface TokenRecord {
  readonly id: string;
  readonly hash: string;
  readonly name: string;
  readonly role: Role;
  /** The app that the token is for; undefined means all apps. */
  readonly app: string | undefined;
  readonly createdAtMs: number;
  /** A whole second, in milliseconds since 1970. */
  readonly expiresAtMs: number | undefined;
  readonly lastFour: string;
}

export async function findToken(database: Database, hash: string): Promise<TokenRecord | undefined> {
  const row = await database.selectFrom("tokens").selectAll().where("hash", "=", hash).executeTakeFirst();
  return row === undefined ? undefined : tokenFrom(row);
}

/** Returns whether there is a token with this role for all apps. */
export async function hasToken(database: Database, role: Role): Promise<boolean> {
  const row = await database
    .selectFrom("tokens")
    .select("hash")
    .where("role", "=", role)
    .where("app", "is", null)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Makes the given token, which is for all apps, the only such token of its name and role. An earlier one becomes invalid.
 * Writes nothing if the token is the only one already.
 */
export async function replaceToken(database: Database, token: TokenRecord): Promise<void> {
  const present = await tokensOf(database, token.role, token.name);
  if (present.length === 1 && present[0]?.hash === token.hash) return;
  await database.transaction().execute(async (transaction) => {
    await transaction
      .deleteFrom("tokens")
      .where("name", "=", token.name)
      .where("role", "=", token.role)
      .where("app", "is", null)
      .execute();
    await transaction.deleteFrom("tokens").where("hash", "=", token.hash).execute();
    await transaction.insertInto("tokens").values(rowFrom(token)).execute();
  });
}

/** Deletes the tokens of this name and role that are for all apps. Writes nothing if there are none. */
export async function deleteToken(database: Database, role: Role, name: string): Promise<void> {
  if ((await tokensOf(database, role, name)).length === 0) return;
  await database
    .deleteFrom("tokens")
    .where("role", "=", role)
    .where("name", "=", name)
    .where("app", "is", null)
    .execute();
}

function tokensOf(database: Database, role: Role, name: string): Promise<{ hash: string }[]> {
  return database
    .selectFrom("tokens")
    .select("hash")
    .where("role", "=", role)
    .where("name", "=", name)
    .where("app", "is", null)
    .execute();
}

/**
 * @returns the revision by which gateways learn of the token; undefined if they do not.
 * @throws ApiError app-not-found, bound-exceeded
 */
export function createToken(
  database: Database,
  origin: Origin,
  token: TokenRecord & { readonly app: string },
  total: TotalBounds,
): Promise<number | undefined> {
  return change(database, origin, async (transaction, record) => {
    const { app } = token;
    await getApp(transaction, app);
    await sweepTokens(transaction, app, origin.atMs);
    await takeRoom(transaction, app, { tokens: 1, callers: token.role === "caller" ? 1 : 0 }, total);
    await transaction.insertInto("tokens").values(rowFrom(token)).execute();
    await writeTrace(transaction, origin, {
      action: "create-token",
      app,
      subject: token.name,
      after: described(token),
    });
    if (token.role !== "caller") return undefined;
    return record({ action: "create-caller", app: token.app, subject: token.name, after: described(token) });
  });
}

/**
 * Lists tokens in the order they were made, after the given id, without gateways' tokens.
 * @param app lists only tokens for this app; undefined lists all
 */
export async function listTokens(
  database: Database,
  app: string | undefined,
  after: string,
  limit: number,
): Promise<TokenRecord[]> {
  let query = database.selectFrom("tokens").selectAll().where("role", "!=", "gateway").where("id", ">", after);
  if (app !== undefined) query = query.where("app", "=", app);
  const rows = await query.orderBy("id").limit(limit).execute();
  return rows.map(tokenFrom);
}

/**
 * @param app the app that the token must be for; undefined allows any
 * @returns the revision by which gateways learn of the deletion; undefined if they do not
 * @throws ApiError token-not-found
 */
export function deleteTokenById(
  database: Database,
  origin: Origin,
  app: string | undefined,
  id: string,
): Promise<number | undefined> {
  return change(database, origin, async (transaction, record) => {
    const row = await transaction
      .selectFrom("tokens")
      .selectAll()
      .where("id", "=", id)
      .where("role", "!=", "gateway")
      .executeTakeFirst();
    if (row === undefined || (app !== undefined && row.app !== app)) {
      throw new ApiError("token-not-found", `There is no token "${id}".`);
    }
    await transaction.deleteFrom("tokens").where("id", "=", id).execute();
    const token = tokenFrom(row);
    const trace = { action: "delete-token", subject: token.name, before: described(token) } as const;
    await writeTrace(transaction, origin, { ...trace, app: token.app ?? "" });
    if (token.app === undefined) return undefined;
    await addUsage(transaction, token.app, { tokens: -1, callers: token.role === "caller" ? -1 : 0 });
    if (token.role !== "caller") return undefined;
    return record({ action: "delete-caller", app: token.app, subject: token.name, before: described(token) });
  });
}

/** Reads all valid callers' tokens, in the form of a snapshot. */
export async function readCallers(transaction: Transaction<Tables>, nowMs: number): Promise<SnapshotCaller[]> {
  const rows = await transaction
    .selectFrom("tokens")
    .selectAll()
    .where("role", "=", "caller")
    .where((row) => row.or([row("expires_at", "is", null), row("expires_at", ">", nowMs)]))
    .orderBy("id")
    .execute();
  return rows.map(tokenFrom).map(({ app = "", hash, expiresAtMs }) => ({
    app,
    sha256: hash,
    ...(expiresAtMs === undefined ? {} : { expiresAtSeconds: expiresAtMs / 1_000 }),
  }));
}

/** Deletes an app's tokens that expired so long ago that nobody will ask any more why they do not work. */
async function sweepTokens(transaction: Transaction<Tables>, app: string, nowMs: number): Promise<void> {
  const gone = transaction
    .selectFrom("tokens")
    .where("app", "=", app)
    .where("expires_at", "<=", nowMs - rememberExpiredMs);
  const roles = await gone
    .select((row) => ["role", row.fn.countAll().as("count")])
    .groupBy("role")
    .execute();
  if (roles.length === 0) return;
  await transaction.deleteFrom("tokens").where("hash", "in", gone.select("hash")).execute();
  for (const { role, count } of roles) {
    const tokens = -Number(count);
    await addUsage(transaction, app, { tokens, callers: role === "caller" ? tokens : 0 });
  }
}

/** Describes a token for the history, without any secret. */
function described({ id, name, role, expiresAtMs }: TokenRecord): string {
  const expiresAt = expiresAtMs === undefined ? undefined : new Date(expiresAtMs).toISOString();
  return JSON.stringify({ id, name, role, expiresAt });
}

function tokenFrom(row: TokenTable): TokenRecord {
  return {
    id: row.id,
    hash: row.hash,
    name: row.name,
    role: row.role as Role,
    app: row.app ?? undefined,
    createdAtMs: Number(row.created_at),
    expiresAtMs: row.expires_at === null ? undefined : Number(row.expires_at),
    lastFour: row.last_four,
  };
}

function rowFrom(token: TokenRecord): TokenTable {
  return {
    id: token.id,
    hash: token.hash,
    name: token.name,
    role: token.role,
    app: token.app ?? null,
    created_at: token.createdAtMs,
    expires_at: token.expiresAtMs ?? null,
    last_four: token.lastFour,
  };
}
