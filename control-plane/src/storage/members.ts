// Stores members, who are people, and their roles. Every change of a member is an entry of the audit trail for each app that it
// concerns: an app's owners see who got or lost a role in it, and nothing of other apps.

import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import type { MemberRole } from "../rights/roles.ts";
import { getApp } from "./apps.ts";
import { type AuditAction, writeTrace } from "./audit.ts";
import { type Origin, writeFor } from "./change.ts";
import type { Database, MemberTable, Tables } from "./tables.ts";
import { deleteTokensOf } from "./token-records.ts";
import { adminTokenNames } from "./tokens.ts";

export interface Member {
  readonly name: string;
  readonly isAdmin: boolean;
  /** Undefined: not disabled. */
  readonly disabledAtMs: number | undefined;
  readonly createdAtMs: number;
  readonly createdBy: string;
  /** Grows with each change: for the ETag. */
  readonly version: number;
  readonly roles: Readonly<Record<string, MemberRole>>;
  /** Whether the member can sign in by OpenID Connect. */
  readonly hasIdentity: boolean;
  /** The groups that the member was in at the last sign-in by OpenID Connect. */
  readonly groups: readonly string[];
}

/** Who somebody is at an OpenID provider. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
}

/** Of whom somebody may know: members with a role in one of the apps, or in a group that gives one. */
export interface MemberScope {
  readonly apps: readonly string[];
  readonly groups: readonly string[];
}

/** Nobody's changes may look like those of an admin's token, or of nobody. */
const reservedNames: ReadonlySet<string> = new Set([...Object.values(adminTokenNames), "unknown"]);

/** An absent field stays as it is. */
export interface MemberChange {
  /** Null takes the role away. Apps that are absent keep theirs. */
  readonly roles?: Readonly<Record<string, MemberRole | null>> | undefined;
  readonly admin?: boolean | undefined;
  readonly disabled?: boolean | undefined;
}

/** Throws when the caller's condition does not hold for the version that is stored. */
export type MemberPrecondition = (version: number | undefined) => void;

/** Lists members by name. @param scope undefined: all members */
export async function listMembers(
  database: Database,
  scope: MemberScope | undefined,
  after: string,
  limit: number,
): Promise<Member[]> {
  if (scope?.apps.length === 0) return [];
  let query = database.selectFrom("members").selectAll().where("name", ">", after);
  if (scope !== undefined) {
    // The page's names come first: otherwise all members of the apps would be read for each page.
    const names = await namesIn(database, scope, after, limit);
    if (names.length === 0) return [];
    query = query.where("name", "in", names);
  }
  const rows = await query.orderBy("name").limit(limit).execute();
  return membersFrom(database, rows);
}

/** Returns the first names of those who have a role in the apps, by themselves or by a group. */
async function namesIn(
  database: Database,
  { apps, groups }: MemberScope,
  after: string,
  limit: number,
): Promise<string[]> {
  const byRole = await database
    .selectFrom("member_roles")
    .select("member")
    .distinct()
    .where("app", "in", apps)
    .where("member", ">", after)
    .orderBy("member")
    .limit(limit)
    .execute();
  const byGroup =
    groups.length === 0
      ? []
      : await database
          .selectFrom("member_groups")
          .select("member")
          .distinct()
          .where("group_name", "in", groups)
          .where("member", ">", after)
          .orderBy("member")
          .limit(limit)
          .execute();
  return [...new Set([...byRole, ...byGroup].map(({ member }) => member))].sort().slice(0, limit);
}

/** @throws ApiError member-not-found */
export async function getMember(database: Database | Transaction<Tables>, name: string): Promise<Member> {
  const member = await findStored(database, name);
  if (member === undefined) throw memberNotFound(name);
  return member;
}

/** Whether the history means somebody by this name. */
export async function isNameTaken(database: Database | Transaction<Tables>, name: string): Promise<boolean> {
  return reservedNames.has(name) || (await findStored(database, name)) !== undefined;
}

/** Each new name is a row, so owners must not make them without end, by whatever names their tokens have. */
const mostOfOwners = 1_000;

/**
 * @param addedIn the app whose owner adds the member; undefined: an admin does
 * @throws ApiError member-exists, app-not-found, too-many-members
 */
