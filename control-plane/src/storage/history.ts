// Reads what the entries of the history say about documents: one entry whole, and what changed between two revisions.

import { type ExpressionBuilder, type SqlBool, sql, type Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import type { Action, Entry } from "./entry.ts";
import { type Revision, revisionFrom } from "./revisions.ts";
import type { Database, RevisionTable, Tables } from "./tables.ts";

export interface RevisionDetails extends Revision {
  /** The document before the change; undefined if there was none. */
  readonly before: unknown;
  readonly after: unknown;
}

/** What a revision may change, and undo. */
export type DocumentKind = "app" | "policy" | "template" | "ban";

/** A document at two revisions. */
export interface DocumentChange {
  readonly kind: DocumentKind;
  readonly app: string;
  /** The name, or the id of a ban. */
  readonly name: string;
  /** Undefined: there was none. */
  readonly before: unknown;
  readonly after: unknown;
}

/** Which documents somebody may read. Undefined: all. */
export interface HistoryScope {
  readonly apps: readonly string[] | undefined;
  readonly app?: string | undefined;
  readonly policy?: string | undefined;
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

/**
 * Lists the documents that differ between two revisions, by app, kind and name.
 *
 * @param from 0: before the first revision @param to not below `from`
 * @throws ApiError revision-not-found if a revision is not there, or not kept any more
 */
export async function changesBetween(
  database: Database | Transaction<Tables>,
  scope: HistoryScope,
  from: number,
  to: number,
): Promise<DocumentChange[]> {
  await requireKept(database, from, to);
  const rows = await database
    .selectFrom("revisions")
    .selectAll()
    .where("number", ">", from)
    .where("number", "<=", to)
    .where(within(scope))
    .orderBy("number")
    .execute();
  const former = await lastDeletions(database, scope.apps);
  const found = new Map<string, { first: DocumentChange; last: DocumentChange }>();
  for (const row of rows) {
    if (Number(row.number) <= (former.get(row.app) ?? 0)) continue;
    for (const change of changesOf(row)) {
      if (scope.policy !== undefined && (change.kind !== "policy" || change.name !== scope.policy)) continue;
      const key = JSON.stringify([change.app, change.kind, change.name]);
      const known = found.get(key);
      if (known === undefined) found.set(key, { first: change, last: change });
      else known.last = change;
    }
  }
  return [...found.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { first, last }]) => ({ ...first, after: last.after }))
    .filter(({ before, after }) => JSON.stringify(before) !== JSON.stringify(after));
}

/** A roll-back changes many documents of an app by one entry, whose texts have each of them. Null: there was none. */
export type ManyDocuments = Readonly<Partial<Record<DocumentKind, Readonly<Record<string, unknown>>>>>;

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
  if ((row.action as Action) === "roll-back")
    return changesOfMany(row.app, before as ManyDocuments, after as ManyDocuments);
  const kind = kinds[row.action as Action];
  if (kind === undefined) return [];
  const name = kind === "app" ? row.app : kind === "policy" ? (row.policy ?? "") : (row.subject ?? "");
  // An app without settings has no text, and exists all the same.
  const exists = (text: unknown, action: string) => text ?? (kind === "app" && row.action !== action ? {} : undefined);
  return [{ kind, app: row.app, name, before: exists(before, "create-app"), after: exists(after, "delete-app") }];
}

function changesOfMany(app: string, before: ManyDocuments, after: ManyDocuments): DocumentChange[] {
  return (Object.keys(before) as DocumentKind[]).flatMap((kind) =>
    Object.entries(before[kind] ?? {}).map(([name, document]) => ({
      kind,
      app,
      name,
      before: document ?? undefined,
      after: after[kind]?.[name] ?? undefined,
    })),
  );
}

async function requireKept(database: Database | Transaction<Tables>, from: number, to: number): Promise<void> {
  const head = await database.selectFrom("meta").select("revision").where("id", "=", 1).executeTakeFirstOrThrow();
  if (to > Number(head.revision)) throw new ApiError("revision-not-found", `There is no revision ${to} yet.`);
  const { kept } = await database
    .selectFrom("revisions")
    .select(({ fn }) => fn.countAll().as("kept"))
    .where("number", ">", from)
    .where("number", "<=", to)
    .executeTakeFirstOrThrow();
  if (Number(kept) === to - from) return;
  const detail = `Some of the revisions from ${from + 1} to ${to} are not kept any more (SLUICE_HISTORY_DAYS, SLUICE_HISTORY_BYTES).`;
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
