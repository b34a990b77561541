// Parses SLUICE_DATABASE_URL:
//
//   sqlite:/path/to/file
//   postgres://user:password@host[:port]/database[?sslmode=…&sslrootcert=…]      (postgresql:// too)
//   mysql://user:password@host[:port]/database[?sslmode=…&sslrootcert=…]         (mariadb:// too)
//
// User, password and database may be percent-encoded. `host` is a name, an address, or by ?host=/path a directory with
// PostgreSQL's socket, or MySQL's socket. Messages about an invalid value never repeat any of it.

import { resolve } from "node:path";

export interface SqliteConfiguration {
  readonly kind: "sqlite";
  readonly path: string;
}

export interface ServerConfiguration {
  readonly kind: "mysql" | "postgres";
  /** A name, an address without brackets, or the path of a socket. */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** Undefined: without TLS. */
  readonly tls: DatabaseTls | undefined;
  /** The most connections at once. */
  readonly connections: number;
}

export interface DatabaseTls {
  /** Whether the server must show a certificate for its name, by an authority that is trusted. */
  readonly verify: boolean;
  /** The file with the authorities that are trusted; undefined: those that Node trusts. */
  readonly caFile: string | undefined;
}

/** What is wrong with a URL. Neither text repeats any of it. */
export interface UrlProblem {
  readonly expected: string;
  readonly got: string;
}

export const databaseUrls =
  "sqlite:/path/to/file, postgres://USER:PASSWORD@HOST[:PORT]/DATABASE or mysql://USER:PASSWORD@HOST[:PORT]/DATABASE";

const servers: Readonly<Record<string, readonly [kind: ServerConfiguration["kind"], port: number]>> = {
  "postgres:": ["postgres", 5432],
  "postgresql:": ["postgres", 5432],
  "mysql:": ["mysql", 3306],
  "mariadb:": ["mysql", 3306],
};
const options = ["host", "sslmode", "sslrootcert"];
const sslModes = ["disable", "require", "verify-full"];

/** @param connections the size of the pool */
export function parseDatabaseUrl(
  text: string,
  connections: number,
): SqliteConfiguration | ServerConfiguration | UrlProblem {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0].toLowerCase() ?? "";
  if (scheme === "sqlite:") {
    const path = text.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
    return path === "" ? { expected: databaseUrls, got: "no path" } : { kind: "sqlite", path: resolve(path) };
  }
  const server = Object.hasOwn(servers, scheme) ? servers[scheme] : undefined;
  if (server === undefined) {
    return { expected: databaseUrls, got: scheme === "" ? "a text without a scheme" : `${scheme}…` };
  }
  const [kind, usualPort] = server;
  const url = URL.parse(text);
  if (url === null || !text.slice(scheme.length).startsWith("//"))
    return {
      expected: databaseUrls,
      got: "no URL after the scheme (is @, :, / or # in USER or PASSWORD percent-encoded?)",
    };
  const tls = tlsOf(url.searchParams);
  if (tls !== undefined && "expected" in tls) return tls;
  const [user, password, database] = [url.username, url.password, url.pathname.slice(1)].map(decoded);
  if (user === undefined || password === undefined || database === undefined) {
    return { expected: "USER, PASSWORD and DATABASE in UTF-8, percent-encoded", got: "something else" };
  }
  if (user === "") return { expected: "USER before the @", got: "none" };
  if (!/^[^/\0]{1,63}$/.test(database))
    return { expected: "/DATABASE, a name of 1 to 63 characters", got: "another path" };
  const host = url.searchParams.get("host") ?? url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (host === "") return { expected: "HOST after the @", got: "none" };
  const port = url.port === "" ? usualPort : Number(url.port);
  return { kind, host, port, user, password, database, tls, connections };
}

function tlsOf(parameters: URLSearchParams): DatabaseTls | undefined | UrlProblem {
  for (const name of parameters.keys()) {
    if (!options.includes(name))
      return { expected: `no options but ${options.join(", ")} after the "?"`, got: "another one" };
    if (parameters.getAll(name).length > 1) return { expected: `${name} once`, got: "it twice" };
  }
  const caFile = parameters.get("sslrootcert") ?? undefined;
  const mode = parameters.get("sslmode") ?? (caFile === undefined ? "disable" : "verify-full");
  if (!sslModes.includes(mode)) return { expected: `sslmode to be one of ${sslModes.join(", ")}`, got: "another one" };
  if (mode === "disable") return undefined;
  return { verify: mode === "verify-full", caFile };
}

/** @returns undefined if it is not UTF-8 */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