export function createMember(
  database: Database,
  origin: Origin,
  addedIn: string | undefined,
  name: string,
  change: MemberChange,
): Promise<Member> {
  return writeFor(database, origin, async (transaction) => {
    if (addedIn !== undefined) await requireRoom(transaction, addedIn);
    return insertMember(transaction, origin, name, change, { addedIn });
  });
}

/** @throws ApiError too-many-members */
async function requireRoom(transaction: Transaction<Tables>, app: string): Promise<void> {
  const { count } = await transaction
    .selectFrom("members")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("added_in", "=", app)
    .executeTakeFirstOrThrow();
  if (Number(count) < mostOfOwners) return;
  const detail = `Owners of the app "${app}" have added ${count} members, which is the most: ask an admin to add more, or to delete some.`;
  throw new ApiError("too-many-members", detail);
}

/** @throws ApiError member-exists, app-not-found */
export async function insertMember(
  transaction: Transaction<Tables>,
  origin: Origin,
  name: string,
  change: MemberChange,
  { addedIn, identity }: { addedIn?: string | undefined; identity?: Identity },
): Promise<Member> {
  if (reservedNames.has(name)) {
    throw new ApiError("member-exists", `"${name}" is how the history names somebody else.`);
  }
  if ((await findStored(transaction, name)) !== undefined) {
    throw new ApiError("member-exists", `There is already a member "${name}".`);
  }
  const row: MemberTable = {
    name,
    is_admin: change.admin === true ? 1 : 0,
    disabled_at: change.disabled === true ? origin.atMs : null,
    created_at: origin.atMs,
    created_by: origin.who,
    added_in: addedIn ?? null,
    // No former member of this name had it, unless the clock stepped back.
    version: origin.atMs,
    issuer: identity?.issuer ?? null,
    subject: identity?.subject ?? null,
    groups_at: null,
  };
  await transaction.insertInto("members").values(row).execute();
  await storeRoles(transaction, name, change.roles ?? {});
  const after = await getMember(transaction, name);
  await traceMember(transaction, origin, "create-member", undefined, after, addedIn);
  return after;
}

/** @throws ApiError member-not-found, app-not-found, or what the precondition throws */
export function updateMember(
  database: Database,
  origin: Origin,
  name: string,
  change: MemberChange,
  precondition: MemberPrecondition,
): Promise<Member> {
  return writeFor(database, origin, async (transaction) => {
    const before = await getMember(transaction, name);
    precondition(before.version);
    if (isDone(before, change)) return before;
    await transaction
      .updateTable("members")
      .set({
        version: before.version + 1,
        ...(change.admin === undefined ? {} : { is_admin: change.admin ? 1 : 0 }),
        ...(change.disabled === undefined
          ? {}
          : { disabled_at: change.disabled ? (before.disabledAtMs ?? origin.atMs) : null }),
      })
      .where("name", "=", name)
      .execute();
    await storeRoles(transaction, name, change.roles ?? {});
    // Who is enabled again signs in again.
    if (change.disabled === true) await transaction.deleteFrom("sessions").where("member", "=", name).execute();
    const after = await getMember(transaction, name);
    await traceMember(transaction, origin, "update-member", before, after);
    return after;
  });
}

/** Deletes the member with their tokens and sessions. @throws ApiError member-not-found, or what the precondition throws */
export function deleteMember(
  database: Database,
  origin: Origin,
  name: string,
  precondition: MemberPrecondition,
): Promise<void> {
  return writeFor(database, origin, async (transaction) => {
    const before = await getMember(transaction, name);
    precondition(before.version);
    await deleteTokensOf(transaction, origin, "member", name);
    for (const table of ["member_roles", "member_groups", "sessions"] as const) {
      await transaction.deleteFrom(table).where("member", "=", name).execute();
    }
    await transaction.deleteFrom("members").where("name", "=", name).execute();
    await traceMember(transaction, origin, "delete-member", before, undefined);
  });
}

/** Returns the member who signs in by OpenID Connect with this identity. */
export async function findByIdentity(
  database: Database | Transaction<Tables>,
  { issuer, subject }: Identity,
): Promise<Member | undefined> {
  const rows = await database
    .selectFrom("members")
    .selectAll()
    .where("subject", "=", subject)
    .where("issuer", "=", issuer)
    .execute();
  // To MySQL and MariaDB, texts are equal that differ in spaces at the end: somebody else at the provider.
  const row = rows.find((one) => one.subject === subject && one.issuer === issuer);
  return row === undefined ? undefined : (await membersFrom(database, [row]))[0];
}

