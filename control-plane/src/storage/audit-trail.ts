// The audit trail: the history of what gateways enforce and the audit entries of everything else, in one list by time.

import { type Expression, expressionBuilder, type SqlBool, sql } from "kysely";
import type { AuditAction } from "./audit.ts";
import type { Action } from "./entry.ts";
import { appsAtOnce, bytesIn, newestApps, pageOf } from "./pages.ts";
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

/**
 * How many rows of a table a statement looks at: an index has those of an app, or of a person, by their times, and few of them may be what all
 * filters together ask for.
 */
const mostLookedAt = 2_000;

export interface AuditPage {
  readonly entries: AuditEntry[];
  /** Where the next page begins; undefined: there are no older entries. */
  readonly next: string | undefined;
}

/**
 * Lists entries, newest first. A page ends, maybe without an entry, when it has looked at as many rows as a page may.
 *
 * @param before `next` of the previous page; undefined: the first page
 * @param pause is called between the statements
 */
export async function listAudit(
  database: Database,
  filter: AuditFilter,
  before: string | undefined,
  limit: number,
  pause: () => Promise<void>,
): Promise<AuditPage> {
  const formerMs = await readFormerApps(database, filter.apps ?? []);
  const own = filter.apps?.filter((one) => filter.app === undefined || one === filter.app);
  const asked = { filter, own, formerMs, before, limit: limit + 1 };
  const looks = [await look(database, "revisions", asked, pause), await look(database, "audit", asked, pause)];
  // One look may not have reached rows that are newer than those that the other one has found.
  const end = latest(looks.map((one) => one.end));
  const found = looks
    .flatMap(({ places }) => places)
    .filter(({ id }) => id >= end)
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .slice(0, limit + 1);
  const { page, hasMore } = pageOf(await withSizes(database, found), limit);
  const entries = await readEntries(database, page);
  return {
    // An entry may have been deleted meanwhile.
    entries: page.flatMap(({ id }) => entries.get(id) ?? []),
    next: hasMore ? page.at(-1)?.id : end || undefined,
  };
}

interface Asked {
  readonly filter: AuditFilter;
  /** Those of the sender's apps that the filter asks for; undefined: the sender sees everything. */
  readonly own: readonly string[] | undefined;
  /** By the names of apps: when an app of that name was deleted. */
  readonly formerMs: ReadonlyMap<string, number>;
  readonly before: string | undefined;
  readonly limit: number;
}

/** Where an entry is. */
interface Place {
  /** Of the entry in the list. */
  readonly id: string;
  /** Of the row in its table. */
  readonly key: number | string;
}

interface Look {
  readonly places: readonly Place[];
  /** The id of the row where it ended; empty: it has seen all rows. */
  readonly end: string;
}

/** What rows have in common that an index has by their times. */
type Series = { readonly [column in "app" | "who" | "action"]?: string };

async function look(database: Database, table: Sortable, asked: Asked, pause: () => Promise<void>): Promise<Look> {
  await pause();
  const { own, limit } = asked;
  const { app, who, action, subject } = asked.filter;
  if (subject !== undefined && (await isRare(database, table, subject))) {
    const rows = await rowsOf(database, table).where("subject", "=", subject).limit(mostLookedAt).execute();
    return { places: asPlaces(table, asked, rows), end: "" };
  }
  if (own === undefined) {
    const isOfAll = app === undefined && who === undefined;
    return lookInto(database, table, asked, [isOfAll ? given({ action }) : given({ app, who })]);
  }
  const seriesOf = (apps: readonly string[]) => apps.map((one) => ({ app: one, ...given({ who }) }));
  if (own.length <= appsAtOnce) return lookInto(database, table, asked, seriesOf(own));
  // A sender with a right in many apps often sees most of the newest rows.
  const newest = await lookInto(database, table, asked, [given({ who })]);
  if (newest.places.length >= limit || newest.end === "") return newest;
  await pause();
  const older = { ...asked, before: newest.end };
  const { apps, end } = newestApps(await readNewest(database, table, older, own));
  await pause();
  const further = await lookInto(database, table, older, seriesOf(apps));
  return { places: [...newest.places, ...further.places], end: latest([further.end, end ?? ""]) };
}

