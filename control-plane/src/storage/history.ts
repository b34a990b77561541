// Reads what the entries of the history say about documents: one entry whole, and what changed between two revisions.

import { type ExpressionBuilder, type SqlBool, sql, type Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import { sorted } from "../limits/sorted.ts";
import { type Action, actionsOfMany, type Entry, isOfMany } from "./entry.ts";
import { historyBegin } from "./history-retention.ts";
import type { ManyDocuments } from "./many-documents.ts";
import { type Revision, revisionFrom } from "./revisions.ts";
import type { Database, RevisionTable, Tables } from "./tables.ts";

export interface RevisionDetails extends Revision {
  /** The document before the change; undefined if there was none. */
  readonly before: unknown;
  readonly after: unknown;
}

/** What a revision may change, and undo. */
export type DocumentKind = "app" | "policy" | "template" | "networks" | "ban";

interface DocumentId {
  readonly kind: DocumentKind;
  readonly app: string;
  /** The name, or the id of a ban. */
  readonly name: string;
}

/** A document at two revisions. */
export interface DocumentChange extends DocumentId {
  /** Undefined: there was none. */
  readonly before: unknown;
  readonly after: unknown;
}

/** Which documents somebody may read. Undefined: all. */
export interface HistoryScope {
  readonly apps: readonly string[] | undefined;
  readonly app?: string | undefined;
  readonly policy?: string | undefined;
  /** Undefined: of all kinds. */
  readonly kinds?: readonly DocumentKind[];
}

const kinds: Readonly<Partial<Record<Action, DocumentKind>>> = {
  "create-app": "app",
  "update-app": "app",
  "delete-app": "app",
  "create-policy": "policy",
  "update-policy": "policy",
  "delete-policy": "policy",
  "create-template": "template",
  "update-template": "template",
  "delete-template": "template",
  "create-networks": "networks",
  "update-networks": "networks",
  "delete-networks": "networks",
  "create-ban": "ban",
  "delete-ban": "ban",
};

/** @throws ApiError revision-not-found */
export async function getRevision(database: Database, scope: HistoryScope, number: number): Promise<RevisionDetails> {
  const row = await database
    .selectFrom("revisions")
    .selectAll()
    .where("number", "=", number)
    .where(within(scope))
    .executeTakeFirst();
  if (row === undefined || (await isOfFormerApp(database, row, scope))) {
    throw new ApiError("revision-not-found", `There is no revision ${number}, or it is not kept any more.`);
  }
  return { ...revisionFrom(row), before: parsed(row.before), after: parsed(row.after) };
}

/** Documents that entries have changed, and that were there before the first of them or are there after the last. */
export interface Touched {
  /** The revision up to which entries were read. */
  to: number;
  readonly documents: Map<string, TouchedDocument>;
  /** Bans that were made, by the policy of their keys or, of networks, by their app: they end with it, without an entry. */
  readonly bans: Map<string, Set<string>>;
}

interface TouchedDocument extends DocumentId {
  readonly wasThere: boolean;
  /** The revisions of its first and last change. */
  readonly first: number;
  last: number;
}

export interface Changes {
  readonly changes: DocumentChange[];
  /** How many bans were made or ended beyond those. */
  readonly moreBans: number;
}

/** Bans are made by programs, and those that expire are never ended. All others are bounded by what apps may have. */
const mostBans = 1_000;

/**
 * Lists the documents that differ between two revisions, by app, kind and name. Of bans, only the newest are listed.
 *
 * @param from 0: before the first revision @param to a later revision
 * @param pause is called between steps of some milliseconds, and resolves when it is time for the next one
 * @param touched what an earlier call has read of the entries since `from`
 * @throws ApiError revision-not-found if a revision is not there, or not kept any more
 */
export async function changesBetween(
  database: Database,
  scope: HistoryScope,
  from: number,
  to: number,
  pause: () => Promise<void>,
  touched: Touched = { to: from, documents: new Map(), bans: new Map() },
): Promise<Changes> {
  await requireKept(database, scope, from, to);
  await readTouched(database, scope, touched, to, pause);
  const { listed, moreBans } = await withoutOlderBans(touched.documents, pause);
  const before = await readDocuments(database, listed, "first", "before", pause);
  const after = await readDocuments(database, listed, "last", "after", pause);
  // Entries may have been deleted meanwhile.
  await requireKept(database, scope, from, to);
  const changes: DocumentChange[] = [];
  for (const key of await sorted([...listed.keys()], (one, other) => one < other, pause)) {
    const { kind, app, name } = listed.get(key) as TouchedDocument;
    const change = { kind, app, name, before: before.get(key), after: after.get(key) };
    if (JSON.stringify(change.before) !== JSON.stringify(change.after)) changes.push(change);
    await pause();
  }
  return { changes, moreBans };
}

/** Returns whether documents of these kinds may have changed in the app since a revision. */
export async function hasChangedSince(
  transaction: Transaction<Tables>,
  app: string,
  kindsRead: readonly DocumentKind[],
  since: number,
): Promise<boolean> {
  const entry = await transaction
    .selectFrom("revisions")
    .select("number")
    .where("app", "=", app)
    .where("action", "in", actionsOf(kindsRead))
    .where("number", ">", since)
    .limit(1)
    .executeTakeFirst();
  return entry !== undefined || (await historyBegin(transaction, [app])) > since;
}

function actionsOf(kindsRead: readonly DocumentKind[] | undefined): Action[] {
  const ofOne = (Object.keys(kinds) as Action[]).filter(
    (action) => kindsRead?.includes(kinds[action] as DocumentKind) ?? true,
  );
  return [...ofOne, ...actionsOfMany];
}

/** Entries are read in pages, with pauses in between, and only as much of them as is needed: documents may be large. */
const entriesAtOnce = 1_000;
/** Of entries of many documents, each has up to a megabyte. */
const documentsAtOnce = 5;

/** Reads on. What was made and deleted again is forgotten at once, so the longest history leaves no more documents than apps have had at one time. */
async function readTouched(
  database: Database,
  scope: HistoryScope,
  touched: Touched,
  to: number,
  pause: () => Promise<void>,
): Promise<void> {
  const former = await lastDeletions(database, scope.apps);
  const { documents } = touched;
  const { policy } = scope;
  // They are chosen here: a statement that looks for rare ones among many others reads them all.
  const actions = actionsOf(policy === undefined ? scope.kinds : ["policy"]);
  while (touched.to < to) {
    const page = await database
      .selectFrom("revisions")
      .select(["number", "action", "app", "policy", "subject"])
      .where("number", ">", touched.to)
      .where("number", "<=", to)
      .where(within(scope))
      .orderBy("number")
      .limit(entriesAtOnce)
      .execute();
    for (const row of page) {
      const number = Number(row.number);
      if (number <= (former.get(row.app) ?? 0) || !actions.includes(row.action as Action)) continue;
      const found = await documentsTouched(database, row);
      // Those of many are read from up to a megabyte.
      if (isOfMany(row.action)) await pause();
      for (const { existedBefore, existsAfter, ...document } of found) {
        if (policy !== undefined && (document.kind !== "policy" || document.name !== policy)) continue;
        const key = keyOf(document);
        const known = documents.get(key);
        if (known === undefined)
          documents.set(key, { ...document, wasThere: existedBefore, first: number, last: number });
        else known.last = number;
        if (document.kind === "ban") noteBan(touched.bans, row, key, existsAfter);
        if (existsAfter) continue;
        if (documents.get(key)?.wasThere === false) documents.delete(key);
        for (const ban of touched.bans.get(key) ?? []) {
          documents.delete(ban);
          await pause();
        }
        touched.bans.delete(key);
      }
    }
    touched.to = page.length < entriesAtOnce ? to : Number(page.at(-1)?.number);
    await pause();
  }
}

function noteBan(bans: Touched["bans"], { app, policy }: TouchingEntry, ban: string, exists: boolean): void {
  const owner = policy === null ? keyOf({ kind: "app", app, name: app }) : keyOf({ kind: "policy", app, name: policy });
  const ofOwner = bans.get(owner) ?? new Set();
  if (exists) bans.set(owner, ofOwner.add(ban));
  else if (ofOwner.delete(ban) && ofOwner.size === 0) bans.delete(owner);
}

async function withoutOlderBans(
  documents: ReadonlyMap<string, TouchedDocument>,
  pause: () => Promise<void>,
): Promise<{ listed: ReadonlyMap<string, TouchedDocument>; moreBans: number }> {
  let bans = 0;
  for (const { kind } of documents.values()) bans += Number(kind === "ban");
  const moreBans = Math.max(0, bans - mostBans);
  if (moreBans === 0) return { listed: documents, moreBans };
  const listed = new Map<string, TouchedDocument>();
  let passed = 0;
  for (const [key, document] of documents) {
    await pause();
    if (document.kind === "ban" && passed < moreBans) passed += 1;
    else listed.set(key, document);
  }
  return { listed, moreBans };
}

/** Reads the documents before the first of their changes, or after the last. */
async function readDocuments(
  database: Database,
  touched: ReadonlyMap<string, TouchedDocument>,
  which: "first" | "last",
  side: "before" | "after",
  pause: () => Promise<void>,
): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  const numbers = [...new Set([...touched.values()].map((one) => one[which]))];
  for (let at = 0; at < numbers.length; at += documentsAtOnce) {
    const rows = await database
      .selectFrom("revisions")
      .selectAll()
      .where("number", "in", numbers.slice(at, at + documentsAtOnce))
      .execute();
    for (const row of rows) {
      for (const change of changesOf(row)) {
        const key = keyOf(change);
        if (touched.get(key)?.[which] === Number(row.number)) found.set(key, change[side]);
      }
      await pause();
    }
  }
  return found;
}

