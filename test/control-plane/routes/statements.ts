// The statements that a control plane makes, and how many rows of a table the database reads for each. MariaDB and PostgreSQL count what
// they read, in a transaction that is rolled back. SQLite only says which tables it would read from their beginning.

import type { FastifyInstance } from "fastify";
import { CompiledQuery, sql, type Transaction } from "kysely";
import type { Database, Tables } from "../../../control-plane/src/storage/tables.ts";
import { testDatabaseKind } from "../../fixtures/servers/test-database.ts";

/** Keeps the last statement of each text. */
export class Statements {
  readonly #byText = new Map<string, CompiledQuery>();
  #isOver = false;

  constructor({ storageObserver }: FastifyInstance) {
    storageObserver.add({
      statement: ({ query, error }) => {
        if (!this.#isOver && error === undefined) this.#byText.set(shortened(query.sql), query);
      },
      transaction: () => () => undefined,
      waited: () => undefined,
      failed: () => undefined,
    });
  }

  /** Those that look for rows: an insert does not. */
  end(): CompiledQuery[] {
    this.#isOver = true;
    return [...this.#byText.values()].filter(({ sql }) => /^\s*(select|update|delete)\b/i.test(sql));
  }
}

/** Lists of values have as many places as somebody asked for. */
function shortened(sql: string): string {
  return sql.replaceAll(/(\$\d+|\?)(, (\$\d+|\?))+/g, "$1, …");
}

/** SQLite has none, as everywhere else. */
export async function renewStatistics(database: Database): Promise<void> {
  if (testDatabaseKind === undefined) return;
  const tables = (await database.introspection.getTables()).map(({ name }) => `\`${name}\``);
  await sql.raw(testDatabaseKind === "mariadb" ? `analyze table ${tables.join(", ")}` : "analyze").execute(database);
}

class RolledBack extends Error {}

/** @returns by table, how many rows a statement reads; with SQLite infinitely many if it may begin with the first row of the table */
export async function rowsReadBy(
  database: Database,
  { sql: text, parameters }: CompiledQuery,
): Promise<[string, number][]> {
  const explain = { mariadb: "analyze format=json", postgres: "explain (analyze, timing off, format json)" };
  const prefix = testDatabaseKind === undefined ? "explain query plan" : explain[testDatabaseKind];
  let rows: readonly Record<string, unknown>[] = [];
  try {
    await database.transaction().execute(async (transaction: Transaction<Tables>) => {
      ({ rows } = await transaction.executeQuery<Record<string, unknown>>(
        CompiledQuery.raw(`${prefix} ${text}`, [...parameters]),
      ));
      throw new RolledBack();
    });
  } catch (error) {
    if (!(error instanceof RolledBack)) throw error;
  }
  if (testDatabaseKind === undefined) {
    // In the order of an index, a page is read from where it begins.
    const isPage = (detail: string) => /USING (COVERING )?INDEX/.test(detail) && /\blimit\b/.test(text);
    const details = rows.map(({ detail }) => String(detail));
    const nameIn = (detail: string) => detail.split(" ")[1] as string;
    // The outer statement does not read again the rows that an inner one has read.
    const inner = details.filter((detail) => /^(CO-ROUTINE|MATERIALIZE) /.test(detail)).map(nameIn);
    return details
      .filter((detail) => detail.startsWith("SCAN ") && !isPage(detail) && !inner.includes(nameIn(detail)))
      .map((detail) => [nameIn(detail), Number.POSITIVE_INFINITY]);
  }
  const [plan] = rows.map((row) => Object.values(row)[0]);
  if (testDatabaseKind === "mariadb") {
    // It writes JSON with conditions in it, whose quotation marks it does not escape.
    const ofTable = /"table_name": "(\w+)".*?"r_loops": (\d+).*?"r_rows": ([\d.]+|null)/gs;
    return [...String(plan).matchAll(ofTable)].map(([, table = "", loops, read]) => [
      table,
      Number(loops) * (Number(read) || 0),
    ]);
  }
  const read: [string, number][] = [];
  collect(plan, read);
  return read;
}

/** Looks through PostgreSQL's plan for what was read of tables. */
function collect(node: unknown, read: [string, number][]): void {
  if (typeof node !== "object" || node === null) return;
  const fields = node as Record<string, unknown>;
  const of = (name: string) => Number(fields[name] ?? 0);
  if ("Relation Name" in node) {
    const dropped = of("Rows Removed by Filter") + of("Rows Removed by Index Recheck");
    read.push([String(fields["Relation Name"]), (of("Actual Rows") + dropped) * of("Actual Loops")]);
  }
  for (const value of Object.values(node)) collect(value, read);
}
