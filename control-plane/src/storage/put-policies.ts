// Stores many policies of an app in one change: all or nothing. Callers have validated them, outside of the transaction, so that
// other changes wait only while rows are written.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { noSize, type PolicySize, sizeChange, sizeFrom, sumOfSizes } from "../bounds/policy-size.ts";
import { type SecretParts, textOfParts } from "../secrets/secret-parts.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { deleteBansOfPolicies } from "./bans.ts";
import { change, type Origin, type Precondition, type RecordEntry } from "./change.ts";
import { type ChangedText, recordMany } from "./many-documents.ts";
import type { Database, PolicyTable, Tables } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { takeRoom } from "./usage.ts";

/** A valid document, and what it uses of the app's bounds. */
export interface NewPolicy extends PolicySize {
  /** As JSON. */
  readonly document: string;
  readonly secretParts: SecretParts;
}

/** What documents are validated against. */
export interface Surroundings {
  readonly owner: App;
  readonly templates: Templates;
}

export interface PutMany {
  readonly app: string;
  readonly policies: ReadonlyMap<string, NewPolicy>;
  /** What the policies were validated against. */
  readonly validatedWith: Surroundings;
  /** Whether policies that are not among these are deleted. */
  readonly prune: boolean;
  readonly precondition: Precondition;
  readonly total: TotalBounds;
}

export interface PutManyResult {
  /** The newest revision of the app. */
  readonly revision: number;
  readonly created: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly deleted: number;
}

/** Nothing was stored, because what the policies were validated against has changed meanwhile. */
export interface PutManyOutdated {
  readonly changedTo: Surroundings;
}

/** Rows that are read or written without a pause, which takes a few milliseconds. */
const rowsRead = 250;
const rowsWritten = 100;
const comparedAtOnce = 100;

export async function readSurroundings(database: Database | Transaction<Tables>, app: string): Promise<Surroundings> {
  return { owner: await getApp(database, app), templates: await readTemplates(database, app) };
}

/** Reads how large the app's policies are, by their names. */
export async function readPolicyBytes(database: Database, app: string): Promise<Map<string, number>> {
  return new Map([...(await readPolicyRows(database, app))].map(([name, { bytes }]) => [name, bytes]));
}

/** @throws ApiError app-not-found, bound-exceeded, or what the precondition throws */
export function putPolicies(
  database: Database,
  origin: Origin,
  put: PutMany,
): Promise<PutManyResult | PutManyOutdated> {
  return change(database, origin, async (transaction, record) => {
    const surroundings = await readSurroundings(transaction, put.app);
    const stored = await readPolicyRows(transaction, put.app);
    const version = await newestRevision(transaction, surroundings.owner);
    put.precondition(stored.size === 0 ? undefined : version);
    if (!isSame(put.validatedWith, surroundings)) return { changedTo: surroundings };
    const found = await compare(transaction, put, stored);
    const { puts, deletions, unchanged } = found;
    const created = puts.filter(({ before }) => before === undefined).length;
    const counts = { created, changed: puts.length - created, unchanged, deleted: deletions.length };
    if (puts.length + deletions.length === 0) return { revision: version, ...counts };
    await takeRoom(transaction, put.app, roomFor(puts, deletions, stored), put.total);
    const lastDeletion = await deleteAll(transaction, record, put.app, deletions);
    const lastPut = await storeAll(transaction, record, origin, put.app, puts, stored);
    return { revision: lastPut ?? lastDeletion ?? version, ...counts };
  });
}

/** Whether a document that was valid is valid still: that depends on the app's realm and its templates. */
function isSame(one: Surroundings, other: Surroundings): boolean {
  return isDeepStrictEqual([one.owner.realm, one.templates], [other.owner.realm, other.templates]);
}

type StoredRow = Pick<PolicyTable, "name" | "revision" | "owner"> & PolicySize;

export async function readPolicyRows(
  database: Database | Transaction<Tables>,
  app: string,
): Promise<Map<string, StoredRow>> {
  const stored = new Map<string, StoredRow>();
  for (let after = ""; ; ) {
    const page = await database
      .selectFrom("policies")
      .select(["name", "revision", "owner", "bytes", "steps", "limits", "kinds", "hiding"])
      .where("app", "=", app)
      .where("name", ">", after)
      .orderBy("name")
      .limit(rowsRead)
      .execute();
    for (const row of page) {
      const { name, owner, revision } = row;
      stored.set(name, { name, owner, revision: Number(revision), ...sizeFrom(row) });
    }
    const end = page.at(-1);
    if (end === undefined || page.length < rowsRead) return stored;
    after = end.name;
    await setImmediate();
  }
}

/**
 * The newest revision that changed anything of the app. Entries that are not kept any more count too: who has read an older
 * version cannot be told that nothing has changed since.
 */
