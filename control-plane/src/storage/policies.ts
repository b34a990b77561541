// Stores policy documents as they were put, and keeps the sums of what they use. Callers have validated them.

import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { noSize, policySize, sizeChange } from "../bounds/policy-size.ts";
import { ApiError } from "../errors/api-error.ts";
import { partsFrom, type SecretParts, secretPartsOf, textOfParts } from "../secrets/secret-parts.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { deleteBansOfPolicies } from "./bans.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import { checkDocumentBytes } from "./check-bounds.ts";
import { pageOf } from "./pages.ts";
import type { Database, PolicyTable, Tables } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { addUsage, takeRoom } from "./usage.ts";

export interface StoredPolicy {
  readonly app: string;
  readonly name: string;
  readonly document: unknown;
  /** The revision that last changed it. */
  readonly revision: number;
  readonly updatedAtMs: number;
  /** Who created it; undefined if a former version of Sluice stored it. */
  readonly owner: string | undefined;
}

/**
 * Returns the document to store, and the document that gateways will get.
 * @param bytesBefore size of the stored policy of this name; undefined if there is none
 */
export type PolicyValidator = (
  templates: Templates,
  owner: App,
  bytesBefore: number | undefined,
) => { readonly document: unknown; readonly resolved: unknown };

/** Lists policies by name, after the given one, and says whether there are more. @throws ApiError app-not-found */
export async function listPolicies(
  database: Database,
  app: string,
  after: string,
  limit: number,
): Promise<{ policies: StoredPolicy[]; hasMore: boolean }> {
  await getApp(database, app);
  const rows = database.selectFrom("policies").where("app", "=", app).where("name", ">", after).orderBy("name");
  const sizes = await rows
    .select("bytes as size")
    .limit(limit + 1)
    .execute();
  const { page, hasMore } = pageOf(sizes, limit);
  const policies = page.length === 0 ? [] : await rows.selectAll().limit(page.length).execute();
  return { policies: policies.map(policyFrom), hasMore };
}

/** @throws ApiError app-not-found, policy-not-found */
export async function getPolicy(database: Database, app: string, name: string): Promise<StoredPolicy> {
  await getApp(database, app);
  const row = await findRow(database, app, name);
  if (row === undefined) throw policyNotFound(app, name);
  return policyFrom(row);
}

/**
 * Stores a document. If it equals the stored one, nothing changes and there is no new revision.
 * @param put.validate returns the document to store and what gateways will get, or throws; it is called while no template
 * and no realm can change
 * @returns the revision that contains the document
 * @throws ApiError app-not-found, bound-exceeded, or what the precondition or `validate` throws
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
    const parts = { secret_parts: textOfParts(secretPartsOf(document)) };
    if (row === undefined) {
      const size = policySize(resolved);
      checkDocumentBytes("policy", size.bytes, undefined);
      await takeRoom(transaction, app, { policies: 1, ...size }, put.total);
      const revision = await record({ action: "create-policy", app, policy: name, after });
      await transaction
        .insertInto("policies")
        .values({ app, name, document: after, revision, updated_at: origin.atMs, owner: origin.who, ...size, ...parts })
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
      .set({ document: after, revision, updated_at: origin.atMs, ...size, ...parts })
      .where("app", "=", app)
      .where("name", "=", name)
      .execute();
    return { revision, created: false, changed: true };
  });
}

/**
 * Deletes the policy with the bans of its key values, which mean nothing for a later policy of the same name.
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
    await deleteBansOfPolicies(transaction, app, [name]);
    await transaction.deleteFrom("policies").where("app", "=", app).where("name", "=", name).execute();
    await addUsage(transaction, app, { policies: -1, ...sizeChange(row, noSize) });
    return record({ action: "delete-policy", app, policy: name, before: row.document });
  });
}

/** As many names are in one statement. */
const namesAtOnce = 250;

/** Returns which parts of the keys of policies may hold credentials. Policies that are not there, or have no such part, are left out. */
export async function readSecretParts(
  database: Database,
  app: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, SecretParts>> {
  const found = new Map<string, SecretParts>();
  for (let from = 0; from < names.length; from += namesAtOnce) {
    const rows = await database
      .selectFrom("policies")
      .select(["name", "secret_parts"])
      .where("app", "=", app)
      .where("name", "in", names.slice(from, from + namesAtOnce))
      .where("secret_parts", "is not", null)
      .execute();
    for (const { name, secret_parts } of rows) found.set(name, partsFrom(secret_parts));
  }
  return found;
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
    owner: row.owner ?? undefined,
  };
}
