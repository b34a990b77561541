// Brings policies and templates of an app back to what they were at a revision. This is a change like any other: one new revision, or a few if
// there are many documents, which can be rolled back too. Bans, tokens and the app's settings stay as they are.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { noSize, type PolicySize, policySize, sizeChange, sizeFrom, sumOfSizes } from "../bounds/policy-size.ts";
import { ApiError } from "../errors/api-error.ts";
import { pauses } from "../limits/pauses.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { deleteBansOfPolicies } from "./bans.ts";
import { change, type Origin, type RecordEntry } from "./change.ts";
import { checkDocumentBytes } from "./check-bounds.ts";
import { changesBetween, type DocumentChange, lastDeletions, reversed } from "./history.ts";
import { type ChangedText, recordMany } from "./many-documents.ts";
import type { Database, PolicyTable, Tables } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { takeRoom } from "./usage.ts";

/** One by one, a roll-back of thousands of policies would keep other changes waiting for too long. */
const policiesAtOnce = 50;

export interface RollBack {
  readonly app: string;
  /** The apps that the asker may read; undefined: all. */
  readonly apps: readonly string[] | undefined;
  /** Only this policy; undefined: all policies and templates of the app. */
  readonly policy: string | undefined;
  /** The revision to go back to. */
  readonly to: number;
  readonly total: TotalBounds;
  /**
   * Returns what gateways will get of a policy. Throws if it is not valid now, in the app's realm and with these templates, or if the asker
   * may not store it and it is not there already, unchanged.
   */
  validate(name: string, document: unknown, templates: Templates, owner: App, isUnchanged: boolean): unknown;
  /** Throws if a template is not valid now, in the app and for the asker. */
  validateTemplate(name: string, document: unknown, owner: App): void;
}

export interface RolledBack {
  /** The new revision, or the last of them; undefined if everything was as it had been. */
  readonly revision: number | undefined;
  readonly changes: readonly DocumentChange[];
}

/** @throws ApiError app-not-found, revision-not-found, policy-not-found, bound-exceeded, or what `validate` and `validateTemplate` throw */
export function rollBack(database: Database, origin: Origin, what: RollBack): Promise<RolledBack> {
  return change(database, origin, async (transaction, record) => {
    const owner = await getApp(transaction, what.app);
    const { revision: head } = await transaction.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
    await requireOfThisApp(transaction, what);
    const scope = { apps: what.apps, app: what.app, policy: what.policy };
    const since = await changesBetween(transaction, scope, what.to, Number(head), pauses(setImmediate));
    // Before the app existed, it had no policies: a mistyped number would delete all of them.
    if (since.some(({ kind, before }) => kind === "app" && before === undefined)) throw madeAfter(what);
    const changes = since.filter(({ kind }) => kind === "policy" || kind === "template").map(reversed);
    if (changes.length === 0) {
      await requirePolicy(transaction, what);
      return { revision: undefined, changes };
    }
    return { revision: await store(transaction, origin, record, owner, changes, what), changes };
  });
}

/** An app of the same name that was deleted may have been somebody else's. @throws ApiError revision-not-found */
async function requireOfThisApp(transaction: Transaction<Tables>, { app, apps, to }: RollBack): Promise<void> {
  const deleted = (await lastDeletions(transaction, apps)).get(app);
  if (deleted === undefined || to >= deleted) return;
  throw madeAfter({ app, to });
}

function madeAfter({ app, to }: Pick<RollBack, "app" | "to">): ApiError {
  return new ApiError("revision-not-found", `The app "${app}" was made after revision ${to}.`);
}

/** A misspelt name must not look like a policy that is as it was. @throws ApiError policy-not-found */
async function requirePolicy(transaction: Transaction<Tables>, { app, policy, to }: RollBack): Promise<void> {
  if (policy === undefined || (await readSizes(transaction, app)).has(policy)) return;
  throw new ApiError("policy-not-found", `The app "${app}" has no policy "${policy}", and had none at revision ${to}.`);
}

