// Stores tokens and finds them by their hash: only an index over digests compares secrets, so its timing reveals nothing
// about them. Gateways get callers' tokens, so making or deleting one changes what gateways enforce.

import type { SnapshotCaller } from "@sluice/limiter/protocol/push-messages.ts";
import { type ExpressionBuilder, type SqlBool, sql, type Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import type { Role } from "../rights/roles.ts";
import { getApp } from "./apps.ts";
import { writeTrace } from "./audit.ts";
import { change, type Origin } from "./change.ts";
import type { Database, Tables, TokenTable } from "./tables.ts";
import { describedToken, type TokenRecord, tokenFrom } from "./token-records.ts";
import { addUsage, takeRoom } from "./usage.ts";
import { write } from "./write.ts";

export type { TokenRecord } from "./token-records.ts";

/** The names of the admins' tokens that are made at the start: the history has no other name for who uses them. */
export const adminTokenNames = { given: "environment", made: "first-admin" } as const;

/** How long an expired token stays in lists. */
const rememberExpiredMs = 30 * 86_400_000;

/** Whose tokens somebody may see and delete. */
export interface TokenScope {
  /** Undefined: of all apps and members. */
  readonly apps: readonly string[] | undefined;
  /** The member's own. */
  readonly member: string | undefined;
}

/**
 * Stores a token for all apps, unless there is one with its role already: control planes that start at once make one together.
 * @returns whether it was stored
 */
export async function insertFirstToken(database: Database, token: TokenRecord): Promise<boolean> {
  if (await hasToken(database, token.role)) return false;
  return write(database, async (transaction) => {
    if (await hasToken(transaction, token.role)) return false;
    await transaction.insertInto("tokens").values(rowFrom(token)).execute();
    return true;
  });
}

async function hasToken(database: Database | Transaction<Tables>, role: Role): Promise<boolean> {
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
 * Makes the given token, which is for all apps, the only such token of its role that has one of the names. Others become invalid.
 * Writes nothing if the token is the only one already.
 *
 * @param names of the tokens that end; undefined: all tokens of the role
 * @returns whether another token was valid before
 */
export async function replaceToken(
  database: Database,
  token: TokenRecord,
  names: readonly string[] | undefined,
): Promise<boolean> {
  const isOnly = (present: TokenTable[]) =>
    present.length === 1 && present[0]?.hash === token.hash && present[0].name === token.name;
  if (isOnly(await tokensOf(database, token.role, names))) return false;
  return write(database, async (transaction) => {
    // Read again: control planes that start at once have the same token.
    const present = await tokensOf(transaction, token.role, names);
    if (isOnly(present)) return false;
    const hashes = [...present.map(({ hash }) => hash), token.hash];
    await transaction.deleteFrom("tokens").where("hash", "in", hashes).execute();
    await transaction.insertInto("tokens").values(rowFrom(token)).execute();
    return present.some(({ hash }) => hash !== token.hash);
  });
}

/** Deletes the tokens of this name and role that are for all apps. Writes nothing if there are none. @returns whether there were any */
export async function deleteToken(database: Database, role: Role, name: string): Promise<boolean> {
  if ((await tokensOf(database, role, [name])).length === 0) return false;
  // As the only writer: what was let in by the token is stored before, or never.
  await write(database, (transaction) =>
    transaction
      .deleteFrom("tokens")
      .where("role", "=", role)
      .where("name", "=", name)
      .where("app", "is", null)
      .execute(),
  );
  return true;
}

function tokensOf(
  database: Database | Transaction<Tables>,
  role: Role,
  names: readonly string[] | undefined,
): Promise<TokenTable[]> {
  const query = database.selectFrom("tokens").selectAll().where("role", "=", role).where("app", "is", null);
  return (names === undefined ? query : query.where("name", "in", names)).execute();
}

/**
 * @returns the revision by which gateways learn of the token; undefined if they do not.
 * @throws ApiError app-not-found, bound-exceeded
 */
export function createToken(
  database: Database,
  origin: Origin,
  token: TokenRecord,
  total: TotalBounds,
): Promise<number | undefined> {
  return change(database, origin, async (transaction, record) => {
    const { app, member } = token;
    if (app === undefined) {
      if (member !== undefined) await requireRoom(transaction, member, origin.atMs);
      await transaction.insertInto("tokens").values(rowFrom(token)).execute();
      const trace = { action: "create-token", subject: token.name, after: describedToken(token) } as const;
      await writeTrace(transaction, origin, { ...trace, app: "" });
      return undefined;
    }
    await getApp(transaction, app);
    await sweepTokens(transaction, app, origin.atMs);
    await takeRoom(transaction, app, { tokens: 1, callers: token.role === "caller" ? 1 : 0 }, total);
    await transaction.insertInto("tokens").values(rowFrom(token)).execute();
    await writeTrace(transaction, origin, {
      action: "create-token",
      app,
      subject: token.name,
      after: describedToken(token),
    });
    if (token.role !== "caller") return undefined;
    return record({ action: "create-caller", app, subject: token.name, after: describedToken(token) });
  });
}

const mostOfMember = 50;

/** Deletes a member's expired tokens. @throws ApiError member-not-found, too-many-tokens */
async function requireRoom(transaction: Transaction<Tables>, member: string, nowMs: number): Promise<void> {
  const row = await transaction.selectFrom("members").select("name").where("name", "=", member).executeTakeFirst();
  if (row === undefined) throw new ApiError("member-not-found", `There is no member "${member}".`);
  const goneMs = nowMs - rememberExpiredMs;
  await transaction.deleteFrom("tokens").where("member", "=", member).where("expires_at", "<=", goneMs).execute();
  const { count } = await transaction
    .selectFrom("tokens")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("member", "=", member)
    .executeTakeFirstOrThrow();
  if (Number(count) < mostOfMember) return;
  throw new ApiError(
    "too-many-tokens",
    `The member "${member}" has ${count} tokens, which is the most: delete one first.`,
  );
}

/** Lists tokens in the order they were made, after the given id. */
export async function listTokens(
  database: Database,
  scope: TokenScope,
  after: string,
  limit: number,
): Promise<TokenRecord[]> {
  const rows = await database
    .selectFrom("tokens")
    .selectAll()
    .where("id", ">", after)
    .where(within(scope))
    .orderBy("id")
    .limit(limit)
    .execute();
  return rows.map(tokenFrom);
}

function within({ apps, member }: TokenScope) {
  return (row: ExpressionBuilder<Tables, "tokens">) => {
    if (apps === undefined) return sql<SqlBool>`1 = 1`;
    return row.or([
      ...(apps.length === 0 ? [sql<SqlBool>`1 = 0`] : [row("app", "in", apps)]),
      ...(member === undefined ? [] : [row("member", "=", member)]),
    ]);
  };
}

/**
 * @returns the revision by which gateways learn of the deletion; undefined if they do not
 * @throws ApiError token-not-found
 */
export function deleteTokenById(
  database: Database,
  origin: Origin,
  scope: TokenScope,
  id: string,
): Promise<number | undefined> {
  return change(database, origin, async (transaction, record) => {
    const row = await transaction
      .selectFrom("tokens")
      .selectAll()
      .where("id", "=", id)
      .where(within(scope))
      .executeTakeFirst();
    if (row === undefined) {
      throw new ApiError("token-not-found", `There is no token "${id}".`);
    }
    await transaction.deleteFrom("tokens").where("id", "=", id).execute();
    await transaction.deleteFrom("sessions").where("token", "=", id).execute();
    const token = tokenFrom(row);
    const trace = { action: "delete-token", subject: token.name, before: describedToken(token) } as const;
    await writeTrace(transaction, origin, { ...trace, app: token.app ?? "" });
    if (token.app === undefined) return undefined;
    await addUsage(transaction, token.app, { tokens: -1, callers: token.role === "caller" ? -1 : 0 });
    if (token.role !== "caller") return undefined;
    return record({ action: "delete-caller", app: token.app, subject: token.name, before: describedToken(token) });
  });
}

/** Reads valid callers' tokens, in the form of a snapshot. @param app only those of this app; absent: all */
export async function readCallers(
  transaction: Transaction<Tables>,
  nowMs: number,
  app?: string,
): Promise<SnapshotCaller[]> {
  let query = transaction.selectFrom("tokens").selectAll().where("role", "=", "caller");
  if (app !== undefined) query = query.where("app", "=", app);
  const rows = await query
    .where((row) => row.or([row("expires_at", "is", null), row("expires_at", ">", nowMs)]))
    .orderBy("id")
    .execute();
  return rows.map(tokenFrom).map(({ app = "", hash, name, expiresAtMs }) => ({
    app,
    sha256: hash,
    name,
    ...(expiresAtMs === undefined ? {} : { expiresAtSeconds: expiresAtMs / 1_000 }),
  }));
}

/** Deletes an app's tokens that expired so long ago that nobody will ask any more why they do not work. */
async function sweepTokens(transaction: Transaction<Tables>, app: string, nowMs: number): Promise<void> {
  const goneMs = nowMs - rememberExpiredMs;
  const roles = await transaction
    .selectFrom("tokens")
    .where("app", "=", app)
    .where("expires_at", "<=", goneMs)
    .select((row) => ["role", row.fn.countAll().as("count")])
    .groupBy("role")
    .execute();
  if (roles.length === 0) return;
  await transaction.deleteFrom("tokens").where("app", "=", app).where("expires_at", "<=", goneMs).execute();
  for (const { role, count } of roles) {
    const tokens = -Number(count);
    await addUsage(transaction, app, { tokens, callers: role === "caller" ? tokens : 0 });
  }
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
    member: token.member ?? null,
    last_used_at: token.lastUsedAtMs ?? null,
  };
}
