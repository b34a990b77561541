// Reads and checks all SLUICE_ variables once, at the start. A bad one is refused with its name, what was expected and what
// came. An empty variable counts as not set.
import { existsSync } from "node:fs";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { unknownSettings } from "../limiter/src/settings/setting-names.ts";
import { SetupError, say } from "./step.mjs";

export const projectDir = resolve(dirname(fileURLToPath(import.meta.url)), "..");

/** `gateway`: requests pass through to an upstream. `service`: only the check API is answered. */
export type Role = "gateway" | "service";

/** Where the check API is answered by TLS. */
export interface CheckTls {
  readonly host: string;
  readonly port: number;
  /** Paths of PEM files. */
  readonly certificate: string;
  readonly key: string;
}

export interface Settings {
  readonly role: Role;
  /** The path of a unix socket at which the check API is answered as well. */
  readonly checkSocket: string | undefined;
  readonly checkTls: CheckTls | undefined;
  readonly gatewayHost: string;
  readonly gatewayPort: number;
  readonly gatewayPrivateHost: string;
  readonly gatewayPrivatePort: number;
  readonly controlHost: string;
  readonly controlPort: number;
  readonly upstreamHost: string;
  readonly upstreamPort: number;
  readonly dataDir: string;
  /** This gateway's own files: rendered nginx.conf, pid, error log, last good snapshot. */
  readonly gatewayDir: string;
  readonly gatewayId: string;
  /** `auto`, or the number of nginx worker processes. */
  readonly workers: string;
  /** How long a gateway that must stop continues to serve the requests that it has. */
  readonly drainSeconds: number;
  /** Undefined means the demo upstream. */
  readonly upstream: string | undefined;
  /** One URL, or several separated by commas. */
  readonly controlUrl: string;
  readonly redisUrl: string | undefined;
  readonly gatewayToken: string | undefined;
  readonly gatewayTokenFile: string;
  /** Whether SLUICE_GATEWAY_TOKEN_FILE names the file. Otherwise it is the one in the data dir. */
  readonly gatewayTokenFileNamed: boolean;
  /** An nginx or OpenResty binary to use instead of the one that would be found. */
  readonly nginx: string | undefined;
}