/** The same change in the other direction. */
export function reversed(change: DocumentChange): DocumentChange {
  return { ...change, before: change.after, after: change.before };
}

/** Returns the documents that an entry would change. */
export function changesOfEntry({ action, app = "", policy, subject, before, after }: Entry): DocumentChange[] {
  return changesOf({
    action,
    app,
    policy: policy ?? null,
    subject: subject ?? null,
    before: before ?? null,
    after: after ?? null,
  });
}

function changesOf(
  row: Pick<RevisionTable, "action" | "app" | "policy" | "subject" | "before" | "after">,
): DocumentChange[] {
  const before = parsed(row.before);
  const after = parsed(row.after);
  const isMany = isOfMany(row.action);
  const many = (side: unknown, { kind, name }: DocumentId) =>
    (side as ManyDocuments | undefined)?.[kind]?.[name] ?? undefined;
  // An app without settings has no text, and exists all the same.
  const one = (text: unknown, exists: boolean) => text ?? (exists ? {} : undefined);
  return documentsOf(row, before, after).map(({ existedBefore, existsAfter, ...document }) => ({
    ...document,
    before: isMany ? many(before, document) : one(before, document.kind === "app" && existedBefore),
    after: isMany ? many(after, document) : one(after, document.kind === "app" && existsAfter),
  }));
}

