// The audit trail: the history of what gateways enforce and the audit entries of everything else, in one list by time.

import type { ExpressionBuilder } from "kysely";
import { type SqlBool, sql } from "kysely";
import type { AuditAction } from "./audit.ts";
import type { Action } from "./entry.ts";
import { bytesIn, pageOf } from "./pages.ts";
import type { Database, Tables } from "./tables.ts";

export interface AuditEntry {
  readonly id: string;
  readonly atMs: number;
  readonly who: string;
  readonly from: string | undefined;
  readonly action: Action | AuditAction;
  readonly app: string | undefined;
  readonly policy: string | undefined;
  readonly subject: string | undefined;
  /** The revision; undefined if nothing changed for gateways. */
  readonly revision: number | undefined;
  /** Documents, as they were stored. */
  readonly before: unknown;
  readonly after: unknown;
}

export interface AuditFilter {
  /** Undefined: entries of all apps, and those of no app. */
  readonly apps: readonly string[] | undefined;
  readonly app?: string | undefined;
  readonly who?: string | undefined;
  readonly action?: string | undefined;
  readonly subject?: string | undefined;
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
}

/** Where a page ends: entries are sorted by time, and within a millisecond by their ids. */
interface Position {
  readonly atMs: number;
  readonly id: string;
}

type Sortable = "revisions" | "audit";

/** Ids of revisions sort as their numbers do. */
const revisionDigits = 16;

export interface AuditPage {
  readonly entries: AuditEntry[];
  /** Whether there are older entries. */
  readonly hasMore: boolean;
}

/**
 * Lists entries, newest first.
 *
 * @param before the id of the last entry of the previous page; undefined: the first page
 */
export async function listAudit(
  database: Database,
  filter: AuditFilter,
  before: string | undefined,
  limit: number,
): Promise<AuditPage> {
  const from = before === undefined ? undefined : positionOf(before);
  const former = filter.apps === undefined ? [] : await readFormerApps(database, filter.apps);
  const found = [
    ...(await findPlaces(database, "revisions", filter, former, from, limit + 1)),
    ...(await findPlaces(database, "audit", filter, former, from, limit + 1)),
  ];
  const newest = found.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit + 1);
  const { page, hasMore } = pageOf(newest, limit);
  const entries = await readEntries(database, page);
  // An entry may have been deleted meanwhile.
  return { entries: page.flatMap(({ id }) => entries.get(id) ?? []), hasMore };
}

/** Where an entry is, and how large its documents are. */
interface Place {
  /** Of the entry in the list. */
  readonly id: string;
  /** Of the row in its table. */
  readonly key: number | string;
  readonly size: number;
}

async function findPlaces(
  database: Database,
  table: Sortable,
  filter: AuditFilter,
  former: readonly FormerApp[],
  from: Position | undefined,
  limit: number,
): Promise<Place[]> {
  const key = table === "revisions" ? "number" : "id";
  const rows = await database
    .selectFrom(table)
    .select(["at", sql<number | string>`${sql.ref(key)}`.as("key"), bytesIn("before", "after").as("size")])
    .where(matching(filter, former))
    .$if(from !== undefined, (query) => query.where(earlier(table, from as Position)))
    .orderBy("at", "desc")
    .orderBy(key as "at", "desc")
    .limit(limit)
    .execute();
  return rows.map(({ at, key, size }) => ({
    id: table === "revisions" ? idOfRevision(at, key) : idOf({ atMs: Number(at), id: `a${key}` }),
    key: table === "revisions" ? Number(key) : key,
    size: Number(size),
  }));
}

/** @returns entries by their ids */
async function readEntries(database: Database, places: readonly Place[]): Promise<Map<string, AuditEntry>> {
  const entries = new Map<string, AuditEntry>();
  const numbers = places.flatMap(({ key }) => (typeof key === "number" ? [key] : []));
  const ids = places.flatMap(({ key }) => (typeof key === "string" ? [key] : []));
  if (numbers.length > 0) {
    const rows = await database.selectFrom("revisions").selectAll().where("number", "in", numbers).execute();
    for (const row of rows) {
      const id = idOfRevision(row.at, row.number);
      entries.set(id, { ...common(row), id, policy: row.policy ?? undefined, revision: Number(row.number) });
    }
  }
  if (ids.length > 0) {
    const rows = await database.selectFrom("audit").selectAll().where("id", "in", ids).execute();
    for (const row of rows) {
      const id = idOf({ atMs: Number(row.at), id: `a${row.id}` });
      entries.set(id, { ...common(row), id, policy: undefined, revision: undefined });
    }
  }
  return entries;
}

