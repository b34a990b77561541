// The database servers that tests of the storage run against.

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
