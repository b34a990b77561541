// Brings policies and templates of an app back to what they were at a revision. This is a change like any other: one new revision, or a few if
// there are many documents, which can be rolled back too. Bans, tokens and the app's settings stay as they are.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { noSize, type PolicySize, policySize, sizeChange, sizeFrom, sumOfSizes } from "../bounds/policy-size.ts";
import { ApiError } from "../errors/api-error.ts";
import { type SecretParts, secretPartsOf, textOfParts } from "../secrets/secret-parts.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { type App, getApp } from "./apps.ts";
import { deleteBansOfPolicies } from "./bans.ts";
import { change, type Origin, type RecordEntry } from "./change.ts";
import { checkDocumentBytes, type UsageChange } from "./check-bounds.ts";
import {
  changesBetween,
  type DocumentChange,
  type DocumentKind,
  hasChangedSince,
  lastDeletions,
  reversed,
  type Touched,
} from "./history.ts";
import { type ChangedText, recordMany } from "./many-documents.ts";
import { resizePolicies } from "./policy-sizes.ts";
import { readPolicyRows } from "./put-policies.ts";
import type { Database, PolicyTable, Tables } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { takeRoom } from "./usage.ts";

/** One by one, a roll-back of thousands of policies would keep other changes waiting for too long. */
const policiesAtOnce = 50;
/** How often a roll-back is planned because the app has changed meanwhile. From the second time on, only new entries are read. */
const mostPlans = 3;
/** What a roll-back depends on. */
const kinds: readonly DocumentKind[] = ["app", "policy", "template"];

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

/**
 * Slow reads come before the transaction, because others wait for that.
 *
 * @param pause is called between steps of some milliseconds, and resolves when it is time for the next one
 * @throws ApiError app-not-found, revision-not-found, policy-not-found, bound-exceeded, app-changing, or what `validate`, `validateTemplate` and
 * `pause` throw
 */
export async function rollBack(
  database: Database,
  origin: Origin,
  what: RollBack,
  pause: () => Promise<void>,
): Promise<RolledBack> {
  const touched: Touched = { to: what.to, documents: new Map(), bans: new Map() };
  for (let i = 0; i < mostPlans; i++) {
    const plan = await planOf(database, what, touched, pause);
    const { changes } = plan;
    const done = await change(database, origin, async (transaction, record): Promise<RolledBack | undefined> => {
      if (await hasChangedSince(transaction, what.app, kinds, plan.head)) return undefined;
      if (changes.length === 0) return { revision: undefined, changes };
      return { revision: await store(transaction, origin, record, plan, what), changes };
    });
    if (done !== undefined) return done;
  }
  const detail = `The app "${what.app}" changed ${mostPlans} times while its roll-back was prepared. Nothing was stored.`;
  throw new ApiError("app-changing", detail, {}, { "retry-after": "1" });
}

/** What is to be stored, if the app has not changed since the head. */
interface Plan {
  readonly head: number;
  readonly changes: readonly DocumentChange[];
  /** Of each change, in the same order. */
  readonly texts: readonly ChangedText[];
  /** Of policies after their changes, by name. */
  readonly sizes: ReadonlyMap<string, PolicySize>;
  /** Of policies that there are after their changes, by name. */
  readonly secretParts: ReadonlyMap<string, SecretParts>;
  /** Of policies that stay and use templates that change, by name. */
  readonly resized: ReadonlyMap<string, PolicySize>;
  /** Who made the policies that there are, by name. */
  readonly creators: ReadonlyMap<string, string | null>;
  readonly room: UsageChange;
}

async function planOf(database: Database, what: RollBack, touched: Touched, pause: () => Promise<void>): Promise<Plan> {
  const { app, policy, to } = what;
  // Whatever changes after this was read is found within the transaction.
  const { revision } = await database.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
  const head = Number(revision);
  const owner = await getApp(database, app);
  const changes = await readChanges(database, what, head, touched, pause);
  const stored = await readPolicyRows(database, app);
  // A misspelt name must not look like a policy that is as it was.
  if (changes.length === 0 && policy !== undefined && !stored.has(policy)) {
    throw new ApiError(
      "policy-not-found",
      `The app "${app}" has no policy "${policy}", and had none at revision ${to}.`,
    );
  }
  const texts: ChangedText[] = [];
  for (const { kind, name, before, after } of changes) {
    const textOf = (document: unknown) => (document === undefined ? undefined : JSON.stringify(document));
    texts.push({ kind, name, before: textOf(before), after: textOf(after) });
    await pause();
  }
  const templates = new Map(await readTemplates(database, app));
  const room = { policies: 0, ...(await changeTemplates(templates, texts, owner, what, pause)) };
  const sizes = new Map<string, PolicySize>();
  const secretParts = new Map<string, SecretParts>();
  let total = noSize;
  for (const { kind, name, before, after } of changes) {
    if (kind !== "policy") continue;
    const sizeBefore = stored.get(name) ?? noSize;
    const size = after === undefined ? noSize : policySize(what.validate(name, after, templates, owner, false));
    checkDocumentBytes("policy", size.bytes, before === undefined ? undefined : sizeBefore.bytes);
    room.policies += Number(after !== undefined) - Number(before !== undefined);
    total = sumOfSizes(total, sizeChange(sizeBefore, size));
    sizes.set(name, size);
    if (after !== undefined) secretParts.set(name, secretPartsOf(after));
    await pause();
  }
  const hasTemplates = changes.some(({ kind }) => kind === "template");
  const resized = hasTemplates ? await resizedOthers(database, owner, templates, sizes, what, pause) : new Map();
  for (const [name, size] of resized) total = sumOfSizes(total, sizeChange(stored.get(name) ?? noSize, size));
  const creators = new Map([...stored].map(([name, row]) => [name, row.owner]));
  return { head, changes, texts, sizes, secretParts, resized, creators, room: { ...room, ...total } };
}