/** Whether the rows with a subject, which the trail has no index for by their times, are so few that one page may look at all. */
async function isRare(database: Database, table: Sortable, subject: string): Promise<boolean> {
  const further = rowsOf(database, table).where("subject", "=", subject).limit(1).offset(mostLookedAt);
  return (await further.executeTakeFirst()) === undefined;
}

function given<Name extends string>(fields: { [name in Name]: string | undefined }): { [name in Name]?: string } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [name in Name]?: string;
  };
}

/** Looks at the newest rows of each series, and as far back as it has looked at all of them. */
async function lookInto(database: Database, table: Sortable, asked: Asked, series: readonly Series[]): Promise<Look> {
  const { filter, own, formerMs, limit } = asked;
  const { who, action, subject } = filter;
  const asks = Object.keys(given({ app: own?.[0] ?? filter.app, who, action, subject }));
  const isFiltered = series.some((equal) => asks.some((column) => !(column in equal)));
  const most = Math.floor(mostLookedAt / series.length);
  const read = isFiltered ? most : Math.min(most, limit);
  const [first, ...others] = series.map((equal) => {
    const sinceMs = Math.max(filter.sinceMs ?? 0, (formerMs.get(equal.app ?? "") ?? -1) + 1);
    const ordered = rowsOf(database, table)
      .where(row.and([row.and(equal), within(table, { ...asked, filter: { ...filter, sinceMs } })]))
      .orderBy("at", "desc")
      .orderBy(sql.ref(keyOf(table)), "desc");
    return database.selectFrom(ordered.limit(read).as("looked")).selectAll();
  });
  if (first === undefined) return { places: [], end: "" };
  const rows = await first.unionAll(others).execute();
  const ends = series.map(({ app }) => {
    const ids = rows.filter((one) => app === undefined || one.app === app).map((one) => placeOf(table, one).id);
    return ids.length < read ? "" : (ids.sort()[0] ?? "");
  });
  return { places: asPlaces(table, asked, rows), end: latest(ends) };
}

/** @returns the ids of the newest rows of these apps, as far as they have any */
async function readNewest(database: Database, table: Sortable, asked: Asked, apps: readonly string[]) {
  const newest = row
    .selectFrom(table)
    .where(row.and(given({ who: asked.filter.who })))
    .whereRef("app", "=", "apps.name")
    .where(within(table, asked))
    .orderBy("at", "desc")
    .orderBy(sql.ref(keyOf(table)), "desc")
    .limit(1);
  const rows = await database
    .selectFrom("apps")
    .where("name", "in", apps)
    .select(["name", newest.select("at").as("at"), newest.select(placeIn(table).as("place")).as("place")])
    .execute();
  return rows.flatMap(({ name, at, place }) => {
    if (at === null || place === null || Number(at) <= (asked.formerMs.get(name) ?? -1)) return [];
    return { app: name, newest: placeOf(table, { at, place }).id };
  });
}

interface TrailRow {
  readonly at: number;
  readonly app: string;
  readonly who: string;
  readonly action: string;
  readonly subject: string | null;
  readonly place: number | string;
}

/** @returns where those of the rows are that all filters together ask for */
function asPlaces(table: Sortable, { filter, own, formerMs, before }: Asked, rows: readonly TrailRow[]): Place[] {
  const { app, who, action, subject, sinceMs = 0, untilMs = Number.POSITIVE_INFINITY } = filter;
  const asked = Object.entries(given({ app, who, action, subject })) as [keyof TrailRow, string][];
  const ownApps = own && new Set(own);
  return rows
    .filter((one) => asked.every(([column, value]) => one[column] === value))
    .filter((one) => ownApps?.has(one.app) ?? true)
    .filter(({ at }) => Number(at) >= sinceMs && Number(at) < untilMs)
    .filter((one) => Number(one.at) > (formerMs.get(one.app) ?? -1))
    .map((one) => placeOf(table, one))
    .filter(({ id }) => before === undefined || id < before);
}

