// Writes a whole database to a text, and reads it into an empty one, which may be of another kind. Each line is JSON: a head, a
// row each, and an end that says how many rows there are, so that a text that was cut is not taken.

import type { Transaction } from "kysely";
import type { AuditAction } from "./audit.ts";
import { DatabaseBusy, DatabaseUnreachable, DatabaseUnwritable } from "./engines/database-errors.ts";
import { bytesIn, pageOf } from "./pages.ts";
import type { Database, Tables } from "./tables.ts";
import { write } from "./write.ts";

/** The tables with what operators store, in an order in which every row finds what it refers to. Sessions are left out: people sign in again. */
const tables = [
  "meta",
  "apps",
  "policies",
  "templates",
  "network_lists",
  "bans",
  "members",
  "member_roles",
  "member_groups",
  "tokens",
  "usage",
  "consumers",
  "consumer_deletions",
  "revisions",
  "audit",
] as const;
type Table = (typeof tables)[number];

/** By which each table is read in pages: its primary key. */
const keys: Readonly<Record<Table, readonly string[]>> = {
  meta: ["id"],
  apps: ["name"],
  policies: ["app", "name"],
  templates: ["app", "name"],
  network_lists: ["app", "name"],
  bans: ["id"],
  members: ["name"],
  member_roles: ["member", "app"],
  member_groups: ["member", "group_name"],
  tokens: ["hash"],
  usage: ["app"],
  consumers: ["app", "id"],
  consumer_deletions: ["position"],
  revisions: ["number"],
  audit: ["id"],
};

/** Columns that some databases return as texts. */
const isNumber =
  /^(id|number|at|revision|version|bytes|steps|limits|kinds|hiding|hidden_ids|policies|templates|bans|tokens|callers|consumers|count|network_lists|is_admin|position|.*_(at|bytes|entries|pruned|position))$/;
const textIds: readonly Table[] = ["bans", "tokens", "audit", "consumers", "consumer_deletions"];

const format = 1;
const rowsAtOnce = 200;
/** Servers take statements up to a size, which is 16 MB with MariaDB's own settings. */
const charactersAtOnce = 1_000_000;

interface Head {
  readonly sluiceExport: number;
  readonly schema: string;
}

type Row = Readonly<Record<string, string | number | null>>;

/** A text that cannot be imported, or a database that cannot take it. Nothing was changed. */
export class TransferError extends Error {
  /** What is wrong: the database, the text, or this line of it. */
  readonly where: "database" | "text" | number;
  readonly expected: string;
  readonly got: string;

  constructor(where: "database" | "text" | number, expected: string, got: string) {
    super(`${typeof where === "number" ? `line ${where}` : where}: expected ${expected}, got ${got}`);
    this.where = where;
    this.expected = expected;
    this.got = got;
  }
}

/** Writes the lines of the text, at one moment of the database. @param onRows is called with the rows so far */
export async function exportLines(
  database: Database,
  writeLine: (line: string) => Promise<void>,
  onRows: (table: string, rows: number) => void,
): Promise<void> {
  await database
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(async (transaction) => {
      await writeLine(JSON.stringify({ sluiceExport: format, schema: await readSchema(transaction) } satisfies Head));
      const columns = await readColumns(transaction);
      const counts: Partial<Record<Table, number>> = {};
      for (const table of tables) {
        let count = 0;
        for await (const row of rowsOf(transaction, table, columns.get(table) ?? [])) {
          await writeLine(JSON.stringify({ table, row }));
          count += 1;
          if (count % 10_000 === 0) onRows(table, count);
        }
        counts[table] = count;
        onRows(table, count);
      }
      await writeLine(JSON.stringify({ end: counts }));
    });
}

/**
 * Stores the rows of a text, all or none.
 *
 * @throws TransferError if the database is not empty, or the text is not whole or of another version
 */
