// Whatever is looked for in the audit trail, and by whom, each statement reads a bounded number of rows, and the pages together have every
// entry once.

import { CompiledQuery } from "kysely";
import { beforeAll, describe, expect, it } from "vitest";
import { insert } from "../../../bench/lists/rows.ts";
import { type AuditFilter, listAudit } from "../../../control-plane/src/storage/audit-trail.ts";
import { listRevisions, type RevisionPage } from "../../../control-plane/src/storage/revisions.ts";
import { sharedControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { testDatabaseKind } from "../../fixtures/servers/test-database.ts";
import { rowsReadBy, Statements } from "./statements.ts";

const control = sharedControlPlane();
/** In each of the two tables. */
const rows = 6_000;
const mostRead = 2_001;
const pageSize = 1_000;
const beginMs = 1_800_000_000_000;
const apps: readonly string[] = ["large", "third", "small"];
/** Half of them have rows. */
const quiet = Array.from({ length: 150 }, (_, i) => `quiet-${i}`);
const many = [...apps, ...quiet];
const pause = () => Promise.resolve();

/** Of the rows of both tables, three each have one time. */
function rowOf(i: number) {
  return {
    at: beginMs + Math.floor(i / 3),
    who: i % 7 === 0 ? "ann" : "bob",
    source: null,
    app: i % 1_000 === 500 ? "small" : i % 4 === 0 ? "third" : i % 8 === 1 ? `quiet-${i % quiet.length}` : "large",
    subject: i < 10 ? "first" : i % 5 === 0 ? "pens" : "books",
    before: null,
    after: null,
  };
}
const revisionOf = (i: number) => ({
  ...rowOf(i),
  number: i + 1,
  action: i < 20 ? "create-ban" : "delete-ban",
  policy: null,
});
const auditOf = (i: number) => ({
  ...rowOf(i),
  id: `a${String(i).padStart(8, "0")}`,
  action: i < 20 ? "create-token" : "delete-token",
  bytes: 100,
});

const idOf = ({ at, number, id }: { at: number; number?: number; id?: string }) =>
  `${String(at).padStart(15, "0")}-${number === undefined ? `a${id}` : `r${String(number).padStart(16, "0")}`}`;
const everything = Array.from({ length: rows }, (_, i) => [revisionOf(i), auditOf(i)])
  .flat()
  .map((row) => ({ ...row, entry: idOf(row) }))
  .sort((a, b) => (a.entry < b.entry ? 1 : -1));

function expected({ apps: ofCaller, app, who, action, subject, sinceMs = 0, untilMs = Infinity }: AuditFilter) {
  const isEither = (asked: string | undefined, value: string) => asked === undefined || asked === value;
  return everything
    .filter((row) => ofCaller === undefined || ofCaller.includes(row.app))
    .filter((row) => isEither(app, row.app) && isEither(who, row.who) && isEither(action, row.action))
    .filter((row) => isEither(subject, row.subject) && row.at >= sinceMs && row.at < untilMs)
    .map(({ entry }) => entry);
}

const scopes: [string, AuditFilter][] = [
  ["an admin", { apps: undefined }],
  ["an admin, of one app,", { apps: undefined, app: "large" }],
  ["the owner of an app", { apps: ["large"] }],
  ["the owner of three apps", { apps }],
  ["the owner of three apps, of one of them,", { apps, app: "third" }],
  ["the owner of an app, of another one,", { apps: ["third"], app: "large" }],
  ["the owner of many quiet apps", { apps: quiet }],
  ["the owner of many quiet apps, of one of them,", { apps: quiet, app: "quiet-1" }],
  ["the owner of many apps, busy ones and quiet ones,", { apps: many }],
];
const times = { sinceMs: beginMs + 2, untilMs: beginMs + 2_000 };
const filters = [undefined, "ann"].flatMap((who) =>
  [undefined, "create-ban", "create-token", "delete-token"].flatMap((action) =>
    [undefined, "first", "books", "nothing"].flatMap((subject) =>
      [{}, times].map((between) => ({ who, action, subject, ...between })),
    ),
  ),
);

beforeAll(async () => {
  const { database } = control().app;
  await database.deleteFrom("revisions").execute();
  await database.deleteFrom("audit").execute();
  const app = { created_at: beginMs, revision: 0, realm: null, bounds: null, exempt: null };
  await insert(database, "apps", many.length, (i) => ({ ...app, name: many[i] }));
  await insert(database, "revisions", rows, revisionOf);
  await insert(database, "audit", rows, auditOf);
});

async function listedIn(filter: AuditFilter): Promise<{ ids: string[]; pages: number }> {
  const ids: string[] = [];
  let next: string | undefined;
  let pages = 0;
  do {
    const page = await listAudit(control().app.database, filter, next, pageSize, pause);
    ids.push(...page.entries.map(({ id }) => id));
    next = page.next;
    pages += 1;
  } while (next !== undefined);
  return { ids, pages };
}

/**
 * MariaDB and PostgreSQL read a table of this size as a whole, or by another index, where they expect that to be as quick.
 *
 * @returns the statements that read too many rows of a table, of SQLite
 */
async function tooMany(statements: Statements): Promise<[string, readonly unknown[], number][]> {
  if (testDatabaseKind !== undefined) return [];
  const made = statements.end().filter(({ sql }) => /from .(revisions|audit)\b/.test(sql));
  const found: [string, readonly unknown[], number][] = [];
  for (const { sql, parameters } of made) {
    const read = await rowsReadBy(control().app.database, CompiledQuery.raw(sql, [...parameters]));
    const sum = read.reduce((all, [, count]) => all + count, 0);
    if (sum > mostRead) found.push([sql, parameters, sum]);
  }
  return found;
}

/** @returns how often a table is read by the statements together, as their texts say */
function mostReadsOfTable(statements: Statements): number {
  const text = statements
    .end()
    .map(({ sql }) => sql)
    .join();
  return Math.max(
    ...["revisions", "audit"].map((table) => text.match(new RegExp(`from .${table}\\b`, "g"))?.length ?? 0),
  );
}

describe.each(scopes)("to %s", (_, scope) => {
  it("pages of the audit trail have every entry once, by all filters together", async () => {
    for (const filter of filters) {
      const asked = { ...scope, ...filter };
      const { ids, pages } = await listedIn(asked);
      const all = expected(asked);
      // Differences of thousands of ids take minutes to print.
      expect([asked, ids.length, ids.join() === all.join()]).toEqual([asked, all.length, true]);
      expect(pages).toBeLessThanOrEqual(all.length / pageSize + (2 * rows) / 600 + 2);
    }
  });
});

describe("to somebody with a right in many apps", () => {
  /** MariaDB and PostgreSQL plan each read by itself. */
  const mostReads = 60;

  it.each([
    ["busy ones and quiet ones", many],
    ["quiet ones", quiet],
  ])("a page makes few reads, however many apps there are: %s", async (_, own) => {
    for (const filter of filters) {
      const statements = new Statements(control().app);
      await listAudit(control().app.database, { apps: own, ...filter }, undefined, pageSize, pause);
      expect(mostReadsOfTable(statements)).toBeLessThan(mostReads);
    }
    const statements = new Statements(control().app);
    await listRevisions(control().app.database, own, undefined, pageSize);
    expect(mostReadsOfTable(statements)).toBeLessThan(mostReads);
  });

  it("a page goes by what a thousand apps have been since each of their names was last free", async () => {
    const { database } = control().app;
    const again = Array.from({ length: 1_000 }, (_, i) => `again-${i}`);
    const app = { created_at: beginMs, revision: 0, realm: null, bounds: null, exempt: null };
    await insert(database, "apps", again.length, (i) => ({ ...app, name: again[i] }));
    const rowsOfApps = (first: number, at: number, action: string) =>
      insert(database, "revisions", again.length, (i) => {
        const what = { app: again[i], subject: "again", action };
        return { ...revisionOf(i), ...what, at, number: first + i };
      });
    await rowsOfApps(100_000, beginMs, "delete-ban");
    await rowsOfApps(200_000, beginMs + 1, "delete-app");
    await rowsOfApps(300_000, beginMs + 2, "create-app");
    for (const filter of [{}, { subject: "again" }, { subject: "again", who: "ann" }]) {
      const { ids } = await listedIn({ apps: again, ...filter });
      const isAnn = "who" in filter;
      expect([filter, ids.length]).toEqual([filter, isAnn ? 143 : 1_000]);
      expect(ids.every((id) => id.startsWith(`${String(beginMs + 2).padStart(15, "0")}-r`))).toBe(true);
    }
    await database.deleteFrom("revisions").where("number", ">=", 100_000).execute();
  });

  it.each([
    ["one", ["third"]],
    ["three", apps],
    ["many quiet", quiet],
    ["many", many],
  ])("pages of revisions have every one of %s apps once", async (__, own) => {
    const statements = new Statements(control().app);
    const numbers: number[] = [];
    let next: number | undefined = 1_001;
    do {
      const page: RevisionPage = await listRevisions(control().app.database, own, next, pageSize);
      numbers.push(...page.revisions.map(({ number }) => number));
      next = page.next;
    } while (next !== undefined);
    const all = Array.from({ length: 1_000 }, (_, i) => revisionOf(i)).filter(({ app }) => own.includes(app));
    expect(numbers.join()).toBe(
      all
        .map(({ number }) => number)
        .reverse()
        .join(),
    );
    expect(await tooMany(statements)).toEqual([]);
  });
});

it("a page that has looked at many rows in vain says where to go on", async () => {
  const { token } = (await control().call("POST", "/tokens", { body: { name: "o", app: "default", role: "owner" } }))
    .body;
  await insert(control().app.database, "audit", rows, (i) => ({ ...auditOf(i), id: `b${i}`, app: "default" }));
  let pages = 0;
  let next: string | undefined;
  do {
    const before = next === undefined ? "" : `&before=${next}`;
    const { body } = await control().call("GET", `/audit?action=sign-in${before}`, { token });
    expect(body.entries).toEqual([]);
    pages += 1;
    next = body.next;
  } while (next !== undefined);
  expect(pages).toBe(4);
});

describe.skipIf(testDatabaseKind !== undefined)(
  "with many more entries, a page reads a bounded number of rows, whatever is asked",
  () => {
    const more = 30_000;

    beforeAll(async () => {
      const { database } = control().app;
      const documents = { before: "1".repeat(200), after: "2".repeat(200) };
      await insert(database, "revisions", more, (i) => ({ ...revisionOf(rows + i), ...documents }));
      await insert(database, "audit", more, (i) => ({ ...auditOf(rows + i), ...documents }));
    });

    it.each(scopes)("by %s", async (_, scope) => {
      for (const filter of filters) {
        const statements = new Statements(control().app);
        await listAudit(control().app.database, { ...scope, ...filter }, undefined, pageSize, pause);
        expect(await tooMany(statements)).toEqual([]);
      }
    });

    it.each([
      ["one", ["third"]],
      ["three", apps],
      ["many quiet", quiet],
      ["many", many],
    ])("by somebody with a right in %s apps, of revisions", async (_, own) => {
      const statements = new Statements(control().app);
      await listRevisions(control().app.database, own, rows, pageSize);
      expect(await tooMany(statements)).toEqual([]);
    });
  },
);
