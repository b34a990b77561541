// Apps: the tenants that own policies. `default` is made with the database and stays.

import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database } from "./database.ts";
import type { AppTable, Tables } from "./tables.ts";

export interface App {
  readonly name: string;
  readonly createdAtMs: number;
  /** The revision that made it; 0 for `default`. */
  readonly revision: number;
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

/** Makes the app unless it exists. @returns the revision that made it */
export function putApp(
  database: Database,
  origin: Origin,
  name: string,
  precondition: Precondition,
): Promise<{ revision: number; created: boolean }> {
  return change(database, origin, async (transaction, record) => {
    const row = await transaction.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst();
    precondition(row === undefined ? undefined : Number(row.revision));
    if (row !== undefined) return { revision: Number(row.revision), created: false };
    const revision = await record({ action: "create-app", app: name });
    await transaction.insertInto("apps").values({ name, created_at: origin.atMs, revision }).execute();
    return { revision, created: true };
  });
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

function appFrom(row: AppTable): App {
  return { name: row.name, createdAtMs: Number(row.created_at), revision: Number(row.revision) };
}