async function newestRevision(transaction: Transaction<Tables>, { name, revision }: App): Promise<number> {
  const newest = await transaction
    .selectFrom("revisions")
    .select("number")
    .where("app", "=", name)
    .orderBy("number", "desc")
    .limit(1)
    .executeTakeFirst();
  const usage = await transaction
    .selectFrom("usage")
    .select("history_pruned")
    .where("app", "=", name)
    .executeTakeFirst();
  return Math.max(revision, Number(newest?.number ?? 0), Number(usage?.history_pruned ?? 0));
}

interface Put extends ChangedText {
  readonly policy: NewPolicy;
}

interface Comparison {
  readonly puts: readonly Put[];
  readonly deletions: readonly ChangedText[];
  readonly unchanged: number;
}

async function compare(
  transaction: Transaction<Tables>,
  { app, policies, prune }: PutMany,
  stored: ReadonlyMap<string, StoredRow>,
): Promise<Comparison> {
  const kind = "policy";
  const deleted = prune ? [...stored.keys()].filter((name) => !policies.has(name)) : [];
  const before = await documentsBefore(
    transaction,
    app,
    [...policies.keys(), ...deleted].filter((name) => stored.has(name)),
  );
  const puts: Put[] = [];
  let unchanged = 0;
  for (const [i, [name, policy]] of [...policies].entries()) {
    const text = before.get(name);
    if (text !== undefined && isEqual(text, policy.document)) unchanged += 1;
    else puts.push({ kind, name, before: text, after: policy.document, policy });
    if (i % comparedAtOnce === comparedAtOnce - 1) await setImmediate();
  }
  const deletions = deleted.map((name) => ({ kind, name, before: before.get(name), after: undefined }));
  return { puts, deletions, unchanged };
}

/** The order of an object's fields says nothing. */
function isEqual(before: string, after: string): boolean {
  return before === after || isDeepStrictEqual(JSON.parse(before), JSON.parse(after));
}

async function documentsBefore(
  transaction: Transaction<Tables>,
  app: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let at = 0; at < names.length; at += rowsRead) {
    const rows = await transaction
      .selectFrom("policies")
      .select(["name", "document"])
      .where("app", "=", app)
      .where("name", "in", names.slice(at, at + rowsRead))
      .execute();
    for (const { name, document } of rows) found.set(name, document);
    await setImmediate();
  }
  return found;
}

function roomFor(
  puts: readonly Put[],
  deletions: readonly ChangedText[],
  stored: ReadonlyMap<string, StoredRow>,
): PolicySize & { policies: number } {
  let policies = 0;
  let room = noSize;
  const add = (name: string, after: PolicySize | undefined) => {
    const before = stored.get(name);
    policies += Number(after !== undefined) - Number(before !== undefined);
    room = sumOfSizes(room, sizeChange(before ?? noSize, after ?? noSize));
  };
  for (const { name, policy } of puts) add(name, policy);
  for (const { name } of deletions) add(name, undefined);
  return { policies, ...room };
}

/** @returns the last revision; undefined if there is nothing to delete */
async function deleteAll(
  transaction: Transaction<Tables>,
  record: RecordEntry,
  app: string,
  deletions: readonly ChangedText[],
): Promise<number | undefined> {
  for (let at = 0; at < deletions.length; at += rowsRead) {
    const names = deletions.slice(at, at + rowsRead).map(({ name }) => name);
    await deleteBansOfPolicies(transaction, app, names);
    await transaction.deleteFrom("policies").where("app", "=", app).where("name", "in", names).execute();
    await setImmediate();
  }
  const revisions = await recordMany(record, deletions, (group) => ({
    action: "delete-policies",
    app,
    subject: `${group.length} deleted`,
  }));
  return revisions.at(-1);
}

/** @returns the last revision; undefined if there is nothing to store */
async function storeAll(
  transaction: Transaction<Tables>,
  record: RecordEntry,
  { who, atMs }: Origin,
  app: string,
  puts: readonly Put[],
  stored: ReadonlyMap<string, StoredRow>,
): Promise<number | undefined> {
  const revisions = await recordMany(record, puts, (group) => {
    const created = group.filter(({ before }) => before === undefined).length;
    return { action: "put-policies", app, subject: `${created} created, ${group.length - created} changed` };
  });
  for (let at = 0; at < puts.length; at += rowsWritten) {
    const some = puts.slice(at, at + rowsWritten);
    const replaced = some.filter(({ name }) => stored.has(name)).map(({ name }) => name);
    if (replaced.length > 0) {
      await transaction.deleteFrom("policies").where("app", "=", app).where("name", "in", replaced).execute();
    }
    const rows = some.map(({ name, policy }, i): PolicyTable => {
      const row = stored.get(name);
      const owner = row === undefined ? who : row.owner;
      const { document } = policy;
      return {
        app,
        name,
        document,
        revision: revisions[at + i] as number,
        updated_at: atMs,
        owner,
        ...sizeFrom(policy),
        secret_parts: textOfParts(policy.secretParts),
      };
    });
    await transaction.insertInto("policies").values(rows).execute();
    await setImmediate();
  }
  return revisions.at(-1);
}
