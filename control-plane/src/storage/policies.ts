// Policy documents, as they were put. What comes in here has been validated; this only keeps it, and keeps count.

import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { checkDocumentBytes } from "../bounds/check-bounds.ts";
import { type PolicySize, policySize } from "../bounds/policy-size.ts";
import { ApiError } from "../errors/api-error.ts";
import type { Templates } from "../policies/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { deleteBansOfPolicy } from "./bans.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database } from "./database.ts";
import type { PolicyTable, Tables } from "./tables.ts";
import { readTemplates } from "./templates.ts";
import { addUsage, takeRoom } from "./usage.ts";

export interface StoredPolicy {
  readonly app: string;
  readonly name: string;
  readonly document: unknown;
  /** The revision that last changed it. */
  readonly revision: number;
  readonly updatedAtMs: number;
}

/**
 * What to store and what gateways will get of it.
 * @param bytesBefore of the policy of this name that there is; undefined: there is none
 */
export type PolicyValidator = (
  templates: Templates,
  owner: App,
  bytesBefore: number | undefined,
) => { readonly document: unknown; readonly resolved: unknown };

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
 * @param put.judge the document to store and what gateways will get of it, or throws; it is asked while no template and no realm
 *   can change
 * @returns the revision that holds the document
 * @throws ApiError app-not-found, bound-exceeded, or what the precondition or the judge throws
 */
export function putPolicy(
  database: Database,
  origin: Origin,
  put: { app: string; name: string; precondition: Precondition; validate: PolicyValidator; total: TotalBounds },
): Promise<{ revision: number; created: boolean; changed: boolean }> {
  const { app, name } = put;
  return change(database, origin, async (transaction, record) => {
    const owner = await getApp(transaction, app);
    const row = await findRow(transaction, app, name);
    const bytesBefore = row === undefined ? undefined : Number(row.bytes);
    const { document, resolved } = put.validate(await readTemplates(transaction, app), owner, bytesBefore);
    put.precondition(row === undefined ? undefined : Number(row.revision));
    const after = JSON.stringify(document);
    if (row === undefined) {
      const size = policySize(resolved);
      checkDocumentBytes("policy", size.bytes, undefined);
      await takeRoom(transaction, app, { policies: 1, ...size }, put.total);
      const revision = await record({ action: "create-policy", app, policy: name, after });
      await transaction
        .insertInto("policies")
        .values({ app, name, document: after, revision, updated_at: origin.atMs, ...size })
        .execute();
      return { revision, created: true, changed: true };
    }
    const before = row.document;
    if (isDeepStrictEqual(JSON.parse(before), JSON.parse(after))) {
      return { revision: Number(row.revision), created: false, changed: false };
    }
    const size = policySize(resolved);
    checkDocumentBytes("policy", size.bytes, bytesBefore);
    await takeRoom(transaction, app, sizeChange(row, size), put.total);
    const revision = await record({ action: "update-policy", app, policy: name, before, after });
    await transaction
      .updateTable("policies")
      .set({ document: after, revision, updated_at: origin.atMs, ...size })
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
    await deleteBansOfPolicy(transaction, app, name);
    await transaction.deleteFrom("policies").where("app", "=", app).where("name", "=", name).execute();
    await addUsage(transaction, app, { policies: -1, bytes: -Number(row.bytes), steps: -Number(row.steps) });
    return record({ action: "delete-policy", app, policy: name, before: row.document });
  });
}

/** How much more an app uses when one of its policies has another size. */
export function sizeChange(before: { readonly bytes: number; readonly steps: number }, after: PolicySize): PolicySize {
  return { bytes: after.bytes - Number(before.bytes), steps: after.steps - Number(before.steps) };
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