export async function importLines(
  database: Database,
  lines: AsyncIterable<string>,
  onRows: (table: string, rows: number) => void,
): Promise<void> {
  await write(database, async (transaction) => {
    await requireEmpty(transaction);
    for (const table of [...tables].reverse()) await transaction.deleteFrom(table).execute();
    const columns = await readColumns(transaction);
    const counts: Record<string, number> = {};
    let head: Head | undefined;
    let end: Readonly<Record<string, number>> | undefined;
    let batch = new Batch("meta");
    const flush = async () => {
      await batch.store(transaction);
      if (batch.rows.length > 0) onRows(batch.table, counts[batch.table] ?? 0);
    };
    let number = 0;
    for await (const line of lines) {
      number += 1;
      if (line === "") continue;
      const value = parsed(line, number);
      if (head === undefined) {
        head = value as unknown as Head;
        await requireSchema(transaction, head);
        continue;
      }
      if (end !== undefined) throw new TransferError(number, "nothing after the end", "more");
      if (isRecord(value["end"])) {
        end = value["end"] as Record<string, number>;
        continue;
      }
      const { table, row } = rowOf(value, columns, number);
      if (table !== batch.table || batch.isFull) {
        await flush();
        batch = new Batch(table);
      }
      batch.add(row, line.length, number);
      counts[table] = (counts[table] ?? 0) + 1;
    }
    await flush();
    requireWhole(end, counts);
  });
}

/** Rows of one table that are stored together. */
class Batch {
  readonly table: Table;
  readonly rows: Row[] = [];
  #characters = 0;
  #firstLine = 0;
  #lastLine = 0;

  constructor(table: Table) {
    this.table = table;
  }

  get isFull(): boolean {
    return this.rows.length >= rowsAtOnce || this.#characters >= charactersAtOnce;
  }

  add(row: Row, characters: number, line: number): void {
    if (this.rows.length === 0) this.#firstLine = line;
    this.#lastLine = line;
    this.rows.push(row);
    this.#characters += characters;
  }

  /** @throws TransferError if the database refuses a row */
  async store(transaction: Transaction<Tables>): Promise<void> {
    if (this.rows.length === 0) return;
    try {
      await transaction
        .insertInto(this.table)
        .values(this.rows as never)
        .execute();
    } catch (error) {
      if (isOfDatabase(error)) throw error;
      const { message } = error as Error;
      const where = `lines ${this.#firstLine} to ${this.#lastLine}`;
      throw new TransferError("text", `rows of ${this.table} that the database takes in ${where}`, message);
    }
  }
}

/** Whether an error says that the database does not work, whatever the rows are. */
function isOfDatabase(error: unknown): boolean {
  return [DatabaseBusy, DatabaseUnreachable, DatabaseUnwritable].some((kind) => error instanceof kind);
}

async function readColumns(transaction: Transaction<Tables>): Promise<ReadonlyMap<string, readonly string[]>> {
  const described = await transaction.introspection.getTables();
  return new Map(described.map(({ name, columns }) => [name, columns.map((column) => column.name).sort()]));
}

