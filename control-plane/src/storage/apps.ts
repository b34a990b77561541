// Apps: the tenants that own policies. The app `default` is made with the database and is never deleted.

import { isDeepStrictEqual } from "node:util";
import type { AppExempt } from "@sluice/limiter/document/app-exempt.ts";
import type { RealmDocument } from "@sluice/limiter/realm/realm.ts";
import type { Transaction } from "kysely";
import type { Bounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { writeTrace } from "./audit.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import { deleteConsumersOf } from "./consumers.ts";
import type { AppTable, Database, Tables } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { deleteTokensOf } from "./token-records.ts";
import { addUsage, parseBounds, readUsage } from "./usage.ts";

export interface App {
  readonly name: string;
  readonly createdAtMs: number;
  /** The revision that last changed it; 0 for `default`, until it is changed. */
  readonly revision: number;
  readonly realm: AppRealm;
  /** The bounds that an admin set; undefined if none are set. */
  readonly bounds: Partial<Bounds> | undefined;
  /** Whom none of its policies count; undefined: nobody. Those of `default` hold for all apps. */
  readonly exempt: AppExempt | undefined;
}

/** A change of an app's settings. An absent field keeps its value; null removes the setting. */
export interface AppChange {
  readonly realm?: RealmDocument | null;
  readonly bounds?: Partial<Bounds> | null;
  readonly exempt?: AppExempt | null;
}

/**
 * Where the app's policies may match. all: `default`, which may match everywhere. legacy: an app from before there were
 * realms, which may match everywhere until an admin sets a realm. none: nowhere; its policies are only for the check API.
 */
export type AppRealm =
  | { readonly state: "all" | "legacy" | "none" }
  | { readonly state: "set"; readonly document: RealmDocument };

/** Lists apps by name, after the given one. @param only the apps to list; undefined: all */
export async function listApps(
  database: Database,
  only: readonly string[] | undefined,
  after: string,
  limit: number,
): Promise<App[]> {
  if (only?.length === 0) return [];
  let query = database.selectFrom("apps").selectAll().where("name", ">", after);
  if (only !== undefined) query = query.where("name", "in", only);
  const rows = await query.orderBy("name").limit(limit).execute();
  return rows.map(appFrom);
}

/** @throws ApiError app-not-found */
export async function getApp(database: Database | Transaction<Tables>, name: string): Promise<App> {
  const row = await database.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
  if (row === undefined) throw new ApiError("app-not-found", `There is no app "${name}".`);
  return appFrom(row);
}

/** Reads apps by name, for gateways. @param names only these; absent: all */
export async function readApps(transaction: Transaction<Tables>, names?: readonly string[]): Promise<App[]> {
  let query = transaction.selectFrom("apps").selectAll();
  if (names !== undefined) query = query.where("name", "in", names);
  const rows = await query.orderBy("name").execute();
  return rows.map(appFrom);
}

/** The arguments of `putApp`. */
export interface AppPut {
  readonly name: string;
  readonly asked: AppChange;
  readonly precondition: Precondition;
  /** Throws when existing policies reach outside the new realm. */
  check(realm: RealmDocument, policies: readonly PolicyOfApp[], templates: Templates): Promise<void>;
}

export interface PolicyOfApp {
  readonly name: string;
  /** The document as it was put, as JSON. */
  readonly document: string;
}

/**
 * Makes the app, or changes its settings. A change that leaves the settings the same makes no revision.
 * @returns the revision that contains the settings, and how many policies stop matching traffic
 * @throws ApiError app-protected, or what the precondition or the check throws
 */
export function putApp(
  database: Database,
  origin: Origin,
  { name, asked, precondition, check }: AppPut,
): Promise<{ revision: number; created: boolean; silenced: number }> {
  return change(database, origin, async (transaction, record) => {
    const row = await transaction.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
    precondition(row === undefined ? undefined : Number(row.revision));
    if (name === "default" && asked.realm !== undefined) {
      throw new ApiError("app-protected", 'The app "default" has every host and path: it takes no realm.');
    }
    const before = settingsOf(row);
    const settings = { ...before, ...storedSettings(asked) };
    const after = describedSettings(settings);
    if (row === undefined) {
      const revision = await record({ action: "create-app", app: name, ...(after === "{}" ? {} : { after }) });
      await transaction
        .insertInto("apps")
        .values({ name, created_at: origin.atMs, revision, ...settings })
        .execute();
      return { revision, created: true, silenced: 0 };
    }
    const said = describedSettings(before);
    if (isDeepStrictEqual(JSON.parse(said), JSON.parse(after))) {
      return { revision: Number(row.revision), created: false, silenced: 0 };
    }
    const silenced = settings.realm === before.realm ? 0 : await meetRealm(transaction, name, asked.realm, check);
    const revision = await record({ action: "update-app", app: name, before: said, after });
    await transaction
      .updateTable("apps")
      .set({ revision, ...settings })
      .where("name", "=", name)
      .execute();
    return { revision, created: false, silenced };
  });
}

/** @returns how many policies match no traffic because the realm was removed @throws what the check throws */
async function meetRealm(
  transaction: Transaction<Tables>,
  app: string,
  realm: RealmDocument | null | undefined,
  check: AppPut["check"],
): Promise<number> {
  const policies: PolicyOfApp[] = await transaction
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .orderBy("name")
    .execute();
  if (realm === null || realm === undefined) return policies.length;
  await check(realm, policies, await readTemplates(transaction, app));
  return 0;
}

/** Returns the names of the apps from before there were realms that still have none. */
export async function listLegacyApps(database: Database): Promise<string[]> {
  const rows = await database.selectFrom("apps").select(["name", "realm"]).where("realm", "is not", null).execute();
  return rows
    .filter(({ realm }) => realm === legacyRealm)
    .map(({ name }) => name)
    .sort();
}

/** The columns with an app's settings, as JSON text; null means not set. */
type Settings = Pick<AppTable, "realm" | "bounds" | "exempt">;

function settingsOf(row: AppTable | undefined): Settings {
  return { realm: row?.realm ?? null, bounds: row?.bounds ?? null, exempt: row?.exempt ?? null };
}

/** Returns the columns that a change sets. */
function storedSettings({ realm, bounds, exempt }: AppChange): Partial<Settings> {
  return {
    ...(realm === undefined ? {} : { realm: textOf(realm) }),
    ...(bounds === undefined ? {} : { bounds: textOf(bounds) }),
    ...(exempt === undefined ? {} : { exempt: textOf(exempt) }),
  };
}

function textOf(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

/** Returns the settings for the history, without those that are not set. */
function describedSettings(settings: Settings): string {
  const set = Object.entries(settings).filter(([, text]) => text !== null);
  return JSON.stringify(Object.fromEntries(set.map(([name, text]) => [name, JSON.parse(text as string)])));
}

/**
 * Deletes the app with its bans, consumers and tokens: otherwise a later app of the same name would accept a token of this one.
 * @throws ApiError app-not-found, app-protected, app-not-empty, or what the precondition throws
 */
export function deleteApp(
  database: Database,
  origin: Origin,
  name: string,
  precondition: Precondition,
): Promise<number> {
  return change(database, origin, async (transaction, record) => {
    const app = await getApp(transaction, name);
    const row = await transaction.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
    const before = describedSettings(settingsOf(row));
    if (name === "default") throw new ApiError("app-protected", 'The app "default" cannot be deleted.');
    precondition(app.revision);
    const policy = await transaction
      .selectFrom("policies")
      .select("name")
      .where("app", "=", name)
      .orderBy("name")
      .limit(1)
      .executeTakeFirst();
    if (policy !== undefined) {
      throw new ApiError("app-not-empty", `The app "${name}" still has policies, "${policy.name}" among them.`);
    }
    const template = await transaction
      .selectFrom("templates")
      .select("name")
      .where("app", "=", name)
      .orderBy("name")
      .limit(1)
      .executeTakeFirst();
    if (template !== undefined) {
      throw new ApiError("app-not-empty", `The app "${name}" still has templates, "${template.name}" among them.`);
    }
    const list = await transaction
      .selectFrom("network_lists")
      .select("name")
      .where("app", "=", name)
      .orderBy("name")
      .limit(1)
      .executeTakeFirst();
    if (list !== undefined) {
      throw new ApiError("app-not-empty", `The app "${name}" still has lists of networks, "${list.name}" among them.`);
    }
    await deleteConsumersOf(transaction, origin, name);
    await transaction.deleteFrom("bans").where("app", "=", name).execute();
    await deleteTokensOf(transaction, origin, "app", name);
    await deleteRolesIn(transaction, origin, name);
    // They count for no later app of the same name.
    await transaction.updateTable("members").set({ added_in: null }).where("added_in", "=", name).execute();
    const { bans, banBytes, tokens, callers } = await readUsage(transaction, name);
    await addUsage(transaction, name, { bans: -bans, banBytes: -banBytes, tokens: -tokens, callers: -callers });
    await transaction.deleteFrom("apps").where("name", "=", name).execute();
    return record({ action: "delete-app", app: name, ...(before === "{}" ? {} : { before }) });
  });
}

/** Whoever had a role in a deleted app loses it, and the audit trail says so. */
async function deleteRolesIn(transaction: Transaction<Tables>, origin: Origin, app: string): Promise<void> {
  const rows = await transaction
    .selectFrom("member_roles")
    .selectAll()
    .where("app", "=", app)
    .orderBy("member")
    .execute();
  const members = transaction.selectFrom("member_roles").select("member").where("app", "=", app);
  await transaction
    .updateTable("members")
    .set((row) => ({ version: row("version", "+", 1) }))
    .where("name", "in", members)
    .execute();
  await transaction.deleteFrom("member_roles").where("app", "=", app).execute();
  for (const { member, role } of rows) {
    const before = JSON.stringify({ role });
    await writeTrace(transaction, origin, { action: "update-member", app, subject: member, before });
  }
}

const legacyRealm = JSON.stringify("legacy");

function appFrom(row: AppTable): App {
  const { name, created_at, revision, bounds, exempt } = row;
  return {
    name,
    createdAtMs: Number(created_at),
    revision: Number(revision),
    realm: realmOf(row),
    bounds: parseBounds(bounds),
    exempt: exempt === null ? undefined : JSON.parse(exempt),
  };
}

function realmOf({ name, realm }: AppTable): AppRealm {
  if (name === "default") return { state: "all" };
  if (realm === null) return { state: "none" };
  return realm === legacyRealm ? { state: "legacy" } : { state: "set", document: JSON.parse(realm) };
}
