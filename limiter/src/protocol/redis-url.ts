// Parses SLUICE_REDIS_URL, which says where Redis is and how to sign in:
//
//   redis://[user:password@]host[:port][/database]
//   redis+sentinel://[user:password@]host[:port],…/name[/database][?sentinel=user:password]
//   redis+cluster://[user:password@]host[:port],…
//
// The same schemes with rediss use TLS. User and password may be percent-encoded. Messages about an invalid value never repeat
// any of it. This also runs in Node: a text is a sequence of bytes, one per character.

import { emptyTable } from "../basics/table.ts";

export interface Address {
  /** A name, an IPv4 address, or an IPv6 address in brackets. TLS expects a certificate with this name. */
  readonly host: string;
  readonly port: number;
}

/** The role of a server for us. It determines which commands a new connection begins with. */
export type Role = "single" | "primary" | "cluster" | "sentinel";

/** How to connect to the servers of one role. */
export interface Access {
  readonly role: Role;
  readonly tls: boolean;
  /** "": the default user. */
  readonly user: string;
  /** "": without signing in. */
  readonly password: string;
  readonly database: number;
}

export type Deployment =
  | { readonly kind: "single"; readonly access: Access; readonly address: Address }
  | {
      readonly kind: "sentinel";
      readonly access: Access;
      readonly sentinels: readonly Address[];
      readonly sentinelAccess: Access;
      /** The sentinels' name for the primary. */
      readonly name: string;
    }
  | { readonly kind: "cluster"; readonly access: Access; readonly seeds: readonly Address[] };

/** What is wrong with a URL. Neither text repeats any of it. */
export interface UrlProblem {
  readonly expected: string;
  readonly got: string;
}

interface SignIn {
  readonly user: string;
  readonly password: string;
}

export const deploymentShapes =
  "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+sentinel://…HOST[:PORT],…/NAME[/DATABASE] or " +
  "redis+cluster://…HOST[:PORT],…, or these with rediss for TLS";

const schemes = emptyTable<readonly [kind: Deployment["kind"], tls: boolean]>();
schemes["redis"] = ["single", false];
schemes["rediss"] = ["single", true];
schemes["redis+sentinel"] = ["sentinel", false];
schemes["rediss+sentinel"] = ["sentinel", true];
schemes["redis+cluster"] = ["cluster", false];
schemes["rediss+cluster"] = ["cluster", true];

const redisPort = 6379;
const sentinelPort = 26379;
const anonymous: SignIn = { user: "", password: "" };

export function parseDeployment(url: string): Deployment | UrlProblem {
  const schemeEnd = url.indexOf("://");
  const scheme = schemeEnd < 0 ? undefined : schemes[url.slice(0, schemeEnd)];
  if (scheme === undefined) return { expected: deploymentShapes, got: "another scheme" };
  const [kind, tls] = scheme;
  let rest = url.slice(schemeEnd + 3);

  // The last @ is the separator, so that a password need not encode its own.
  const at = lastIndexOf(rest.slice(0, optionsStart(rest)), "@");
  const signIn = at < 0 ? anonymous : parseSignIn(rest.slice(0, at));
  if (signIn === undefined) return { expected: "USER:PASSWORD, percent-encoded, before the @", got: "something else" };
  rest = rest.slice(at + 1);

  let options = "";
  const query = rest.indexOf("?");
  if (query >= 0) {
    options = rest.slice(query + 1);
    rest = rest.slice(0, query);
  }
  const slash = rest.indexOf("/");
  const authority = slash < 0 ? rest : rest.slice(0, slash);
  const path = slash < 0 || slash === rest.length - 1 ? [] : rest.slice(slash + 1).split("/");

  const addresses = parseAddresses(authority, kind === "sentinel" ? sentinelPort : redisPort);
  if (addresses === undefined) return { expected: "HOST[:PORT], ports from 1 to 65535", got: "something else" };
  if (kind === "sentinel") return sentinelDeployment(tls, signIn, addresses, path, options);
  if (options !== "") return { expected: "no ? but with redis+sentinel://", got: "one" };
  if (kind === "single") return singleDeployment(tls, signIn, addresses, path);
  if (path.length > 1 || (path.length === 1 && path[0] !== "0")) {
    return { expected: "no database with redis+cluster://, which has only 0", got: "another path" };
  }
  return { kind, access: { role: "cluster", tls, ...signIn, database: 0 }, seeds: addresses };
}

function singleDeployment(
  tls: boolean,
  signIn: SignIn,
  addresses: readonly Address[],
  path: readonly string[],
): Deployment | UrlProblem {
  const database = parseDatabase(path[0]);
  if (addresses.length !== 1) return { expected: "one HOST with redis://", got: `${addresses.length}` };
  if (database === undefined || path.length > 1) return { expected: "/DATABASE, a number", got: "another path" };
  return {
    kind: "single",
    access: { role: "single", tls, ...signIn, database },
    address: addresses[0] as Address,
  };
}