async function store(
  transaction: Transaction<Tables>,
  origin: Origin,
  record: RecordEntry,
  owner: App,
  changes: readonly DocumentChange[],
  what: RollBack,
): Promise<number> {
  const { app, total, to } = what;
  const policies = changes.filter(({ kind }) => kind === "policy");
  const templates = changes.filter(({ kind }) => kind === "template");
  const entry = {
    action: "roll-back" as const,
    app,
    ...(what.policy === undefined ? {} : { policy: what.policy }),
    subject: `to revision ${to}`,
  };
  const pause = pauses(setImmediate);
  const texts: ChangedText[] = [];
  for (const { kind, name, before, after } of changes) {
    const textOf = (document: unknown) => (document === undefined ? undefined : JSON.stringify(document));
    texts.push({ kind, name, before: textOf(before), after: textOf(after) });
    await pause();
  }
  const revisions = await recordMany(record, texts, () => entry);
  const revisionOf = new Map(changes.map((change, i) => [change, revisions[i] as number]));
  const room = { policies: 0, templates: 0, templateBytes: 0 };
  let sizes = noSize;
  for (const change of templates) {
    const { name, before, after } = change;
    room.templates += Number(after !== undefined) - Number(before !== undefined);
    room.templateBytes += bytesOf(after) - bytesOf(before);
    await transaction.deleteFrom("templates").where("app", "=", app).where("name", "=", name).execute();
    if (after === undefined) continue;
    what.validateTemplate(name, after, owner);
    const revision = revisionOf.get(change) as number;
    const row = { app, name, document: JSON.stringify(after), revision, updated_at: origin.atMs };
    await transaction.insertInto("templates").values(row).execute();
  }
  const known = await readTemplates(transaction, app);
  const stored = await readSizes(transaction, app);
  for (let at = 0; at < policies.length; at += policiesAtOnce) {
    const rows: PolicyTable[] = [];
    const some = policies.slice(at, at + policiesAtOnce);
    for (const change of some) {
      const { name, before, after } = change;
      const revision = revisionOf.get(change) as number;
      const sizeBefore = stored.get(name) ?? noSize;
      const size = after === undefined ? noSize : policySize(what.validate(name, after, known, owner, false));
      await pause();
      checkDocumentBytes("policy", size.bytes, before === undefined ? undefined : sizeBefore.bytes);
      room.policies += Number(after !== undefined) - Number(before !== undefined);
      sizes = sumOfSizes(sizes, sizeChange(sizeBefore, size));
      if (after === undefined) continue;
      const { owner: creator = origin.who } = stored.get(name) ?? {};
      const row = { app, name, document: JSON.stringify(after), revision, updated_at: origin.atMs, owner: creator };
      rows.push({ ...row, ...size });
    }
    await replacePolicies(transaction, app, some, rows);
    // SQLite blocks the thread, so other requests get their turn in between.
    await setImmediate();
  }
  if (templates.length > 0)
    sizes = sumOfSizes(
      sizes,
      await resizeOthers(transaction, owner, known, new Set(policies.map(({ name }) => name)), what),
    );
  await takeRoom(transaction, app, { ...room, ...sizes }, total);
  return revisions.at(-1) as number;
}

/** Deletes the stored policies and stores the new ones; of those that are gone, bans of key values go too. */
async function replacePolicies(
  transaction: Transaction<Tables>,
  app: string,
  changes: readonly DocumentChange[],
  rows: readonly PolicyTable[],
): Promise<void> {
  const names = changes.map(({ name }) => name);
  await transaction.deleteFrom("policies").where("app", "=", app).where("name", "in", names).execute();
  if (rows.length > 0) await transaction.insertInto("policies").values(rows).execute();
  const gone = changes.filter(({ after }) => after === undefined).map(({ name }) => name);
  if (gone.length > 0) await deleteBansOfPolicies(transaction, app, gone);
}

/** Policies that did not change may use templates that did: they must be valid with those, and their sizes change. */
async function resizeOthers(
  transaction: Transaction<Tables>,
  owner: App,
  templates: Templates,
  changed: ReadonlySet<string>,
  { app, validate }: RollBack,
): Promise<PolicySize> {
  const rows = await transaction
    .selectFrom("policies")
    .select(["name", "document", "bytes", "steps", "limits", "kinds"])
    .where("app", "=", app)
    .where("document", "like", '%"template":"%')
    .execute();
  const pause = pauses(setImmediate);
  let more = noSize;
  for (const row of rows) {
    await pause();
    const { name, document } = row;
    if (changed.has(name)) continue;
    const size = policySize(validate(name, JSON.parse(document), templates, owner, true));
    if (isDeepStrictEqual(size, sizeFrom(row))) continue;
    more = sumOfSizes(more, sizeChange(row, size));
    await transaction.updateTable("policies").set(size).where("app", "=", app).where("name", "=", name).execute();
  }
  return more;
}

async function readSizes(
  transaction: Transaction<Tables>,
  app: string,
): Promise<Map<string, PolicySize & { readonly owner: string | null }>> {
  const rows = await transaction
    .selectFrom("policies")
    .select(["name", "bytes", "steps", "limits", "kinds", "owner"])
    .where("app", "=", app)
    .execute();
  return new Map(rows.map((row) => [row.name, { ...sizeFrom(row), owner: row.owner }]));
}

function bytesOf(document: unknown): number {
  return document === undefined ? 0 : Buffer.byteLength(JSON.stringify(document));
}