/** Whether a change changes nothing: then there is no new version, and no entry of the audit trail. */
function isDone({ isAdmin, disabledAtMs, roles }: Member, change: MemberChange): boolean {
  const { admin = isAdmin, disabled = disabledAtMs !== undefined } = change;
  const isStored = ([app, role]: [string, MemberRole | null]) => (roles[app] ?? null) === role;
  return (
    admin === isAdmin && disabled === (disabledAtMs !== undefined) && Object.entries(change.roles ?? {}).every(isStored)
  );
}

async function storeRoles(
  transaction: Transaction<Tables>,
  member: string,
  roles: Readonly<Record<string, MemberRole | null>>,
): Promise<void> {
  for (const [app, role] of Object.entries(roles)) {
    await transaction.deleteFrom("member_roles").where("member", "=", member).where("app", "=", app).execute();
    if (role === null) continue;
    await getApp(transaction, app);
    await transaction.insertInto("member_roles").values({ member, app, role }).execute();
  }
}

/**
 * One entry for each app in which the member's role changed, and one without an app for everything else. Of a member whom an
 * owner adds there is nothing else: many of them must not push other entries out.
 */
async function traceMember(
  transaction: Transaction<Tables>,
  origin: Origin,
  action: AuditAction,
  before: Member | undefined,
  after: Member | undefined,
  addedIn?: string,
): Promise<void> {
  const subject = (after ?? before)?.name ?? "";
  const entry = async (app: string, was: unknown, is: unknown) => {
    const [from, to] = [was, is].map((value) => (value === undefined ? undefined : JSON.stringify(value)));
    if (from === to) return;
    const documents = { ...(from === undefined ? {} : { before: from }), ...(to === undefined ? {} : { after: to }) };
    await writeTrace(transaction, origin, { action, app, subject, ...documents });
  };
  if (addedIn === undefined) await entry("", stateOf(before), stateOf(after));
  const apps = new Set([...Object.keys(before?.roles ?? {}), ...Object.keys(after?.roles ?? {})]);
  for (const app of [...apps].sort()) await entry(app, roleIn(before, app), roleIn(after, app));
}

function stateOf(member: Member | undefined) {
  return member === undefined ? undefined : { admin: member.isAdmin, disabled: member.disabledAtMs !== undefined };
}

function roleIn(member: Member | undefined, app: string) {
  const role = member?.roles[app];
  return role === undefined ? undefined : { role };
}

async function findStored(database: Database | Transaction<Tables>, name: string): Promise<Member | undefined> {
  const row = await database.selectFrom("members").selectAll().where("name", "=", name).executeTakeFirst();
  return row === undefined ? undefined : (await membersFrom(database, [row]))[0];
}

async function membersFrom(database: Database | Transaction<Tables>, rows: readonly MemberTable[]): Promise<Member[]> {
  if (rows.length === 0) return [];
  const names = rows.map(({ name }) => name);
  const roles = await database
    .selectFrom("member_roles")
    .selectAll()
    .where("member", "in", names)
    .orderBy("app")
    .execute();
  const groups = await database
    .selectFrom("member_groups")
    .selectAll()
    .where("member", "in", names)
    .orderBy("group_name")
    .execute();
  const rolesOf = new Map<string, [string, MemberRole][]>(rows.map(({ name }) => [name, []]));
  for (const { member, app, role } of roles) rolesOf.get(member)?.push([app, role as MemberRole]);
  return rows.map((row) => ({
    name: row.name,
    isAdmin: Number(row.is_admin) === 1,
    disabledAtMs: row.disabled_at === null ? undefined : Number(row.disabled_at),
    createdAtMs: Number(row.created_at),
    createdBy: row.created_by,
    version: Number(row.version),
    // Without a prototype, so that nobody has a role in an app with the name "constructor" who has none.
    roles: Object.assign(Object.create(null), Object.fromEntries(rolesOf.get(row.name) ?? [])),
    hasIdentity: row.subject !== null,
    groups: groups.filter(({ member }) => member === row.name).map(({ group_name }) => group_name),
  }));
}

function memberNotFound(name: string): ApiError {
  return new ApiError("member-not-found", `There is no member "${name}".`);
}