/** A document that an entry changes, and whether it was there before and is there afterwards. */
interface EntryDocument extends DocumentId {
  readonly existedBefore: boolean;
  readonly existsAfter: boolean;
}

/** What tells which documents an entry changes, if it has not many. */
type TouchingEntry = Pick<RevisionTable, "number" | "action" | "app" | "policy" | "subject">;

/** Reads the entries on the way from one revision to a later one, without documents. */
export function touchingEntries(
  transaction: Transaction<Tables>,
  after: number,
  until: number,
): Promise<TouchingEntry[]> {
  return transaction
    .selectFrom("revisions")
    .select(["number", "action", "app", "policy", "subject"])
    .where("number", ">", after)
    .where("number", "<=", until)
    .orderBy("number")
    .execute();
}

/** Returns which documents an entry changes. If it has many, it is read, which takes some milliseconds. */
export async function documentsTouched(
  database: Database | Transaction<Tables>,
  entry: TouchingEntry,
): Promise<EntryDocument[]> {
  if (!isOfMany(entry.action)) return documentsOf(entry, undefined, undefined);
  const row = await database
    .selectFrom("revisions")
    .select("before")
    // A roll-back that stands alone says only here what is gone.
    .$if(entry.action === "roll-back", (query) => query.select("after"))
    .where("number", "=", Number(entry.number))
    .executeTakeFirst();
  return documentsOf(entry, parsed(row?.before ?? null), parsed(row?.after ?? null));
}