/** @returns what is to be changed, from the head to the revision to go back to */
async function readChanges(
  database: Database,
  what: RollBack,
  head: number,
  touched: Touched,
  pause: () => Promise<void>,
): Promise<DocumentChange[]> {
  const { app, apps, policy, to } = what;
  await requireOfThisApp(database, what);
  const { changes } = await changesBetween(database, { apps, app, policy, kinds }, to, head, pause, touched);
  // Before the app existed, it had no policies: a mistyped number would delete all of them.
  if (changes.some(({ kind, before }) => kind === "app" && before === undefined)) throw madeAfter(what);
  return changes.filter(({ kind }) => kind !== "app").map(reversed);
}

/** Changes the app's templates to what they will be. @returns the room that this takes */
async function changeTemplates(
  templates: Map<string, unknown>,
  texts: readonly ChangedText[],
  owner: App,
  { validateTemplate }: RollBack,
  pause: () => Promise<void>,
): Promise<{ templates: number; templateBytes: number }> {
  const room = { templates: 0, templateBytes: 0 };
  for (const { kind, name, before, after } of texts) {
    if (kind !== "template") continue;
    room.templates += Number(after !== undefined) - Number(before !== undefined);
    room.templateBytes += Buffer.byteLength(after ?? "") - Buffer.byteLength(before ?? "");
    templates.delete(name);
    if (after === undefined) continue;
    const document = JSON.parse(after);
    validateTemplate(name, document, owner);
    templates.set(name, document);
    await pause();
  }
  return room;
}

/** An app of the same name that was deleted may have been somebody else's. @throws ApiError revision-not-found */
async function requireOfThisApp(database: Database, { app, apps, to }: RollBack): Promise<void> {
  const deleted = (await lastDeletions(database, apps)).get(app);
  if (deleted === undefined || to >= deleted) return;
  throw madeAfter({ app, to });
}

function madeAfter({ app, to }: Pick<RollBack, "app" | "to">): ApiError {
  return new ApiError("revision-not-found", `The app "${app}" was made after revision ${to}.`);
}

async function store(
  transaction: Transaction<Tables>,
  { who, atMs }: Origin,
  record: RecordEntry,
  { texts, sizes, secretParts, resized, creators, room }: Plan,
  { app, policy, total, to }: RollBack,
): Promise<number> {
  await takeRoom(transaction, app, room, total);
  const entry = {
    action: "roll-back" as const,
    app,
    ...(policy === undefined ? {} : { policy }),
    subject: `to revision ${to}`,
  };
  const revisions = await recordMany(record, texts, () => entry);
  const changed = texts.map((text, i) => ({ ...text, revision: revisions[i] as number }));
  for (const { kind, name, after, revision } of changed) {
    if (kind !== "template") continue;
    await transaction.deleteFrom("templates").where("app", "=", app).where("name", "=", name).execute();
    if (after === undefined) continue;
    const row = { app, name, document: after, revision, updated_at: atMs };
    await transaction.insertInto("templates").values(row).execute();
  }
  const policies = changed.filter(({ kind }) => kind === "policy");
  for (let at = 0; at < policies.length; at += policiesAtOnce) {
    const some = policies.slice(at, at + policiesAtOnce);
    const rows = some.flatMap(({ name, after: document, revision }): PolicyTable[] => {
      if (document === undefined) return [];
      const owner = creators.get(name);
      const size = sizes.get(name) ?? noSize;
      const secret_parts = textOfParts(secretParts.get(name) ?? []);
      const made = { app, name, document, revision, updated_at: atMs, owner: owner === undefined ? who : owner };
      return [{ ...made, ...size, secret_parts }];
    });
    await replacePolicies(transaction, app, some, rows);
    // SQLite blocks the thread, so other requests get their turn in between.
    await setImmediate();
  }
  await resizePolicies(transaction, app, [...resized]);
  return revisions.at(-1) as number;
}

/** Deletes the stored policies and stores the new ones; of those that are gone, bans of key values go too. */
async function replacePolicies(
  transaction: Transaction<Tables>,
  app: string,
  changes: readonly ChangedText[],
  rows: readonly PolicyTable[],
): Promise<void> {
  const names = changes.map(({ name }) => name);
  await transaction.deleteFrom("policies").where("app", "=", app).where("name", "in", names).execute();
  if (rows.length > 0) await transaction.insertInto("policies").values(rows).execute();
  const gone = changes.filter(({ after }) => after === undefined).map(({ name }) => name);
  if (gone.length > 0) await deleteBansOfPolicies(transaction, app, gone);
}

/** Policies that do not change may use templates that do: they must be valid with those, and their sizes change. */
async function resizedOthers(
  database: Database,
  owner: App,
  templates: Templates,
  changed: ReadonlyMap<string, PolicySize>,
  { app, validate }: RollBack,
  pause: () => Promise<void>,
): Promise<Map<string, PolicySize>> {
  const rows = await database
    .selectFrom("policies")
    .select(["name", "document", "bytes", "steps", "limits", "kinds", "hiding"])
    .where("app", "=", app)
    .where("document", "like", '%"template":"%')
    .execute();
  const resized = new Map<string, PolicySize>();
  for (const row of rows) {
    await pause();
    const { name, document } = row;
    if (changed.has(name)) continue;
    const size = policySize(validate(name, JSON.parse(document), templates, owner, true));
    if (!isDeepStrictEqual(size, sizeFrom(row))) resized.set(name, size);
  }
  return resized;
}
