// Policy documents, as they were put. What comes in here has been validated; this only keeps it, and keeps count.

import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import type { Templates } from "../policies/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database } from "./database.ts";
import type { PolicyTable, Tables } from "./tables.ts";
import { readTemplates } from "./templates.ts";

export interface StoredPolicy {
  readonly app: string;
  readonly name: string;
  readonly document: unknown;
  /** The revision that last changed it. */
  readonly revision: number;
  readonly updatedAtMs: number;
}

/** By name, those after the given one. @throws ApiError app-not-found */
export async function listPolicies(
  database: Database,
  app: string,
  after: string,
  limit: number,
): Promise<StoredPolicy[]> {
  await getApp(database, app);
  const rows = await database
    .selectFrom("policies")
    .selectAll()
    .where("app", "=", app)
    .where("name", ">", after)
    .orderBy("name")
    .limit(limit)
    .execute();
  return rows.map(policyFrom);
}

/** @throws ApiError app-not-found, policy-not-found */
export async function getPolicy(database: Database, app: string, name: string): Promise<StoredPolicy> {
  await getApp(database, app);
  const row = await findRow(database, app, name);
  if (row === undefined) throw policyNotFound(app, name);
  return policyFrom(row);
}

/**
 * Stores a document. One that says the same as the stored one changes nothing and makes no revision.
 * @param put.judge the document to store, or throws; it is asked while no template and no realm can change
 * @returns the revision that holds the document
 * @throws ApiError app-not-found, or what the precondition or the judge throws
 */
export function putPolicy(
  database: Database,
  origin: Origin,
  put: { app: string; name: string; precondition: Precondition; judge(templates: Templates, app: App): unknown },
): Promise<{ revision: number; created: boolean; changed: boolean }> {
  const { app, name } = put;
  return change(database, origin, async (transaction, record) => {
    const owner = await getApp(transaction, app);
    const document = put.judge(await readTemplates(transaction, app), owner);
    const row = await findRow(transaction, app, name);
    put.precondition(row === undefined ? undefined : Number(row.revision));
    const after = JSON.stringify(document);
    if (row === undefined) {
      const revision = await record({ action: "create-policy", app, policy: name, after });
      await transaction
        .insertInto("policies")
        .values({ app, name, document: after, revision, updated_at: origin.atMs })
        .execute();
      return { revision, created: true, changed: true };
    }
    const before = row.document;
    if (isDeepStrictEqual(JSON.parse(before), JSON.parse(after))) {
      return { revision: Number(row.revision), created: false, changed: false };
    }
    const revision = await record({ action: "update-policy", app, policy: name, before, after });
    await transaction
      .updateTable("policies")
      .set({ document: after, revision, updated_at: origin.atMs })
      .where("app", "=", app)
      .where("name", "=", name)
      .execute();
    return { revision, created: false, changed: true };
  });
}

/**
 * Deletes it with the bans of its keys, which mean nothing to another policy of that name.
 * @throws ApiError app-not-found, policy-not-found, or what the precondition throws
 */
export function deletePolicy(
  database: Database,
  origin: Origin,
  app: string,
  name: string,
  precondition: Precondition,
): Promise<number> {
  return change(database, origin, async (transaction, record) => {
    await getApp(transaction, app);
    const row = await findRow(transaction, app, name);
    if (row === undefined) throw policyNotFound(app, name);
    precondition(Number(row.revision));
    await transaction.deleteFrom("bans").where("app", "=", app).where("policy", "=", name).execute();
    await transaction.deleteFrom("policies").where("app", "=", app).where("name", "=", name).execute();
    return record({ action: "delete-policy", app, policy: name, before: row.document });
  });
}

function findRow(
  database: Database | Transaction<Tables>,
  app: string,
  name: string,
): Promise<PolicyTable | undefined> {
  return database.selectFrom("policies").selectAll().where("app", "=", app).where("name", "=", name).executeTakeFirst();
}

function policyNotFound(app: string, name: string): ApiError {
  return new ApiError("policy-not-found", `The app "${app}" has no policy "${name}".`);
}

function policyFrom(row: PolicyTable): StoredPolicy {
  return {
    app: row.app,
    name: row.name,
    document: JSON.parse(row.document),
    revision: Number(row.revision),
    updatedAtMs: Number(row.updated_at),
  };
}