/** @throws SetupError with one line for every refused variable */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const problems: string[] = [];
  /** @param describe says what is wrong with a text that is refused. By default it is the whole text. */
  const read = <T>(
    name: string,
    fallback: T,
    expected: string,
    parse: (text: string) => T | undefined,
    describe = (text: string) => `"${text}"`,
  ): T => {
    const text = env[name];
    if (text === undefined || text === "") return fallback;
    const value = parse(text);
    if (value !== undefined) return value;
    problems.push(`${name}: expected ${expected}, got ${secretNames.has(name) ? "something else" : describe(text)}`);
    return fallback;
  };
  const port = (name: string, fallback: number) => read(name, fallback, "a port number 1…65535", parsePort);
  const path = (name: string) =>
    read<string | undefined>(name, undefined, "a path without quotes, \\, $, ; or braces", parsePathInNginx);
  const host = (name: string) =>
    read(name, "127.0.0.1", "an IP address to listen on, such as 127.0.0.1 or 0.0.0.0", (text) =>
      isIP(text) === 0 ? undefined : text,
    );

  const gatewayPort = port("SLUICE_GATEWAY_PORT", 8080);
  const controlPort = port("SLUICE_CONTROL_PORT", 8081);
  const dataDir = read("SLUICE_DATA_DIR", join(projectDir, ".sluice"), "a path", (text) => resolve(text));
  const gatewayPrivatePort = port("SLUICE_GATEWAY_PRIVATE_PORT", 8079);
  const tokenFile = read<string | undefined>("SLUICE_GATEWAY_TOKEN_FILE", undefined, "a path", (text) => resolve(text));
  const role = read<Role>("SLUICE_ROLE", "gateway", "gateway or service", (text) =>
    text === "gateway" || text === "service" ? text : undefined,
  );
  const ownName = role === "service" ? `service-${gatewayPrivatePort}` : `gateway-${gatewayPort}`;
  const gatewayDir = join(dataDir, ownName);
  const settings: Settings = {
    role,
    checkSocket: read<string | undefined>(
      "SLUICE_CHECK_SOCKET",
      undefined,
      "a path of at most 107 bytes without quotes, \\, $, ; or braces",
      parseSocketPath,
    ),
    checkTls: readCheckTls({
      host: host("SLUICE_CHECK_TLS_HOST"),
      port: read<number | undefined>("SLUICE_CHECK_TLS_PORT", undefined, "a port number 1…65535", parsePort),
      certificate: path("SLUICE_CHECK_TLS_CERTIFICATE"),
      key: path("SLUICE_CHECK_TLS_KEY"),
      problems,
    }),
    gatewayHost: host("SLUICE_GATEWAY_HOST"),
    gatewayPort,
    gatewayPrivateHost: host("SLUICE_GATEWAY_PRIVATE_HOST"),
    gatewayPrivatePort,
    controlHost: host("SLUICE_CONTROL_HOST"),
    controlPort,
    upstreamHost: host("SLUICE_UPSTREAM_HOST"),
    upstreamPort: port("SLUICE_UPSTREAM_PORT", 8082),
    dataDir,
    gatewayDir,
    gatewayId: read(
      "SLUICE_GATEWAY_ID",
      defaultGatewayId(role === "service" ? gatewayPrivatePort : gatewayPort),
      "1…64 letters, digits, dots, dashes or underscores",
      (text) => (/^[A-Za-z0-9._-]{1,64}$/.test(text) ? text : undefined),
    ),
    workers: read("SLUICE_WORKERS", "auto", "auto or a number 1…1024", parseWorkers),
    drainSeconds: read("SLUICE_DRAIN_SECONDS", 30, "a whole number of seconds from 0 to 3600", (text) =>
      /^[0-9]{1,4}$/.test(text) && Number(text) <= 3600 ? Number(text) : undefined,
    ),
    upstream: read<string | undefined>(
      "SLUICE_UPSTREAM",
      undefined,
      "http://host:port",
      parseOrigin(["http:"]),
      withoutSecrets,
    ),
    controlUrl: read(
      "SLUICE_CONTROL_URL",
      `http://127.0.0.1:${controlPort}`,
      "http://host:port or https://host:port, or several of them separated by commas",
      parseOrigins,
      wrongOrigin,
    ),
    redisUrl: read<string | undefined>(
      "SLUICE_REDIS_URL",
      undefined,
      "redis://, redis+sentinel:// or redis+cluster://, or these with rediss for TLS",
      (text) => (/^rediss?(\+sentinel|\+cluster)?:\/\/[^\s/]+/.test(text) ? text : undefined),
    ),
    gatewayToken: read<string | undefined>("SLUICE_GATEWAY_TOKEN", undefined, tokenShape, parseToken),
    gatewayTokenFile: tokenFile ?? join(dataDir, "gateway-token"),
    gatewayTokenFileNamed: tokenFile !== undefined,
    nginx: read<string | undefined>("SLUICE_NGINX", undefined, "a path", (text) => text),
  };
  // Other parts read these. They are checked here too, so that a mistake is reported before anything starts.
  read<string | undefined>("SLUICE_ADMIN_TOKEN", undefined, tokenShape, parseToken);
  read("SLUICE_HEADERS", "both", "ietf, legacy, both or none", (text) =>
    ["ietf", "legacy", "both", "none"].includes(text) ? text : undefined,
  );
  const upTo60000 = (text: string) => (Number(text) >= 1 && Number(text) <= 60000 ? Number(text) : undefined);
  read("SLUICE_REDIS_DEADLINE_MS", 200, "a number from 1 to 60000", upTo60000);
  read("SLUICE_OVERLOAD_REDIS_P99_MS", undefined, "a number from 1 to 60000", upTo60000);
  const wholeUpToMillion = (text: string) =>
    /^[0-9]+$/.test(text) && Number(text) >= 1 && Number(text) <= 1_000_000 ? Number(text) : undefined;
  read("SLUICE_MAX_WAITING", 10_000, "a whole number from 1 to 1000000", wholeUpToMillion);
  read("SLUICE_MAX_CHECKS", 2_000, "a whole number from 1 to 1000000", wholeUpToMillion);
  read("SLUICE_OVERLOAD_QUEUE", undefined, "a whole number from 1 to 1000000", wholeUpToMillion);
  read<string | undefined>("SLUICE_DEBUG_SECRET", undefined, "at least 16 characters", (text) =>
    Buffer.byteLength(text) >= 16 ? text : undefined,
  );
  read("SLUICE_REQUIRE_SNAPSHOT", "false", "true or false", (text) =>
    ["true", "false", "1", "0"].includes(text) ? text : undefined,
  );
  if (problems.length > 0) throw new SetupError(problems.join("\nsluice: "));
  return Object.freeze(settings);
}

