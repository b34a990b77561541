// Templates of actions and costs, by which policies of the same app say what several of them have in common. A template
// and the policies that use it change under the same lock, so that no policy is left with one that it cannot have.

import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import { type Templates, usesTemplate } from "../policies/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database } from "./database.ts";
import type { Tables, TemplateTable } from "./tables.ts";

export interface StoredTemplate {
  readonly name: string;
  readonly document: unknown;
  /** The revision that last changed it. */
  readonly revision: number;
  readonly updatedAtMs: number;
}

/** A policy's document, as it was put. */
export interface UsingPolicy {
  readonly name: string;
  readonly document: unknown;
}

/** By name, those after the given one. @throws ApiError app-not-found */
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

/** All of an app's, by name, within the transaction of a change that depends on them. */
export async function readTemplates(database: Database | Transaction<Tables>, app: string): Promise<Templates> {
  const rows = await database.selectFrom("templates").select(["name", "document"]).where("app", "=", app).execute();
  return new Map(rows.map(({ name, document }) => [name, JSON.parse(document)]));
}

/**
 * Stores a valid template. One that says the same as the stored one changes nothing and makes no revision.
 * @param put.judge throws when the app could not have it
 * @param put.check throws when a policy that uses it could not have it
 * @throws ApiError app-not-found, or what the precondition, the judge or the check throws
 */
export function putTemplate(
  database: Database,
  origin: Origin,
  put: {
    app: string;
    name: string;
    document: Readonly<Record<string, unknown>>;
    precondition: Precondition;
    judge(app: App): void;
    check(users: readonly UsingPolicy[], templates: Templates): void;
  },
): Promise<{ revision: number; created: boolean }> {
  const { app, name } = put;
  return change(database, origin, async (transaction, record) => {
    put.judge(await getApp(transaction, app));
    const row = await findRow(transaction, app, name);
    put.precondition(row === undefined ? undefined : Number(row.revision));
    const after = JSON.stringify(put.document);
    if (row === undefined) {
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
    put.check(await readUsers(transaction, app, name), templates);
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
    return record({ action: "delete-template", app, subject: name, before: row.document });
  });
}

async function readUsers(transaction: Transaction<Tables>, app: string, template: string): Promise<UsingPolicy[]> {
  const rows = await transaction
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .orderBy("name")
    .execute();
  return rows
    .map(({ name, document }) => ({ name, document: JSON.parse(document) }))
    .filter(({ document }) => usesTemplate(document, template));
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