function sentinelDeployment(
  tls: boolean,
  signIn: SignIn,
  sentinels: readonly Address[],
  path: readonly string[],
  options: string,
): Deployment | UrlProblem {
  const [name, databaseText] = path;
  const database = parseDatabase(databaseText);
  if (name === undefined || !isName(name) || database === undefined || path.length > 2) {
    return { expected: "/NAME[/DATABASE] with redis+sentinel://", got: "another path" };
  }
  const [key, value] = cut(options, "=");
  const own = options === "" ? anonymous : key === "sentinel" ? parseSignIn(value ?? "") : undefined;
  if (own === undefined) return { expected: "?sentinel=USER:PASSWORD, percent-encoded", got: "something else" };
  return {
    kind: "sentinel",
    access: { role: "primary", tls, ...signIn, database },
    sentinels,
    sentinelAccess: { role: "sentinel", tls, ...own, database: 0 },
    name,
  };
}

/** Returns where the sentinels' user and password begin: an @ in them is not the one that ends ours. */
function optionsStart(rest: string): number {
  const start = rest.indexOf("?sentinel=");
  return start < 0 ? rest.length : start;
}

/** @returns undefined without a password: an empty one is more often a typing error than an intention */
function parseSignIn(text: string): SignIn | undefined {
  const [userText, passwordText] = cut(text, ":");
  if (passwordText === undefined || passwordText === "") return undefined;
  const user = decodePercent(userText);
  const password = decodePercent(passwordText);
  return user === undefined || password === undefined ? undefined : { user, password };
}

function parseAddresses(authority: string, defaultPort: number): Address[] | undefined {
  const addresses: Address[] = [];
  for (const text of authority.split(",")) {
    const address = parseAddress(text, defaultPort);
    if (address === undefined) return undefined;
    addresses.push(address);
  }
  return addresses;
}

/** `host`, `host:port`, `[::1]` or `[::1]:port`. */
function parseAddress(text: string, defaultPort: number): Address | undefined {
  const bracket = text.indexOf("]");
  const colon = text.indexOf(":", Math.max(bracket, 0));
  const host = colon < 0 ? text : text.slice(0, colon);
  const port = colon < 0 ? defaultPort : parseNumber(text.slice(colon + 1), 65535);
  if (port === undefined || port === 0) return undefined;
  return isHost(host) ? { host, port } : undefined;
}

/**
 * Returns an address that Redis reported; a bare IPv6 address is put in brackets.
 *
 * @param host as it was reported; "" stands for the server that reported it
 * @param source the server that reported it
 */
export function reportedAddress(host: string, port: number, source: Address): Address {
  if (host === "") return { host: source.host, port };
  return { host: host.includes(":") ? `[${host}]` : host, port };
}

/**
 * Returns the name of a connection pool. It contains everything by which connections differ, so that pools mix none up. The
 * password is left out: it belongs to the role and does not change while a worker lives. The user comes last, because only it can
 * contain a colon outside of brackets.
 */
export function poolName({ role, tls, user, database }: Access, { host, port }: Address): string {
  return `sluice:${role}:${tls ? "tls" : "plain"}:${database}:${host}:${port}:${user}`;
}

function isHost(host: string): boolean {
  if (host.startsWith("[")) return host.endsWith("]") && host.length > 2 && consistsOf(host.slice(1, -1), ":.%");
  return host !== "" && consistsOf(host, "-._");
}

function isName(name: string): boolean {
  return name !== "" && consistsOf(name, "-._");
}

/** Returns whether the text has only letters, digits and these other characters. */
function consistsOf(text: string, others: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const digit = code >= 48 && code <= 57;
    const letter = (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
    if (!digit && !letter && !others.includes(text.charAt(i))) return false;
  }
  return true;
}

function parseDatabase(text: string | undefined): number | undefined {
  return text === undefined ? 0 : parseNumber(text, 65535);
}

function parseNumber(text: string, most: number): number | undefined {
  if (text === "" || text.length > 5) return undefined;
  let number = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return undefined;
    number = number * 10 + digit;
  }
  return number <= most ? number : undefined;
}

function lastIndexOf(text: string, separator: string): number {
  const parts = text.split(separator);
  return parts.length === 1 ? -1 : text.length - (parts[parts.length - 1] as string).length - separator.length;
}

function cut(text: string, separator: string): readonly [before: string, after: string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** @returns undefined where a % is not followed by two hexadecimal digits */
function decodePercent(text: string): string | undefined {
  const [first, ...escapes] = text.split("%");
  let decoded = first as string;
  for (const escaped of escapes) {
    const byte = hexDigit(escaped, 0) * 16 + hexDigit(escaped, 1);
    if (byte < 0) return undefined;
    decoded += String.fromCharCode(byte) + escaped.slice(2);
  }
  return decoded;
}

/** @returns a number far below 0 if there is no hexadecimal digit */
function hexDigit(text: string, at: number): number {
  const digit = at < text.length ? "0123456789abcdef".indexOf(text.charAt(at).toLowerCase()) : -1;
  return digit < 0 ? -1000 : digit;
}