/** Like `readSettings`, but also warns of each unknown SLUICE_ variable. For programs that an operator starts. */
export function readSettingsAloud(env: NodeJS.ProcessEnv): Settings {
  const names = Object.keys(env).filter((name) => env[name] !== "");
  for (const line of unknownSettings(names)) say(`warning: ${line}`);
  return readSettings(env);
}

/** A service answers by TLS if it has a port, and then needs a certificate and its key. */
function readCheckTls(given: {
  readonly host: string;
  readonly port: number | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  readonly problems: string[];
}): CheckTls | undefined {
  const { host, port, certificate, key, problems } = given;
  if (port === undefined) return undefined;
  const files = { SLUICE_CHECK_TLS_CERTIFICATE: certificate, SLUICE_CHECK_TLS_KEY: key };
  for (const [name, file] of Object.entries(files)) {
    const expected = "a PEM file, because SLUICE_CHECK_TLS_PORT is set";
    if (file === undefined) problems.push(`${name}: expected ${expected}, got nothing`);
    else if (!existsSync(file)) problems.push(`${name}: expected ${expected}, got "${file}", which does not exist`);
  }
  return { host, port, certificate: certificate ?? "", key: key ?? "" };
}

/** nginx.conf holds the path in double quotes. */
function parsePathInNginx(text: string): string | undefined {
  const path = resolve(text);
  return /["'\\$;{}\n]/.test(path) ? undefined : path;
}

/** The kernel takes paths of 107 bytes. */
function parseSocketPath(text: string): string | undefined {
  const path = parsePathInNginx(text);
  return path === undefined || Buffer.byteLength(path) > 107 ? undefined : path;
}

const secretNames = new Set(["SLUICE_ADMIN_TOKEN", "SLUICE_DEBUG_SECRET", "SLUICE_GATEWAY_TOKEN", "SLUICE_REDIS_URL"]);
const tokenShape = "printable characters without spaces";

function parsePort(text: string): number | undefined {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65535 ? port : undefined;
}

function parseWorkers(text: string): string | undefined {
  if (text === "auto") return text;
  return /^[1-9][0-9]{0,3}$/.test(text) && Number(text) <= 1024 ? text : undefined;
}

function parseToken(text: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
}

function parseOrigin(protocols: readonly string[]): (text: string) => string | undefined {
  return (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || !protocols.includes(url.protocol) || url.hostname === "") return undefined;
    if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") return undefined;
    return url.pathname === "/" ? url.origin : undefined;
  };
}

const parseControlOrigin = parseOrigin(["http:", "https:"]);

/** @returns the origins of all URLs, separated by commas; undefined if one of them is wrong */
function parseOrigins(text: string): string | undefined {
  const origins = text.split(",").map((url) => parseControlOrigin(url.trim()));
  return origins.includes(undefined) ? undefined : [...new Set(origins)].join(",");
}

/** Names the first URL that is wrong. */
function wrongOrigin(text: string): string {
  const urls = text.split(",").map((url) => url.trim());
  const at = urls.findIndex((url) => parseControlOrigin(url) === undefined);
  // The comma may be a part of a password.
  if (text.includes("@")) return withoutSecrets(text);
  const wrong = withoutSecrets(urls[at] ?? "");
  return urls.length === 1 ? wrong : `${wrong} as URL ${at + 1} of ${urls.length}`;
}

/** A URL may have a password before its @, or behind a user whose @ is missing, and a key in its query. */
function withoutSecrets(url: string): string {
  return /[@?#]|:\d*[^\d/]/.test(url) ? "a URL that may have a password" : `"${url}"`;
}

function defaultGatewayId(port: number): string {
  return `${hostname()
    .replace(/[^A-Za-z0-9._-]/g, "-")
    .slice(0, 58)}-${port}`;
}
