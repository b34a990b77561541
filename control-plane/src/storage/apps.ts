// Apps: the tenants that own policies. `default` is made with the database and stays.

import type { Transaction } from "kysely";
import type { Bounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database } from "./database.ts";
import type { AppTable, Tables } from "./tables.ts";
import { addUsage, parseBounds, readUsage } from "./usage.ts";

export interface App {
  readonly name: string;
  readonly createdAtMs: number;
  /** The revision that last changed it; 0 for `default`, until it is changed. */
  readonly revision: number;
  /** Those that an admin set; undefined: none. */
  readonly bounds: Partial<Bounds> | undefined;
}

/** What is set of an app. A field that is absent stays as it is, null is as if it had never been set. */
export interface AppChange {
  readonly bounds?: Partial<Bounds> | null;
}

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

/**
 * Makes the app, or changes what is set of it. What says the same as before makes no revision.
 * @returns the revision that holds it
 */
export function putApp(
  database: Database,
  origin: Origin,
  name: string,
  asked: AppChange,
  precondition: Precondition,
): Promise<{ revision: number; created: boolean }> {
  return change(database, origin, async (transaction, record) => {
    const row = await transaction.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
    precondition(row === undefined ? undefined : Number(row.revision));
    const before = settingsOf(row);
    const settings = { ...before, ...storedSettings(asked) };
    const after = describedSettings(settings);
    if (row === undefined) {
      const revision = await record({ action: "create-app", app: name, ...(after === "{}" ? {} : { after }) });
      await transaction
        .insertInto("apps")
        .values({ name, created_at: origin.atMs, revision, ...settings })
        .execute();
      return { revision, created: true };
    }
    const said = describedSettings(before);
    if (said === after) return { revision: Number(row.revision), created: false };
    const revision = await record({ action: "update-app", app: name, before: said, after });
    await transaction
      .updateTable("apps")
      .set({ revision, ...settings })
      .where("name", "=", name)
      .execute();
    return { revision, created: false };
  });
}

/** The columns of what is set of an app, as JSON text; null: not set. */
type Settings = Pick<AppTable, "bounds">;

function settingsOf(row: AppTable | undefined): Settings {
  return { bounds: row?.bounds ?? null };
}

/** The columns that a change sets. */
function storedSettings({ bounds }: AppChange): Partial<Settings> {
  return bounds === undefined ? {} : { bounds: bounds === null ? null : JSON.stringify(bounds) };
}

/** For the history: what is set, and nothing of what is not. */
function describedSettings(settings: Settings): string {
  const set = Object.entries(settings).filter(([, text]) => text !== null);
  return JSON.stringify(Object.fromEntries(set.map(([name, text]) => [name, JSON.parse(text as string)])));
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
    const { bans, banBytes, tokens, callers } = await readUsage(transaction, name);
    await addUsage(transaction, name, { bans: -bans, banBytes: -banBytes, tokens: -tokens, callers: -callers });
    await transaction.deleteFrom("apps").where("name", "=", name).execute();
    return record({ action: "delete-app", app: name });
  });
}

function appFrom(row: AppTable): App {
  const { name, created_at, revision, bounds } = row;
  return { name, createdAtMs: Number(created_at), revision: Number(revision), bounds: parseBounds(bounds) };
}