/** Returns whether a text is the id of an entry. */
export function isEntryId(text: string): boolean {
  return /^[0-9]{15}-(r[0-9]{16}|a[0-9a-z]{1,36})$/.test(text);
}

function idOf({ atMs, id }: Position): string {
  return `${String(atMs).padStart(15, "0")}-${id}`;
}

function idOfRevision(at: number | string, number: number | string): string {
  return idOf({ atMs: Number(at), id: `r${String(number).padStart(revisionDigits, "0")}` });
}

function positionOf(id: string): Position {
  return { atMs: Number(id.slice(0, 15)), id: id.slice(16) };
}

/** Audit entries sort before revisions of the same millisecond, because "a" sorts before "r". */
function earlier<Table extends Sortable>(table: Table, { atMs, id }: Position) {
  return (row: ExpressionBuilder<Tables, Sortable>) => {
    const kind = id.slice(0, 1);
    const within =
      table === "revisions"
        ? kind === "a"
          ? sql<SqlBool>`1 = 0`
          : row("number", "<", Number(id.slice(1)))
        : kind === "r"
          ? sql<SqlBool>`1 = 1`
          : row("id", "<", id.slice(1));
    // Said twice, so that an index leads to the page's beginning.
    return row.and([row("at", "<=", atMs), row.or([row("at", "<", atMs), row.and([row("at", "=", atMs), within])])]);
  };
}

interface FormerApp {
  readonly app: string;
  readonly deletedAtMs: number;
}

/**
 * Finds apps of the same names that were deleted: they may have belonged to somebody else. The entry of a deletion may be gone before
 * the audit entries of the app are.
 */
async function readFormerApps(database: Database, apps: readonly string[]): Promise<FormerApp[]> {
  if (apps.length === 0) return [];
  const deletions = await database
    .selectFrom("revisions")
    .select((row) => ["app", row.fn.max("at").as("at")])
    .where("app", "in", [...apps])
    .where("action", "=", "delete-app" satisfies Action)
    .groupBy("app")
    .execute();
  const found = new Map(deletions.map(({ app, at }) => [app, Number(at)]));
  const incomplete = await database
    .selectFrom("usage")
    .innerJoin("apps", "apps.name", "usage.app")
    .select(["usage.app", "apps.created_at"])
    .where("usage.app", "in", [...apps])
    .where("usage.history_pruned", ">", 0)
    .execute();
  for (const { app, created_at } of incomplete) {
    if (!found.has(app)) found.set(app, Number(created_at) - 1);
  }
  return [...found].map(([app, deletedAtMs]) => ({ app, deletedAtMs }));
}

function matching(filter: AuditFilter, former: readonly FormerApp[]) {
  const { apps, app, who, action, subject, sinceMs, untilMs } = filter;
  return (row: ExpressionBuilder<Tables, Sortable>) =>
    row.and([
      ...(apps === undefined ? [] : [apps.length === 0 ? sql<SqlBool>`1 = 0` : row("app", "in", [...apps])]),
      ...(app === undefined ? [] : [row("app", "=", app)]),
      ...(who === undefined ? [] : [row("who", "=", who)]),
      ...(action === undefined ? [] : [row("action", "=", action)]),
      ...(subject === undefined ? [] : [row("subject", "=", subject)]),
      ...(sinceMs === undefined ? [] : [row("at", ">=", sinceMs)]),
      ...(untilMs === undefined ? [] : [row("at", "<", untilMs)]),
      ...former.map(({ app: name, deletedAtMs }) => row.or([row("app", "!=", name), row("at", ">", deletedAtMs)])),
    ]);
}

interface CommonRow {
  readonly at: number;
  readonly who: string;
  readonly source: string | null;
  readonly action: string;
  readonly app: string;
  readonly subject: string | null;
  readonly before: string | null;
  readonly after: string | null;
}

function common({ at, who, source, action, app, subject, before, after }: CommonRow) {
  return {
    atMs: Number(at),
    who,
    from: source ?? undefined,
    action: action as Action | AuditAction,
    app: app === "" ? undefined : app,
    subject: subject ?? undefined,
    before: before === null ? undefined : JSON.parse(before),
    after: after === null ? undefined : JSON.parse(after),
  };
}
