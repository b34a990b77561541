// The audit trail: the history of what gateways enforce and the audit entries of everything else, in one list by time.

import { type Expression, expressionBuilder, type SqlBool, sql } from "kysely";
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

/**
 * How many rows of a table a statement looks at: an index has those of an app, or of a person, by their times, and few of them may be what all
 * filters together ask for.
 */
const mostLookedAt = 2_000;
/** Of each of these, a page looks at 20 rows at least, or an owner of a thousand apps would get pages of two. */
const seriesAtOnce = 100;

export interface AuditPage {
  readonly entries: AuditEntry[];
  /** Where the next page begins; undefined: there are no older entries. */
  readonly next: string | undefined;
}

/**
 * Lists entries, newest first. A page ends, maybe without an entry, when it has looked at as many rows as a page may.
 *
 * @param before `next` of the previous page; undefined: the first page
 */
export async function listAudit(
  database: Database,
  filter: AuditFilter,
  before: string | undefined,
  limit: number,
): Promise<AuditPage> {
  const former = filter.apps === undefined ? [] : await readFormerApps(database, filter.apps);
  const asked = { filter, former, from: before === undefined ? undefined : positionOf(before), limit: limit + 1 };
  const looks = [await look(database, "revisions", asked), await look(database, "audit", asked)];
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
  readonly former: readonly FormerApp[];
  readonly from: Position | undefined;
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

/** Rows that an index has by their times, and what else the filter asks of them. */
interface Series {
  readonly equal: { readonly app?: string; readonly who?: string; readonly action?: string };
  readonly rest: { readonly action?: string; readonly subject?: string };
  readonly sinceMs: number | undefined;
}

async function look(database: Database, table: Sortable, asked: Asked): Promise<Look> {
  const { subject } = asked.filter;
  if (subject !== undefined && (await isRare(database, table, subject))) {
    const ofSubject = rowsOf(database, table).where("subject", "=", subject).limit(mostLookedAt);
    const rows = await database
      .selectFrom(ofSubject.as("looked"))
      .selectAll()
      .where(matching(table, asked))
      .orderBy("at", "desc")
      .orderBy("place", "desc")
      .limit(asked.limit)
      .execute();
    return { places: rows.map((row) => placeOf(table, row)), end: "" };
  }
  const series = seriesOf(asked);
  const most = Math.floor(mostLookedAt / Math.min(series.length, seriesAtOnce));
  const looks: Look[] = [];
  for (let i = 0; i < series.length; i += seriesAtOnce) {
    looks.push(await lookInto(database, table, asked, series.slice(i, i + seriesAtOnce), most));
  }
  return { places: looks.flatMap(({ places }) => places), end: latest(looks.map(({ end }) => end)) };
}

/** Whether the rows with a subject, which the trail has no index for by their times, are so few that one page may look at all. */
async function isRare(database: Database, table: Sortable, subject: string): Promise<boolean> {
  const further = rowsOf(database, table).where("subject", "=", subject).limit(1).offset(mostLookedAt);
  return (await further.executeTakeFirst()) === undefined;
}

function seriesOf({ filter, former }: Asked): Series[] {
  const { app, who, action, subject, sinceMs } = filter;
  const apps = filter.apps ?? (app === undefined ? undefined : [app]);
  if (apps === undefined) {
    return who === undefined
      ? [{ equal: given({ action }), rest: given({ subject }), sinceMs }]
      : [{ equal: { who }, rest: given({ action, subject }), sinceMs }];
  }
  const beginsMs = new Map(former.map((one) => [one.app, one.deletedAtMs + 1]));
  return apps
    .filter((one) => app === undefined || one === app)
    .map((one) => ({
      equal: { app: one, ...given({ who }) },
      rest: given({ action, subject }),
      sinceMs: Math.max(beginsMs.get(one) ?? 0, sinceMs ?? 0),
    }));
}

function given<Name extends string>(fields: { [name in Name]: string | undefined }): { [name in Name]?: string } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [name in Name]?: string;
  };
}

/** @param most how many rows of each series it may look at */
async function lookInto(
  database: Database,
  table: Sortable,
  { filter: { untilMs }, from, limit }: Asked,
  series: readonly Series[],
  most: number,
): Promise<Look> {
  const isFiltered = series.some(({ rest }) => Object.keys(rest).length > 0);
  const read = isFiltered ? most : Math.min(most, limit);
  const ordered = series.map(({ equal, sinceMs }) =>
    rowsOf(database, table)
      .where(row.and([row.and(equal), within(table, keyOf(table), { sinceMs, untilMs, from })]))
      .orderBy("at", "desc")
      .orderBy(sql.ref(keyOf(table)), "desc"),
  );
  const [first, ...others] = ordered.map((query, i) =>
    database
      .selectFrom(query.limit(read).as("looked"))
      .select(["at", "place"])
      .where(row.and(series[i]?.rest ?? {})),
  );
  if (first === undefined) return { places: [], end: "" };
  const rows = await first.unionAll(others).orderBy("at", "desc").orderBy("place", "desc").limit(limit).execute();
  const places = rows.map((row) => placeOf(table, row));
  // The rows that were found are the newest ones if there is one series, or if each series was read as far as the page may reach.
  const isFull = places.length === limit;
  if ((isFull && series.length === 1) || (!isFiltered && read === limit)) return { places, end: "" };
  const [firstLast, ...lasts] = ordered.map((query) =>
    database
      .selectFrom(
        query
          .limit(1)
          .offset(read - 1)
          .as("last"),
      )
      .select(["at", "place"]),
  );
  const ends = (await firstLast?.unionAll(lasts).execute()) ?? [];
  return { places, end: latest(ends.map((row) => placeOf(table, row).id)) };
}

function rowsOf(database: Database, table: Sortable) {
  return database
    .selectFrom(table)
    .select(["at", "app", "who", "action", "subject", sql<number | string>`${sql.ref(keyOf(table))}`.as("place")]);
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

const row = expressionBuilder<Tables, Sortable>();

/** @param place the column with the rows' keys */
function within(
  table: Sortable,
  place: "number" | "id" | "place",
  { sinceMs, untilMs, from }: { sinceMs: number | undefined; untilMs: number | undefined; from: Position | undefined },
): Expression<SqlBool> {
  return row.and([
    ...(sinceMs === undefined ? [] : [row("at", ">=", sinceMs)]),
    ...(untilMs === undefined ? [] : [row("at", "<", untilMs)]),
    ...(from === undefined ? [] : [earlier(table, place, from)]),
  ]);
}

/** Audit entries sort before revisions of the same millisecond, because "a" sorts before "r". */
function earlier(table: Sortable, place: string, { atMs, id }: Position): Expression<SqlBool> {
  const kind = id.slice(0, 1);
  const column = sql.ref(place);
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

/** What a filter asks of rows of a subject. */
function matching(table: Sortable, { filter, former, from }: Asked): Expression<SqlBool> {
  const { apps, app, who, action, sinceMs, untilMs } = filter;
  return row.and([
    row.and(given({ app, who, action })),
    within(table, "place", { sinceMs, untilMs, from }),
    ...(apps === undefined ? [] : [apps.length === 0 ? sql<SqlBool>`1 = 0` : row("app", "in", [...apps])]),
    ...former.map((one) => row.or([row("app", "!=", one.app), row("at", ">", one.deletedAtMs)])),
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
