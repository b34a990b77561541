// Parses SLUICE_REDIS_URL, which gateways and the control plane read in the same way. docs/cluster.md describes its forms.
//
// Gateways have their own parser (limiter/src/protocol/redis-url.ts), which works on bytes and without regular expressions:
// the two parts do not import each other, and the WHATWG URL does not accept a list of hosts. A test runs both parsers on
// the same URLs.

export interface Address {
  /** An IPv6 address has no brackets. */
  readonly host: string;
  readonly port: number;
}

export interface SignIn {
  /** "" means the default user. */
  readonly user: string;
  /** "" means no sign-in. */
  readonly password: string;
}

interface Common extends SignIn {
  readonly tls: boolean;
  readonly addresses: readonly Address[];
  readonly database: number;
}

export type RedisDeployment = Common &
  (
    | { readonly kind: "single" | "cluster" }
    | { readonly kind: "sentinel"; readonly name: string; readonly sentinel: SignIn }
  );

/** What is wrong with a URL. Neither text repeats any part of it, because it may contain a password. */
export interface UrlProblem {
  readonly expected: string;
  readonly got: string;
}

const shapes =
  "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+sentinel://…HOST[:PORT],…/NAME[/DATABASE] or " +
  "redis+cluster://…HOST[:PORT],…, or these with rediss for TLS";
const anonymous: SignIn = { user: "", password: "" };
/** Our sign-in ends at the last @ before the sentinels' sign-in: so a password may contain an unencoded @. */
const parts = /^(?:((?:(?!\?sentinel=).)*)@)?([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s;

export function parseRedisUrl(url: string): RedisDeployment | UrlProblem {
  const [, tlsLetter, kindText, rest] = /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(.*)$/s.exec(url) ?? [];
  if (rest === undefined) return { expected: shapes, got: "another scheme" };
  const [, signInText, authority = "", pathText = "", options = ""] = parts.exec(rest) ?? [];
  const signIn = signInText === undefined ? anonymous : parseSignIn(signInText);
  if (signIn === undefined) return { expected: "USER:PASSWORD, percent-encoded, before the @", got: "something else" };
  const kind = (kindText ?? "single") as RedisDeployment["kind"];
  const addresses = authority.split(",").map((text) => parseAddress(text, kind === "sentinel" ? 26379 : 6379));
  if (!areAll(addresses)) return { expected: "HOST[:PORT], ports from 1 to 65535", got: "something else" };
  const path = pathText === "" ? [] : pathText.split("/");
  const common = { tls: tlsLetter === "s", ...signIn, addresses };

  if (kind === "sentinel") {
    const [name = "", databaseText] = path;
    const database = parseDatabase(databaseText);
    if (!/^[\w.-]+$/.test(name) || database === undefined || path.length > 2) {
      return { expected: "/NAME[/DATABASE] with redis+sentinel://", got: "another path" };
    }
    const [, sentinelText] = /^sentinel=(.*)$/s.exec(options) ?? [];
    const sentinel = options === "" ? anonymous : parseSignIn(sentinelText ?? "");
    if (sentinel === undefined) return { expected: "?sentinel=USER:PASSWORD, percent-encoded", got: "something else" };
    return { kind, ...common, database, name, sentinel };
  }
  if (options !== "") return { expected: "no ? but with redis+sentinel://", got: "one" };
  if (kind === "cluster") {
    if (path.length > 1 || (path[0] ?? "0") !== "0") {
      return { expected: "no database with redis+cluster://, which has only 0", got: "another path" };
    }
    return { kind, ...common, database: 0 };
  }
  const database = parseDatabase(path[0]);
  if (addresses.length !== 1) return { expected: "one HOST with redis://", got: `${addresses.length}` };
  if (database === undefined || path.length > 1) return { expected: "/DATABASE, a number", got: "another path" };
  return { kind, ...common, database };
}

/** @returns undefined without a password: an empty one is more often a typing error than intended */
function parseSignIn(text: string): SignIn | undefined {
  const [, user, password] = /^([^:]*):(.+)$/s.exec(text) ?? [];
  if (user === undefined || password === undefined) return undefined;
  try {
    return { user: decodeURIComponent(user), password: decodeURIComponent(password) };
  } catch {
    return undefined;
  }
}

/** Parses `host`, `host:port`, `[::1]` or `[::1]:port`. */
function parseAddress(text: string, defaultPort: number): Address | undefined {
  const [, inBrackets, name, portText] = /^(?:\[([\da-z:.%]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const host = inBrackets ?? name;
  const port = portText === undefined ? defaultPort : Number(portText);
  return host === undefined || port < 1 || port > 65535 ? undefined : { host, port };
}

function parseDatabase(text = "0"): number | undefined {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65535 ? Number(text) : undefined;
}

function areAll<Value>(values: readonly (Value | undefined)[]): values is readonly Value[] {
  return !values.includes(undefined);
}