/** @throws TransferError if the line is no row of a table, with all of its columns */
function rowOf(
  { table: name, row }: Record<string, unknown>,
  columns: ReadonlyMap<string, readonly string[]>,
  number: number,
): { table: Table; row: Row } {
  const table = tables.find((known) => known === name);
  if (table === undefined || !isRecord(row)) {
    throw new TransferError(number, "a row of a table", "another line");
  }
  const expected = (columns.get(table) ?? []).join(", ");
  const got = Object.keys(row).sort().join(", ");
  if (expected !== got) {
    throw new TransferError(number, `a row of ${table} with ${expected}`, got === "" ? "nothing" : got);
  }
  for (const [column, value] of Object.entries(row)) {
    const type = hasNumbers(table, column) ? "number" : "string";
    if (value === null || typeof value === type) continue;
    throw new TransferError(
      number,
      `${type === "number" ? "a number" : "a text"} in ${table}.${column}`,
      `${JSON.stringify(value)}`,
    );
  }
  return { table, row: row as Row };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Rows are read in pages, by their sizes too: some have megabytes. */
async function* rowsOf(
  transaction: Transaction<Tables>,
  table: Table,
  columns: readonly string[],
): AsyncGenerator<Row> {
  const key = keys[table];
  const size = bytesIn(...columns.filter((column) => !hasNumbers(table, column))).as("size");
  let last: Row | undefined;
  while (true) {
    // The table's name is not known to the compiler here, so its columns are not either.
    let query = (transaction as unknown as Transaction<Record<string, Record<string, string | number>>>).selectFrom(
      table,
    );
    for (const column of key) query = query.orderBy(column);
    const after = last;
    if (after !== undefined) {
      query = query.where((row) =>
        row.or(
          key.map((column, i) =>
            row.and([
              ...key.slice(0, i).map((one) => row(one, "=", after[one] as string)),
              row(column, ">", after[column] as string),
            ]),
          ),
        ),
      );
    }
    const sizes = await query
      .select(size)
      .limit(rowsAtOnce + 1)
      .execute();
    const { page, hasMore } = pageOf(sizes, rowsAtOnce);
    if (page.length === 0) return;
    const rows = (await query.selectAll().limit(page.length).execute()) as Row[];
    for (const row of rows) yield withNumbers(table, row);
    if (!hasMore) return;
    last = rows.at(-1);
  }
}

/** PostgreSQL returns large integers as texts. */
function withNumbers(table: Table, row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [
      column,
      value !== null && hasNumbers(table, column) ? Number(value) : value,
    ]),
  );
}

function hasNumbers(table: Table, column: string): boolean {
  return isNumber.test(column) && !(column === "id" && textIds.includes(table));
}

/** What happens to a control plane that somebody has started and does not use: it has tokens of its own, and people try to sign in. */
const actionsWithoutWork: readonly AuditAction[] = ["sign-in", "sign-out", "end-session", "refuse-sign-in"];

/** Members, and tokens that somebody made, are no revisions. */
async function requireEmpty(transaction: Transaction<Tables>): Promise<void> {
  const { revision } = await transaction
    .selectFrom("meta")
    .select("revision")
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  const member = await transaction.selectFrom("members").select("name").limit(1).executeTakeFirst();
  const entry = await transaction
    .selectFrom("audit")
    .select("action")
    .where("action", "not in", actionsWithoutWork)
    .limit(1)
    .executeTakeFirst();
  if (Number(revision) === 0 && member === undefined && entry === undefined) return;
  const got = Number(revision) > 0 ? `${revision} revisions` : "members, or tokens that somebody made";
  throw new TransferError("database", "an empty database", `one with ${got}`);
}

async function requireSchema(transaction: Transaction<Tables>, { sluiceExport, schema }: Head): Promise<void> {
  const own = await readSchema(transaction);
  if (sluiceExport === format && schema === own) return;
  const got = schema === undefined ? "another text" : `one with schema ${schema}`;
  throw new TransferError(1, `an export of this version of Sluice (schema ${own})`, got);
}

async function readSchema(transaction: Transaction<Tables>): Promise<string> {
  const migrations = transaction as unknown as Transaction<{ kysely_migration: { name: string } }>;
  const { name } = await migrations
    .selectFrom("kysely_migration")
    .select("name")
    .orderBy("name", "desc")
    .limit(1)
    .executeTakeFirstOrThrow();
  return name;
}

function requireWhole(
  end: Readonly<Record<string, number>> | undefined,
  counts: Readonly<Record<string, number>>,
): void {
  if (end === undefined)
    throw new TransferError("text", "a whole export", "one that was cut: its last line is missing");
  for (const table of tables) {
    const [expected = 0, got = 0] = [end[table], counts[table]];
    if (expected !== got)
      throw new TransferError("text", `${expected} rows of ${table}, as its last line says`, `${got}`);
  }
  if (counts["meta"] !== 1) {
    throw new TransferError("text", "one row of meta", `${counts["meta"] ?? 0}`);
  }
}

function parsed(line: string, number: number): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    if (isRecord(value)) return value;
  } catch {
    // Reported below.
  }
  throw new TransferError(number, "a JSON object", "something else");
}
