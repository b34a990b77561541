// Writes a whole database to a text, and reads it into an empty one, which may be of another kind. Each line is JSON: a head, a
// row each, and an end that says how many rows there are, so that a text that was cut is not taken.

import type { Transaction } from "kysely";
import type { Database, Tables } from "./tables.ts";
import { write } from "./write.ts";

/** The tables with what operators store, in an order in which every row finds what it refers to. Sessions are left out: people sign in again. */
const tables = [
  "meta",
  "apps",
  "policies",
  "templates",
  "bans",
  "members",
  "member_roles",
  "member_groups",
  "tokens",
  "usage",
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
  bans: ["id"],
  members: ["name"],
  member_roles: ["member", "app"],
  member_groups: ["member", "group_name"],
  tokens: ["hash"],
  usage: ["app"],
  revisions: ["number"],
  audit: ["id"],
};

/** Columns that some databases return as texts. */
const isNumber =
  /^(id|number|at|revision|version|bytes|steps|policies|templates|bans|tokens|callers|is_admin|.*_(at|bytes|entries|pruned))$/;
const textIds: readonly Table[] = ["bans", "tokens", "audit"];

const format = 1;
const rowsAtOnce = 200;

interface Head {
  readonly sluiceExport: number;
  readonly schema: string;
}

type Row = Readonly<Record<string, string | number | null>>;

/** A text that cannot be imported, or a database that cannot take it. */
export class TransferError extends Error {}

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
      const counts: Partial<Record<Table, number>> = {};
      for (const table of tables) {
        let count = 0;
        for await (const row of rowsOf(transaction, table)) {
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
    const counts: Record<string, number> = {};
    let head: Head | undefined;
    let end: Readonly<Record<string, number>> | undefined;
    let batch: Row[] = [];
    let batchTable: Table = "meta";
    const flush = async () => {
      if (batch.length === 0) return;
      await transaction
        .insertInto(batchTable)
        .values(batch as never)
        .execute();
      onRows(batchTable, counts[batchTable] ?? 0);
      batch = [];
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
      if (end !== undefined) throw new TransferError(`line ${number}: expected nothing after the end, got more`);
      if (value["end"] !== undefined) {
        end = value["end"] as Record<string, number>;
        continue;
      }
      const { table, row } = value as { table: Table; row: Row };
      if (!tables.includes(table))
        throw new TransferError(`line ${number}: expected a row of a table, got another line`);
      if (table !== batchTable || batch.length >= rowsAtOnce) await flush();
      batchTable = table;
      batch.push(row);
      counts[table] = (counts[table] ?? 0) + 1;
    }
    await flush();
    requireWhole(end, counts);
  });
}

async function* rowsOf(transaction: Transaction<Tables>, table: Table): AsyncGenerator<Row> {
  const columns = keys[table];
  let last: Row | undefined;
  while (true) {
    // The table's name is not known to the compiler here, so its columns are not either.
    let query = (transaction as unknown as Transaction<Record<string, Record<string, string | number>>>)
      .selectFrom(table)
      .selectAll()
      .limit(rowsAtOnce);
    for (const column of columns) query = query.orderBy(column);
    const after = last;
    if (after !== undefined) {
      query = query.where((row) =>
        row.or(
          columns.map((column, i) =>
            row.and([
              ...columns.slice(0, i).map((one) => row(one, "=", after[one] as string)),
              row(column, ">", after[column] as string),
            ]),
          ),
        ),
      );
    }
    const page = (await query.execute()) as Row[];
    for (const row of page) yield withNumbers(table, row);
    last = page.at(-1);
    if (page.length < rowsAtOnce) return;
  }
}

/** PostgreSQL returns large integers as texts. */
function withNumbers(table: Table, row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => {
      const isText = column === "id" && textIds.includes(table);
      return [column, value !== null && !isText && isNumber.test(column) ? Number(value) : value];
    }),
  );
}

async function requireEmpty(transaction: Transaction<Tables>): Promise<void> {
  const { revision } = await transaction
    .selectFrom("meta")
    .select("revision")
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  if (Number(revision) === 0) return;
  throw new TransferError(`expected an empty database, got one with ${revision} revisions: nothing was changed`);
}

async function requireSchema(transaction: Transaction<Tables>, { sluiceExport, schema }: Head): Promise<void> {
  const own = await readSchema(transaction);
  if (sluiceExport === format && schema === own) return;
  throw new TransferError(
    `line 1: expected an export of this version of Sluice (schema ${own}), got ${schema === undefined ? "another text" : `schema ${schema}`}: nothing was changed`,
  );
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
  if (end === undefined) throw new TransferError("expected an end, got a text that was cut: nothing was changed");
  for (const table of tables) {
    const [expected = 0, got = 0] = [end[table], counts[table]];
    if (expected !== got)
      throw new TransferError(`expected ${expected} rows of ${table}, got ${got}: nothing was changed`);
  }
}

function parsed(line: string, number: number): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new TransferError(`line ${number}: expected JSON, got something else: nothing was changed`);
}
