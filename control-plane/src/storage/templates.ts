// Stores templates of actions and costs, which policies of the same app share by reference. A template and the policies that
// use it change under the same lock, so that no policy ever has a template that it cannot use.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { noSize, type PolicySize, policySize, sizeChange, sizeFrom, sumOfSizes } from "../bounds/policy-size.ts";
import { ApiError } from "../errors/api-error.ts";
import { pauses } from "../limits/pauses.ts";
import { resolveTemplates, type Templates, usesTemplate } from "../templates/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import { checkDocumentBytes } from "./check-bounds.ts";
import { resizePolicies } from "./policy-sizes.ts";
import type { Database, Tables, TemplateTable } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { addUsage, takeRoom } from "./usage.ts";

export interface StoredTemplate {
  readonly name: string;
  readonly document: unknown;
  /** The revision that last changed it. */
  readonly revision: number;
  readonly updatedAtMs: number;
}

/** A policy's document as it was put, and how much of its app's bounds it uses. */
export interface UsingPolicy extends PolicySize {
  readonly name: string;
  readonly document: unknown;
}

/** Lists templates by name, after the given one. @throws ApiError app-not-found */
export async function listTemplates(
  database: Database,
  app: string,
  after: string,
  limit: number,
): Promise<StoredTemplate[]> {
  await getApp(database, app);
  const rows = await database
    .selectFrom("templates")
    .selectAll()
    .where("app", "=", app)
    .where("name", ">", after)
    .orderBy("name")
    .limit(limit)
    .execute();
  return rows.map(templateFrom);
}

/** @throws ApiError app-not-found, template-not-found */
export async function getTemplate(database: Database, app: string, name: string): Promise<StoredTemplate> {
  await getApp(database, app);
  const row = await findRow(database, app, name);
  if (row === undefined) throw templateNotFound(app, name);
  return templateFrom(row);
}

/** Returns the size of the stored document; undefined if there is none. */
export async function templateBytes(database: Database, app: string, name: string): Promise<number | undefined> {
  const row = await findRow(database, app, name);
  return row === undefined ? undefined : Buffer.byteLength(row.document);
}

/**
 * Stores a valid template. If it equals the stored one, nothing changes and there is no new revision.
 * @param put.validate throws when the app may not have the template
 * @param put.check throws when a policy that uses the template would become invalid
 * @throws ApiError app-not-found, bound-exceeded, or what the precondition, `validate` or the check throws
 */
export function putTemplate(
  database: Database,
  origin: Origin,
  put: {
    app: string;
    name: string;
    document: Readonly<Record<string, unknown>>;
    precondition: Precondition;
    validate(app: App): void;
    check(users: readonly UsingPolicy[], templates: Templates): Promise<void>;
    total: TotalBounds;
  },
): Promise<{ revision: number; created: boolean }> {
  const { app, name } = put;
  return change(database, origin, async (transaction, record) => {
    put.validate(await getApp(transaction, app));
    const row = await findRow(transaction, app, name);
    put.precondition(row === undefined ? undefined : Number(row.revision));
    const after = JSON.stringify(put.document);
    const bytes = Buffer.byteLength(after);
    const bytesBefore = row === undefined ? undefined : Buffer.byteLength(row.document);
    checkDocumentBytes("template", bytes, bytesBefore);
    if (row === undefined) {
      await takeRoom(transaction, app, { templates: 1, templateBytes: bytes }, put.total);
      const revision = await record({ action: "create-template", app, subject: name, after });
      await transaction
        .insertInto("templates")
        .values({ app, name, document: after, revision, updated_at: origin.atMs })
        .execute();
      return { revision, created: true };
    }
    const before = row.document;
    if (isDeepStrictEqual(JSON.parse(before), JSON.parse(after))) {
      return { revision: Number(row.revision), created: false };
    }
    const templates = new Map(await readTemplates(transaction, app)).set(name, put.document);
    const users = await readUsers(transaction, app, name);
    await put.check(users, templates);
    await resizeUsers(transaction, app, users, templates, bytes - (bytesBefore ?? 0), put.total);
    const revision = await record({ action: "update-template", app, subject: name, before, after });
    await transaction
      .updateTable("templates")
      .set({ document: after, revision, updated_at: origin.atMs })
      .where("app", "=", app)
      .where("name", "=", name)
      .execute();
    return { revision, created: false };
  });
}

