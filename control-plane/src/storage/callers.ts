// Finds who a token or a session belongs to, with their rights of now: a change of a member's roles is in force for the next
// request.

import { setImmediate } from "node:timers/promises";
import { sql, type Transaction } from "kysely";
import type { Caller } from "../rights/caller.ts";
import { type GroupMapping, withGroups } from "../rights/group-rights.ts";
import type { AppRole } from "../rights/roles.ts";
import type { Database, MemberTable, Tables, TokenTable } from "./tables.ts";
import { write } from "./write.ts";

/** Why a token does not identify anybody. */
export type TokenRefusal = "unknown" | "expired" | "disabled";

/**
 * How long after a sign-in the member's groups give rights: somebody who has left and never signs in again must not keep them by a
 * token of their own.
 */
const groupsHoldMs = 30 * 86_400_000;

/** What a caller's rights follow from, besides what is stored. */
export interface RightsNow {
  readonly nowMs: number;
  readonly groups: GroupMapping;
}

/** @param by the token's hash, or its id */
export async function findCaller(
  database: Database | Transaction<Tables>,
  by: { readonly hash: string } | { readonly id: string },
  now: RightsNow,
): Promise<Caller | TokenRefusal> {
  // One statement, because each change of a service or a member waits for it too.
  const rows = await database
    .selectFrom("tokens")
    .leftJoin("members", "members.name", "tokens.member")
    .leftJoin("member_roles", "member_roles.member", "members.name")
    .select(["tokens.id", "tokens.name", "tokens.role", "tokens.app", "tokens.member", "tokens.expires_at"])
    .select(ofMember)
    .where("hash" in by ? "tokens.hash" : "tokens.id", "=", "hash" in by ? by.hash : by.id)
    .orderBy("member_roles.app")
    .execute();
  const [row] = rows;
  if (row === undefined) return "unknown";
  if (row.expires_at !== null && Number(row.expires_at) <= now.nowMs) return "expired";
  if (row.member !== null) return memberFrom(database, row.id, rows, now);
  return serviceFrom(row);
}

function serviceFrom({ id, name, role, app }: Pick<TokenTable, "id" | "name" | "role" | "app">): Caller {
  // An app's owner chooses the names of its tokens. The prefix keeps such a token from looking like one of another app, or of
  // all apps.
  return {
    id,
    who: app === null ? name : `${app}/${name}`,
    member: undefined,
    isGateway: role === "gateway",
    isAdmin: role === "admin" && app === null,
    roles: new Map(app === null ? [] : [[app, role as AppRole]]),
  };
}

/** @param id of the token, or one for all sessions of the member */
export async function findMember(
  database: Database | Transaction<Tables>,
  id: string,
  member: string,
  now: RightsNow,
): Promise<Caller | TokenRefusal> {
  const rows = await database
    .selectFrom("members")
    .leftJoin("member_roles", "member_roles.member", "members.name")
    .select(ofMember)
    .where("members.name", "=", member)
    .orderBy("member_roles.app")
    .execute();
  return memberFrom(database, id, rows, now);
}

/** A row for each role of a member, or one without a role. */
const ofMember = [
  "members.name as member_name",
  "members.is_admin",
  "members.disabled_at",
  "members.groups_at",
  "member_roles.app as role_app",
  "member_roles.role as role_in_app",
] as const;

interface MemberRow extends Pick<MemberTable, "disabled_at" | "groups_at"> {
  /** Null: there is no such member. */
  readonly member_name: string | null;
  readonly is_admin: number | null;
  readonly role_app: string | null;
  readonly role_in_app: string | null;
}

async function memberFrom(
  database: Database | Transaction<Tables>,
  id: string,
  rows: readonly MemberRow[],
  { nowMs, groups: mapping }: RightsNow,
): Promise<Caller | TokenRefusal> {
  const [row] = rows;
  const name = row?.member_name ?? undefined;
  if (row === undefined || name === undefined) return "unknown";
  if (row.disabled_at !== null) return "disabled";
  const roles = new Map<string, AppRole>();
  for (const { role_app, role_in_app } of rows) if (role_app !== null) roles.set(role_app, role_in_app as AppRole);
  const groupsHold = row.groups_at !== null && Number(row.groups_at) + groupsHoldMs > nowMs;
  const groups = groupsHold ? await readGroups(database, name) : [];
  const own = { isAdmin: Number(row.is_admin) === 1, roles };
  return { id, who: name, member: name, isGateway: false, ...withGroups(own, groups, mapping) };
}

async function readGroups(database: Database | Transaction<Tables>, member: string): Promise<string[]> {
  const rows = await database
    .selectFrom("member_groups")
    .select("group_name")
    .where("member", "=", member)
    .orderBy("group_name")
    .execute();
  return rows.map(({ group_name }) => group_name);
}

/** Each part is one statement, and others' changes go between two parts. */
const usesAtOnce = 200;

/**
 * Stores when tokens were last used, and forgets those that it has stored.
 * @param uses times in milliseconds since 1970, by the tokens' ids. A token that is gone has none
 */
export async function storeUses(database: Database, uses: Map<string, number>): Promise<void> {
  const all = [...uses];
  for (let i = 0; i < all.length; i += usesAtOnce) {
    const part = all.slice(i, i + usesAtOnce);
    const times = part.map(([id, atMs]) => sql`when ${id} then ${sql.lit(atMs)}`);
    await write(database, (transaction) =>
      transaction
        .updateTable("tokens")
        .set({ last_used_at: sql<number>`case id ${sql.join(times, sql` `)} end` })
        .where(
          "id",
          "in",
          part.map(([id]) => id),
        )
        .execute(),
    );
    // SQLite's driver does its work in this thread.
    await setImmediate();
    for (const [id, atMs] of part) if (uses.get(id) === atMs) uses.delete(id);
  }
}

/** Returns whose the tokens are that were used or made last, by their hashes, the newest at the end. Members come without their roles. */
export async function recentCallers(database: Database, most: number): Promise<Map<string, Caller>> {
  const rows = await database
    .selectFrom("tokens")
    .select(["hash", "id", "name", "role", "app", "member"])
    .orderBy(({ fn }) => fn.coalesce("last_used_at", "created_at"), "desc")
    .limit(most)
    .execute();
  return new Map(rows.reverse().map((row) => [row.hash, { ...serviceFrom(row), member: row.member ?? undefined }]));
}
