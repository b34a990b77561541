// Tokens, found by their hash: comparing secrets is left to an index over digests, whose timing tells nothing of them.
// Those of callers travel to the gateways: making and deleting one is a change of what gateways enforce.

import type { SnapshotCaller } from "@sluice/limiter/protocol/push-messages.ts";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { getApp } from "./apps.ts";
import { writeTrace } from "./audit.ts";
import { change, type Origin } from "./change.ts";
import type { Database } from "./database.ts";
import type { Tables, TokenTable } from "./tables.ts";
import { addUsage, takeRoom } from "./usage.ts";

/** How long a token that has expired is still listed. */
const rememberExpiredMs = 30 * 86_400_000;

/** What a token of an app may be made for. */
export const appRoles = ["admin", "editor", "viewer", "caller"] as const;
export type AppRole = (typeof appRoles)[number];
export type Role = AppRole | "gateway";

export interface TokenRecord {
  readonly id: string;
  readonly hash: string;
  readonly name: string;
  readonly role: Role;
  /** The app that it is for; undefined: all. */
  readonly app: string | undefined;
  readonly createdAtMs: number;
  /** A whole second. */
  readonly expiresAtMs: number | undefined;
  readonly lastFour: string;
}

export async function findToken(database: Database, hash: string): Promise<TokenRecord | undefined> {
  const row = await database.selectFrom("tokens").selectAll().where("hash", "=", hash).executeTakeFirst();
  return row === undefined ? undefined : tokenFrom(row);
}

/** Whether there is a token of the role that is for all apps. */
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
 * Makes the given one, which is for all apps, the only such token of its name and role; one that had them before is
 * worth nothing any more. Where it is that already, nothing is written.
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

/** Of those for all apps. Where there is none, nothing is written. */
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

/** @returns the revision that gateways learn of it by, if they do. @throws ApiError app-not-found, bound-exceeded */
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
 * In the order they were made, those after the given id; gateways' are none of them.
 * @param app only those of its, or undefined for all
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
 * @param app only one of its, or undefined for any
 * @returns the revision that gateways learn of it by, if they do
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

/** Every caller's token that is good, as a snapshot has it. */
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

/** Those of an app that have been good for nothing so long that nobody asks any more why. */
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

/** For the history: nothing that opens a door. */
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