/** @throws ApiError app-not-found, template-not-found, template-in-use, or what the precondition throws */
export function deleteTemplate(
  database: Database,
  origin: Origin,
  app: string,
  name: string,
  precondition: Precondition,
): Promise<number> {
  return change(database, origin, async (transaction, record) => {
    await getApp(transaction, app);
    const row = await findRow(transaction, app, name);
    if (row === undefined) throw templateNotFound(app, name);
    precondition(Number(row.revision));
    const policies = (await readUsers(transaction, app, name)).map((user) => user.name);
    if (policies.length > 0) {
      const detail = `The template "${name}" is used by ${policies.length === 1 ? "the policy" : "the policies"} ${policies.join(", ")}.`;
      throw new ApiError("template-in-use", detail, { policies });
    }
    await transaction.deleteFrom("templates").where("app", "=", app).where("name", "=", name).execute();
    await addUsage(transaction, app, { templates: -1, templateBytes: -Buffer.byteLength(row.document) });
    return record({ action: "delete-template", app, subject: name, before: row.document });
  });
}

/** Stores the new sizes of the policies that use a template, if the app's bounds allow their sum. */
async function resizeUsers(
  transaction: Transaction<Tables>,
  app: string,
  users: readonly UsingPolicy[],
  templates: Templates,
  templateBytes: number,
  total: TotalBounds,
): Promise<void> {
  const pause = pauses(setImmediate);
  const sizes = [];
  for (const user of users) {
    sizes.push({ ...user, after: policySize(resolveTemplates(user.document, templates).document) });
    await pause();
  }
  let more = noSize;
  for (const { after, ...before } of sizes) {
    checkDocumentBytes("policy", after.bytes, before.bytes);
    more = sumOfSizes(more, sizeChange(before, after));
  }
  await takeRoom(transaction, app, { ...more, templateBytes }, total);
  const changed = sizes.filter(({ after, ...before }) => !isDeepStrictEqual(after, sizeFrom(before)));
  await resizePolicies(
    transaction,
    app,
    changed.map(({ name, after }) => [name, after] as const),
  );
}

async function readUsers(transaction: Transaction<Tables>, app: string, template: string): Promise<UsingPolicy[]> {
  const rows = await transaction
    .selectFrom("policies")
    .select(["name", "document", "bytes", "steps", "limits", "kinds", "hiding"])
    .where("app", "=", app)
    // Finds references in stored documents. The filter below removes other documents that contain this text.
    .where("document", "like", `%"template":"${template}"%`)
    .orderBy("name")
    .execute();
  const pause = pauses(setImmediate);
  const users: UsingPolicy[] = [];
  for (const row of rows) {
    const user = { name: row.name, document: JSON.parse(row.document), ...sizeFrom(row) };
    if (usesTemplate(user.document, template)) users.push(user);
    await pause();
  }
  return users;
}

function findRow(
  database: Database | Transaction<Tables>,
  app: string,
  name: string,
): Promise<TemplateTable | undefined> {
  return database
    .selectFrom("templates")
    .selectAll()
    .where("app", "=", app)
    .where("name", "=", name)
    .executeTakeFirst();
}

function templateNotFound(app: string, name: string): ApiError {
  return new ApiError("template-not-found", `The app "${app}" has no template "${name}".`);
}

function templateFrom(row: TemplateTable): StoredTemplate {
  return {
    name: row.name,
    document: JSON.parse(row.document),
    revision: Number(row.revision),
    updatedAtMs: Number(row.updated_at),
  };
}