function rowsOf(database: Database, table: Sortable) {
  return database.selectFrom(table).select(["at", "app", "who", "action", "subject", placeIn(table).as("place")]);
}

function placeIn(table: Sortable) {
  return sql<number | string>`${sql.ref(keyOf(table))}`;
}

function keyOf(table: Sortable) {
  return table === "revisions" ? "number" : "id";
}

function placeOf(table: Sortable, { at, place }: { at: number; place: number | string }): Place {
  return table === "revisions"
    ? { id: idOfRevision(at, place), key: Number(place) }
    : { id: idOf({ atMs: Number(at), id: `a${place}` }), key: place };
}

function latest(ids: readonly string[]): string {
  return [...ids].sort().at(-1) ?? "";
}

/** @returns the places with the sizes of their documents */
async function withSizes(database: Database, places: readonly Place[]): Promise<(Place & { size: number })[]> {
  const sizes = new Map<number | string, number>();
  const { numbers, ids } = keysOf(places);
  const size = bytesIn("before", "after").as("size");
  if (numbers.length > 0) {
    const rows = await database
      .selectFrom("revisions")
      .select(["number", size])
      .where("number", "in", numbers)
      .execute();
    for (const row of rows) sizes.set(Number(row.number), Number(row.size));
  }
  if (ids.length > 0) {
    const rows = await database.selectFrom("audit").select(["id", size]).where("id", "in", ids).execute();
    for (const row of rows) sizes.set(row.id, Number(row.size));
  }
  return places.map((place) => ({ ...place, size: sizes.get(place.key) ?? 0 }));
}

function keysOf(places: readonly Place[]): { numbers: number[]; ids: string[] } {
  return {
    numbers: places.flatMap(({ key }) => (typeof key === "number" ? [key] : [])),
    ids: places.flatMap(({ key }) => (typeof key === "string" ? [key] : [])),
  };
}

/** @returns entries by their ids */
async function readEntries(database: Database, places: readonly Place[]): Promise<Map<string, AuditEntry>> {
  const entries = new Map<string, AuditEntry>();
  const { numbers, ids } = keysOf(places);
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

const row = expressionBuilder<Tables, "apps" | Sortable>();

function within(table: Sortable, { filter: { sinceMs, untilMs }, before }: Asked): Expression<SqlBool> {
  return row.and([
    ...(sinceMs === undefined ? [] : [row("at", ">=", sinceMs)]),
    ...(untilMs === undefined ? [] : [row("at", "<", untilMs)]),
    ...(before === undefined ? [] : [earlier(table, positionOf(before))]),
  ]);
}

/** Audit entries sort before revisions of the same millisecond, because "a" sorts before "r". */
function earlier(table: Sortable, { atMs, id }: Position): Expression<SqlBool> {
  const kind = id.slice(0, 1);
  const column = sql.ref(keyOf(table));
  const ofMillisecond =
    table === "revisions"
      ? kind === "a"
        ? sql<SqlBool>`1 = 0`
        : sql<SqlBool>`${column} < ${Number(id.slice(1))}`
      : kind === "r"
        ? sql<SqlBool>`1 = 1`
        : sql<SqlBool>`${column} < ${id.slice(1)}`;
  // Said twice, so that an index leads to the page's beginning.
  return row.and([
    row("at", "<=", atMs),
    row.or([row("at", "<", atMs), row.and([row("at", "=", atMs), ofMillisecond])]),
  ]);
}

/**
 * Finds apps of the same names that were deleted: they may have belonged to somebody else. The entry of a deletion may be gone before
 * the audit entries of the app are.
 */
async function readFormerApps(database: Database, apps: readonly string[]): Promise<ReadonlyMap<string, number>> {
  if (apps.length === 0) return new Map();
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
  return found;
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
