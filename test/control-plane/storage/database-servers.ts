// The database servers that tests of the storage run against.

import { DatabaseSync } from "node:sqlite";
import { temporaryDir } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer, ServerOptions } from "../../fixtures/servers/database-server.ts";
import { MariadbServer } from "../../fixtures/servers/mariadb-server.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";

type StartServer = (options?: ServerOptions) => Promise<DatabaseServer>;

/** A name, and what starts a server of the kind. */
export const serverKinds: readonly (readonly ["MariaDB" | "PostgreSQL", StartServer])[] = [
  ["MariaDB", (options) => MariadbServer.start(options)],
  ["PostgreSQL", (options) => PostgresServer.start(options)],
];

/** The name of the database in a URL. */
export function nameOf(url: string): string {
  return new URL(url).pathname.slice(1);
}

/** The settings by which control planes share a database. */
export type Place = Readonly<Record<"SLUICE_DATA_DIR" | "SLUICE_DATABASE_URL", string>>;

/** @param server undefined: SQLite */
export async function newPlace(server: DatabaseServer | undefined): Promise<Place> {
  return { SLUICE_DATA_DIR: await temporaryDir(), SLUICE_DATABASE_URL: (await server?.createDatabase()) ?? "" };
}

/** Returns how many rows a table has, as another program sees it. */
export async function rowsIn(server: DatabaseServer | undefined, place: Place, table: string): Promise<number> {
  const query = `select count(*) as count from ${table}`;
  if (server !== undefined) {
    const [row] = await server.query(query, nameOf(place.SLUICE_DATABASE_URL));
    return Number(row?.["count"]);
  }
  const database = new DatabaseSync(`${place.SLUICE_DATA_DIR}/sluice.db`, { readOnly: true });
  try {
    return Number(database.prepare(query).get()?.["count"]);
  } finally {
    database.close();
  }
}