/** Returns which documents an entry changes. The names of many are in their documents before the change. */
function documentsOf(
  { action, app, policy, subject }: Omit<TouchingEntry, "number">,
  before: unknown,
  after: unknown,
): EntryDocument[] {
  if (isOfMany(action)) {
    const [many, later] = [before ?? {}, after ?? {}] as [ManyDocuments, ManyDocuments];
    return (Object.keys(many) as DocumentKind[]).flatMap((kind) =>
      Object.entries(many[kind] ?? {}).map(([name, document]) => ({
        kind,
        app,
        name,
        existedBefore: document !== null,
        existsAfter: action === "put-policies" || (later[kind]?.[name] ?? null) !== null,
      })),
    );
  }
  const kind = kinds[action as Action];
  if (kind === undefined) return [];
  const name = kind === "app" ? app : kind === "policy" ? (policy ?? "") : (subject ?? "");
  return [
    { kind, app, name, existedBefore: !action.startsWith("create-"), existsAfter: !action.startsWith("delete-") },
  ];
}

function keyOf({ app, kind, name }: DocumentId): string {
  return JSON.stringify([app, kind, name]);
}

/** Other apps' entries may be gone: an app with many changes must not keep the others from their history. */
async function requireKept(
  database: Database | Transaction<Tables>,
  { apps, app }: HistoryScope,
  from: number,
  to: number,
): Promise<void> {
  const head = await database.selectFrom("meta").select("revision").where("id", "=", 1).executeTakeFirstOrThrow();
  const newest = Math.max(from, to);
  if (newest > Number(head.revision)) throw new ApiError("revision-not-found", `There is no revision ${newest} yet.`);
  const mayRead = app === undefined || apps === undefined || apps.includes(app);
  const begin = await historyBegin(database, app === undefined ? apps : mayRead ? [app] : []);
  if (from >= Math.min(begin, to)) return;
  const detail = `Some of the revisions from ${from + 1} to ${Math.min(begin, to)} are not kept any more (SLUICE_HISTORY_DAYS, SLUICE_HISTORY_BYTES).`;
  throw new ApiError("revision-not-found", detail);
}

/**
 * Returns the revisions that last deleted apps of these names: what they had until then may have been somebody else's.
 * @param apps undefined: the reader may read everything, so there are none
 */
export async function lastDeletions(
  database: Database | Transaction<Tables>,
  apps: readonly string[] | undefined,
): Promise<ReadonlyMap<string, number>> {
  if (apps === undefined || apps.length === 0) return new Map();
  const rows = await database
    .selectFrom("revisions")
    .select(({ fn }) => ["app", fn.max("number").as("number")])
    .where("app", "in", [...apps])
    .where("action", "=", "delete-app" satisfies Action)
    .groupBy("app")
    .execute();
  return new Map(rows.map(({ app, number }) => [app, Number(number)]));
}

/** A token for a new app of the same name does not read what the former one had: it may have been somebody else's. */
async function isOfFormerApp(
  database: Database,
  { app, number }: RevisionTable,
  { apps }: HistoryScope,
): Promise<boolean> {
  if (apps === undefined) return false;
  const later = await database
    .selectFrom("revisions")
    .select("number")
    .where("app", "=", app)
    .where("number", ">=", Number(number))
    .where("action", "=", "delete-app" satisfies Action)
    .limit(1)
    .executeTakeFirst();
  return later !== undefined;
}

function within({ apps, app }: HistoryScope) {
  return (row: ExpressionBuilder<Tables, "revisions">) =>
    row.and([
      ...(apps === undefined ? [] : [apps.length === 0 ? sql<SqlBool>`1 = 0` : row("app", "in", [...apps])]),
      ...(app === undefined ? [] : [row("app", "=", app)]),
    ]);
}

function parsed(text: string | null): unknown {
  return text === null ? undefined : JSON.parse(text);
}
