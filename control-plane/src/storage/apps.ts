// Apps: the tenants that own policies. `default` is made with the database and stays.

import { isDeepStrictEqual } from "node:util";
import type { RealmDocument } from "@sluice/limiter/realm/realm.ts";
import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import type { Templates } from "../policies/resolve-templates.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database } from "./database.ts";
import type { AppTable, Tables } from "./tables.ts";
import { readTemplates } from "./templates.ts";

export interface App {
  readonly name: string;
  readonly createdAtMs: number;
  /** The revision that last changed it; 0 for `default`. */
  readonly revision: number;
  readonly realm: AppRealm;
}

/**
 * Where the app's policies may match. all: `default`, everywhere. legacy: an app from before there were realms, everywhere
 * until an admin sets one. none: nowhere; they are for the ask-first API alone.
 */
export type AppRealm =
  | { readonly state: "all" | "legacy" | "none" }
  | { readonly state: "set"; readonly document: RealmDocument };

/** By name, those after the given one. @param only the one app to list, or undefined for all */
export async function listApps(
  database: Database,
  only: string | undefined,
  after: string,
  limit: number,
): Promise<App[]> {
  let query = database.selectFrom("apps").selectAll().where("name", ">", after);
  if (only !== undefined) query = query.where("name", "=", only);
  const rows = await query.orderBy("name").limit(limit).execute();
  return rows.map(appFrom);
}

/** @throws ApiError app-not-found */
export async function getApp(database: Database | Transaction<Tables>, name: string): Promise<App> {
  const row = await database.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
  if (row === undefined) throw new ApiError("app-not-found", `There is no app "${name}".`);
  return appFrom(row);
}

/** All of them, by name, as a snapshot is made from. */
export async function readApps(transaction: Transaction<Tables>): Promise<App[]> {
  const rows = await transaction.selectFrom("apps").selectAll().orderBy("name").execute();
  return rows.map(appFrom);
}

/** What an app is put with. */
export interface AppPut {
  readonly name: string;
  /** Undefined: what it has, or none. Null: none. */
  readonly realm: RealmDocument | null | undefined;
  readonly precondition: Precondition;
  /** Throws when policies that there are reach outside of the realm that is to be set. */
  check(realm: RealmDocument, policies: readonly PolicyOfApp[], templates: Templates): Promise<void>;
}

export interface PolicyOfApp {
  readonly name: string;
  /** As it was put, as JSON. */
  readonly document: string;
}

/**
 * Makes the app, or changes its realm. What it has already makes no revision.
 * @returns the revision that last changed it, and how many policies it has that match no traffic any more
 * @throws ApiError app-protected, or what the precondition or the check throws
 */
export function putApp(
  database: Database,
  origin: Origin,
  { name, realm, precondition, check }: AppPut,
): Promise<{ revision: number; created: boolean; silenced: number }> {
  return change(database, origin, async (transaction, record) => {
    const row = await transaction.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
    precondition(row === undefined ? undefined : Number(row.revision));
    if (row === undefined) {
      const after = realm === undefined || realm === null ? null : JSON.stringify(realm);
      const revision = await record({
        action: "create-app",
        app: name,
        ...(after === null ? {} : { after: entryOf(after) }),
      });
      await transaction.insertInto("apps").values({ name, created_at: origin.atMs, revision, realm: after }).execute();
      return { revision, created: true, silenced: 0 };
    }
    if (name === "default" && realm !== undefined) {
      throw new ApiError("app-protected", 'The app "default" has every host and path: it takes no realm.');
    }
    const unchanged = { revision: Number(row.revision), created: false, silenced: 0 };
    if (realm === undefined) return unchanged;
    const after = realm === null ? null : JSON.stringify(realm);
    if (isDeepStrictEqual(JSON.parse(row.realm ?? "null"), JSON.parse(after ?? "null"))) return unchanged;
    const policies: PolicyOfApp[] = await transaction
      .selectFrom("policies")
      .select(["name", "document"])
      .where("app", "=", name)
      .orderBy("name")
      .execute();
    if (realm !== null) await check(realm, policies, await readTemplates(transaction, name));
    const entry = { action: "update-app", app: name, before: entryOf(row.realm), after: entryOf(after) } as const;
    const revision = await record(entry);
    await transaction.updateTable("apps").set({ realm: after, revision }).where("name", "=", name).execute();
    return { revision, created: false, silenced: realm === null ? policies.length : 0 };
  });
}

/** Names of the apps from before there were realms that have none yet. */
export async function listLegacyApps(database: Database): Promise<string[]> {
  const rows = await database.selectFrom("apps").select(["name", "realm"]).where("realm", "is not", null).execute();
  return rows
    .filter(({ realm }) => realm === legacyRealm)
    .map(({ name }) => name)
    .sort();
}

/**
 * Deletes it with its bans and tokens: another app of that name would be open to who had a token of this one.
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
    await transaction.deleteFrom("bans").where("app", "=", name).execute();
    await transaction.deleteFrom("tokens").where("app", "=", name).execute();
    await transaction.deleteFrom("apps").where("name", "=", name).execute();
    return record({ action: "delete-app", app: name });
  });
}

const legacyRealm = JSON.stringify("legacy");

/** As the history has it. @param realm as it is stored */
function entryOf(realm: string | null): string {
  return `{"realm":${realm ?? "null"}}`;
}

function appFrom(row: AppTable): App {
  return {
    name: row.name,
    createdAtMs: Number(row.created_at),
    revision: Number(row.revision),
    realm: realmOf(row),
  };
}

function realmOf({ name, realm }: AppTable): AppRealm {
  if (name === "default") return { state: "all" };
  if (realm === null) return { state: "none" };
  return realm === legacyRealm ? { state: "legacy" } : { state: "set", document: JSON.parse(realm) };
}
