// Column types and steps of the schema that differ between databases.
//
// MySQL commits each change of the schema by itself. If the process dies within a migration, the next start runs that migration
// again: so each step does nothing if it was done before.

import {
  type ColumnDefinitionBuilder,
  type CreateTableBuilder,
  type Kysely,
  MysqlAdapter,
  PostgresAdapter,
  type RawBuilder,
  sql,
} from "kysely";
import type { Tables } from "../tables.ts";

type Column = (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder;
/** The foreign keys of all tables, each of which is from an `app` to the apps' names. */
const refersToApps = [
  ["policies", "policies_app"],
  ["bans", "bans_app"],
  ["templates", "templates_app"],
] as const;

/** As SQLite describes a column. */
interface SqliteColumn {
  /** Its place in the row. */
  readonly cid: number;
  readonly name: string;
  readonly type: string;
  readonly notnull: number;
  readonly dflt_value: string | null;
  /** Its place in the primary key, from 1; 0: it is no part of it. */
  readonly pk: number;
}

type TextType = "text" | RawBuilder<unknown>;

export class Schema {
  readonly #database: Kysely<Tables>;
  readonly #isMysql: boolean;
  readonly #isPostgres: boolean;

  constructor(database: Kysely<Tables>) {
    this.#database = database;
    const { adapter } = database.getExecutor();
    this.#isMysql = adapter instanceof MysqlAdapter;
    this.#isPostgres = adapter instanceof PostgresAdapter;
  }

  /** The type of a text of any length. MySQL's own `text` ends at 65,535 bytes. */
  get longText(): TextType {
    return this.#isMysql ? sql`longtext` : "text";
  }

  /**
   * The type of a short text by which rows are found and sorted: by its bytes, as SQLite does, whatever the database's language
   * is.
   */
  name(length: number): RawBuilder<unknown> {
    return this.#isPostgres ? sql`varchar(${sql.lit(length)}) collate "C"` : sql`varchar(${sql.lit(length)})`;
  }

  /** MySQL gives the index of a foreign key the name of the key: an index whose name is the same has another one there. */
  indexBesideKey(name: string): string {
    return this.#isMysql ? `${name}_index` : name;
  }

  async createTable(
    name: keyof Tables,
    build: (table: CreateTableBuilder<string, never>) => CreateTableBuilder<string, string>,
  ): Promise<void> {
    let table = this.#database.schema.createTable(name).ifNotExists();
    if (this.#isMysql) {
      const collation = sql.raw((await this.#collationOfApps()) ?? (await this.#exactCollation()));
      table = table.modifyEnd(sql`engine = InnoDB default charset = utf8mb4 collate = ${collation}`);
    }
    await build(table as CreateTableBuilder<string, never>).execute();
  }

  /**
   * Texts of former tables become exact: of MySQL and MariaDB, they were equal if they differed in spaces at their ends alone. A table that has been
   * changed already stays as it is.
   */
  async makeTextsExact(): Promise<void> {
    if (!this.#isMysql) return;
    const collation = await this.#exactCollation();
    const { rows } = await sql<{ name: string }>`
      select distinct table_name as name from information_schema.columns
      where table_schema = database() and table_name not like 'kysely%' and collation_name <> ${collation}`.execute(
      this.#database,
    );
    // A column cannot be changed before the one that refers to it, nor after it.
    for (const [table, name] of refersToApps) {
      if (rows.length === 0 || !(await this.#hasForeignKey(table, name))) continue;
      await this.#database.schema.alterTable(table).dropConstraint(name).execute();
    }
    for (const { name } of rows) {
      await sql`alter table ${sql.table(name)} convert to character set utf8mb4 collate ${sql.raw(collation)}`.execute(
        this.#database,
      );
    }
    for (const [table, name] of refersToApps) {
      if (await this.#hasForeignKey(table, name)) continue;
      await this.#database.schema.alterTable(table).addForeignKeyConstraint(name, ["app"], "apps", ["name"]).execute();
    }
  }

  /** A table has the collation of those that are there, because foreign keys need that. @returns undefined if there are none */
  async #collationOfApps(): Promise<string | undefined> {
    const { rows } = await sql<{ collation: string }>`
      select collation_name as collation from information_schema.columns
      where table_schema = database() and table_name = 'apps' and column_name = 'name'`.execute(this.#database);
    return rows[0]?.collation;
  }

  /** Compares texts byte by byte, spaces at their ends included. MySQL and MariaDB have other names for it. */
  async #exactCollation(): Promise<string> {
    const { rows } = await sql<{ version: string }>`select version() as version`.execute(this.#database);
    return rows[0]?.version.toLowerCase().includes("mariadb") === true ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin";
  }

  async addColumn(
    table: keyof Tables,
    name: string,
    type: "bigint" | `varchar(${number})` | TextType,
    build: Column = same,
  ): Promise<void> {
    if (this.#isMysql && (await this.#hasColumn(table, name))) return;
    await this.#database.schema.alterTable(table).addColumn(name, type, build).execute();
  }

  /** Whether the column is still to be dropped. Only MySQL may have done a part of a step. */
  async mayDrop(table: keyof Tables, name: string): Promise<boolean> {
    return !this.#isMysql || this.#hasColumn(table, name);
  }

  async dropColumn(table: keyof Tables, name: string): Promise<void> {
    if (!(await this.mayDrop(table, name))) return;
    await this.#database.schema.alterTable(table).dropColumn(name).execute();
  }

  async dropIndex(table: keyof Tables, name: string): Promise<void> {
    if (this.#isMysql && !(await this.#hasIndex(table, name))) return;
    const index = this.#database.schema.dropIndex(name);
    await (this.#isMysql ? index.on(table) : index).execute();
  }

  async createIndex(table: keyof Tables, name: string, columns: readonly string[], unique = false): Promise<void> {
    if (this.#isMysql && (await this.#hasIndex(table, name))) return;
    let index = this.#database.schema
      .createIndex(name)
      .on(table)
      .columns([...columns]);
    if (!this.#isMysql) index = index.ifNotExists();
    await (unique ? index.unique() : index).execute();
  }

  /** An index to find a text of any length, whose beginning is all that MySQL has in it, and whose hash is what PostgreSQL has. */
  async createTextIndex(table: keyof Tables, name: string, column: string): Promise<void> {
    if (this.#isMysql) {
      if (await this.#hasIndex(table, name)) return;
      await sql`create index ${sql.ref(name)} on ${sql.table(table)} (${sql.ref(column)}(100))`.execute(this.#database);
      return;
    }
    const index = this.#database.schema.createIndex(name).on(table).column(column).ifNotExists();
    await (this.#isPostgres ? index.using("hash") : index).execute();
  }

  /**
   * Puts texts of any length behind the other columns of their tables. To read a column, SQLite walks through the pages of all that stands before it in
   * the row; the other databases store large texts elsewhere. A step that adds a column to a table with such a text ends with this.
   */
  async putTextsLast(): Promise<void> {
    if (this.#isMysql || this.#isPostgres) return;
    for (const { name } of await this.#database.introspection.getTables()) {
      const { rows: columns } = await sql<SqliteColumn>`
        select cid, name, type, "notnull", dflt_value, pk from pragma_table_info(${name}) order by lower(type) = 'text', cid`.execute(
        this.#database,
      );
      if (columns.every(({ cid }, i) => cid === i)) continue;
      await this.#makeAnew(name, columns);
    }
  }

  async #makeAnew(table: string, columns: readonly SqliteColumn[]): Promise<void> {
    const { rows: indexes } = await sql<{ statement: string }>`
      select sql as statement from sqlite_master where type = 'index' and tbl_name = ${table} and sql is not null`.execute(
      this.#database,
    );
    const anew = `${table}_anew`;
    const primaryKey = columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
    const parts = [
      ...columns.map(({ name, type, notnull, dflt_value }) => {
        const rest = `${notnull ? " not null" : ""}${dflt_value === null ? "" : ` default ${dflt_value}`}`;
        return sql`${sql.ref(name)} ${sql.raw(type)}${sql.raw(rest)}`;
      }),
      sql`primary key (${namesOf(primaryKey)})`,
      ...refersToApps
        .filter(([name]) => name === table)
        .map(([, name]) => sql`constraint ${sql.ref(name)} foreign key (app) references apps (name)`),
    ];
    await sql`create table ${sql.table(anew)} (${sql.join(parts)})`.execute(this.#database);
    await sql`
      insert into ${sql.table(anew)} (${namesOf(columns)})
      select ${namesOf(columns)} from ${sql.table(table)}`.execute(this.#database);
    await this.#database.schema.dropTable(table).execute();
    await this.#database.schema.alterTable(anew).renameTo(table).execute();
    for (const { statement } of indexes) await sql.raw(statement).execute(this.#database);
  }

  async #hasColumn(table: string, name: string): Promise<boolean> {
    const { rows } = await sql`
      select 1 from information_schema.columns
      where table_schema = database() and table_name = ${table} and column_name = ${name}`.execute(this.#database);
    return rows.length > 0;
  }

  async #hasForeignKey(table: string, name: string): Promise<boolean> {
    const { rows } = await sql`
      select 1 from information_schema.table_constraints
      where table_schema = database() and table_name = ${table} and constraint_name = ${name}`.execute(this.#database);
    return rows.length > 0;
  }

  async #hasIndex(table: string, name: string): Promise<boolean> {
    const { rows } = await sql`
      select 1 from information_schema.statistics
      where table_schema = database() and table_name = ${table} and index_name = ${name}`.execute(this.#database);
    return rows.length > 0;
  }
}

function namesOf(columns: readonly SqliteColumn[]) {
  return sql.join(columns.map(({ name }) => sql.ref(name)));
}

function same(column: ColumnDefinitionBuilder): ColumnDefinitionBuilder {
  return column;
}
