// Reads the environment variables once, checks them and freezes the result. A bad value stops the start: if the limiter ran
// with a guess instead of the operator's value, the mistake would be found too late.

import { resolve } from "node:path";
import { parseCidr } from "@sluice/limiter/key/cidr.ts";
import type { TotalBounds } from "./bounds/bounds.ts";
import { type Allowance, allowanceRule, parseAllowance } from "./limits/allowance.ts";
import { parseRedisUrl, type RedisDeployment } from "./redis/redis-url.ts";
import { type GroupMapping, parseGroupMapping } from "./rights/group-rights.ts";
import {
  databaseUrls,
  parseDatabaseUrl,
  type ServerConfiguration,
  type SqliteConfiguration,
} from "./storage/engines/database-url.ts";
import { samplers, type TracingOptions } from "./tracing-options.ts";

export interface HistoryRetention {
  /** Older entries are deleted, except for the newest `keptEntries` of all apps. */
  readonly days: number;
  /** The bound for each app on the size of its entries, including the documents before and after. */
  readonly bytesOfApp: number;
}

export interface Configuration {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly database: DatabaseConfiguration;
  /** Without Redis, policies of cluster scope are refused. */
  readonly redis: RedisDeployment | undefined;
  readonly adminToken: string | undefined;
  readonly gatewayToken: string | undefined;
  readonly logLevel: LogLevel;
  readonly totalBounds: TotalBounds;
  readonly retention: Retention;
  readonly sessions: SessionLimits;
  /** The origin at which browsers see the control plane, like `https://sluice.example.com`; undefined: not set. */
  readonly publicOrigin: string | undefined;
  /** Undefined: people sign in by tokens alone. */
  readonly openId: OpenIdConfiguration | undefined;
  readonly requestAllowances: RequestAllowances;
  /** Networks of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** How long the control plane still answers, and is not ready, when it is to stop. */
  readonly stopDelayMs: number;
  /** Undefined: no traces. */
  readonly tracing: TracingOptions | undefined;
}

/** How long people stay signed in. */
export interface SessionLimits {
  readonly lastMs: number;
  /** How long a session lasts that is not used. */
  readonly idleMs: number;
}

/** The provider by which people sign in. */
export interface OpenIdConfiguration {
  /** The issuer's identifier, exactly as its tokens have it. */
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scopes: string;
  /** The claim that has the names of the person's groups. */
  readonly groupsClaim: string;
  readonly groups: GroupMapping;
  /** As registered at the provider. */
  readonly redirectUri: string;
}

/** How many requests the control plane accepts. */
export interface RequestAllowances {
  readonly perAddress: Allowance | "off";
  /** Also for each session. */
  readonly perToken: Allowance | "off";
  /** For each address. */
  readonly failedSignIns: Allowance | "off";
}

/** How long the history and the audit entries are kept. */
export interface Retention {
  readonly history: HistoryRetention;
  readonly auditDays: number;
}

export type DatabaseConfiguration = (SqliteConfiguration | ServerConfiguration) & {
  /** The environment variable that determines where the database is, for error messages. */
  readonly variable: string;
};

const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

export const minTokenLength = 16;

/** A value that cannot be used. The message is for the operator and never contains a secret. */
export class ConfigurationError extends Error {
  constructor(variable: string, expected: string, got: string) {
    super(`${variable}: expected ${expected}, got ${got}`);
    this.name = "ConfigurationError";
  }
}

/** @throws ConfigurationError with the variable, what was expected and what came */
export function readConfiguration(environment: NodeJS.ProcessEnv): Configuration {
  const dataDir = resolve(read(environment, "SLUICE_DATA_DIR") ?? ".sluice");
  const adminToken = readToken(environment, "SLUICE_ADMIN_TOKEN");
  const gatewayToken = readToken(environment, "SLUICE_GATEWAY_TOKEN");
  if (adminToken !== undefined && adminToken === gatewayToken) {
    throw new ConfigurationError("SLUICE_GATEWAY_TOKEN", "another token than SLUICE_ADMIN_TOKEN", "the same");
  }
  const publicOrigin = readPublicOrigin(environment);
  return Object.freeze({
    host: read(environment, "SLUICE_CONTROL_HOST") ?? "127.0.0.1",
    port: readPort(environment, "SLUICE_CONTROL_PORT", 8081),
    dataDir,
    database: Object.freeze(readDatabase(environment, dataDir)),
    redis: readRedis(environment),
    adminToken,
    gatewayToken,
    logLevel: readLogLevel(environment),
    totalBounds: Object.freeze({
      policies: readWhole(environment, "SLUICE_MAX_POLICIES", 20_000, 1, 1_000_000),
      steps: readWhole(environment, "SLUICE_MAX_EXPRESSION_STEPS", 300, 0, 1_000_000),
      snapshotBytes: readWhole(environment, "SLUICE_MAX_SNAPSHOT_BYTES", 14_680_064, 65_536, 67_108_864),
    }),
    retention: Object.freeze({
      history: Object.freeze({
        days: readWhole(environment, "SLUICE_HISTORY_DAYS", 90, 1, 36_500),
        bytesOfApp: readWhole(environment, "SLUICE_HISTORY_BYTES", 67_108_864, 0, Number.MAX_SAFE_INTEGER),
      }),
      auditDays: readWhole(environment, "SLUICE_AUDIT_DAYS", 365, 1, 36_500),
    }),
    sessions: Object.freeze({
      lastMs: readWhole(environment, "SLUICE_SESSION_HOURS", 12, 1, 720) * 3_600_000,
      idleMs: readWhole(environment, "SLUICE_SESSION_IDLE_MINUTES", 60, 5, 43_200) * 60_000,
    }),
    publicOrigin,
    openId: readOpenId(environment, publicOrigin),
    requestAllowances: Object.freeze({
      perAddress: readAllowance(environment, "SLUICE_API_RATE_PER_ADDRESS", "2000:20000"),
      perToken: readAllowance(environment, "SLUICE_API_RATE", "500:5000"),
      failedSignIns: readAllowance(environment, "SLUICE_FAILED_SIGN_IN_RATE", "1:60"),
    }),
    stopDelayMs: 1_000 * readWhole(environment, "SLUICE_STOP_DELAY_SECONDS", 0, 0, 600),
    tracing: readTracing(environment),
    trustedProxies: Object.freeze(readNetworks(environment, "SLUICE_TRUSTED_PROXIES")),
  });
}

/** Reads OpenTelemetry's own variables; its exporter reads those about the connection. */
function readTracing(environment: NodeJS.ProcessEnv): TracingOptions | undefined {
  const endpoint =
    read(environment, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ?? read(environment, "OTEL_EXPORTER_OTLP_ENDPOINT");
  const isOff =
    read(environment, "OTEL_SDK_DISABLED") === "true" || read(environment, "OTEL_TRACES_EXPORTER") === "none";
  if (endpoint === undefined || isOff) return undefined;
  for (const variable of ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]) {
    const protocol = read(environment, variable);
    if (protocol !== undefined && !protocol.startsWith("http/")) {
      throw new ConfigurationError(variable, "http/json (collectors take it at port 4318)", JSON.stringify(protocol));
    }
  }
  const sampler = read(environment, "OTEL_TRACES_SAMPLER") ?? "parentbased_always_on";
  const known = samplers.find((name) => name === sampler);
  if (known === undefined) {
    throw new ConfigurationError("OTEL_TRACES_SAMPLER", `one of ${samplers.join(", ")}`, JSON.stringify(sampler));
  }
  const ratio = Number(read(environment, "OTEL_TRACES_SAMPLER_ARG") ?? "1");
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new ConfigurationError(
      "OTEL_TRACES_SAMPLER_ARG",
      "a number from 0 to 1",
      JSON.stringify(environment["OTEL_TRACES_SAMPLER_ARG"]),
    );
  }
  const sendEveryMs = readWhole(environment, "OTEL_BSP_SCHEDULE_DELAY", 5_000, 1, 3_600_000);
  return Object.freeze({ sampler: known, ratio, sendEveryMs });
}

/** Treats an empty variable as unset: compose files and shells write an unset variable as an empty one. */
function read(environment: NodeJS.ProcessEnv, variable: string): string | undefined {
  const value = environment[variable];
  return value === "" ? undefined : value;
}

function readPort(environment: NodeJS.ProcessEnv, variable: string, fallback: number): number {
  const text = read(environment, variable);
  if (text === undefined) return fallback;
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(port >= 0 && port <= 65535)) {
    throw new ConfigurationError(variable, "a port from 0 to 65535 (0: any free one)", JSON.stringify(text));
  }
  return port;
}

function readWhole(
  environment: NodeJS.ProcessEnv,
  variable: string,
  fallback: number,
  least: number,
  most: number,
): number {
  const text = read(environment, variable);
  if (text === undefined) return fallback;
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most)) {
    throw new ConfigurationError(variable, `a whole number from ${least} to ${most}`, JSON.stringify(text));
  }
  return value;
}

function readAllowance(environment: NodeJS.ProcessEnv, variable: string, fallback: string): Allowance | "off" {
  const text = read(environment, variable) ?? fallback;
  const allowance = parseAllowance(text);
  if (allowance === undefined) throw new ConfigurationError(variable, allowanceRule, JSON.stringify(text));
  return allowance;
}

function readNetworks(environment: NodeJS.ProcessEnv, variable: string): string[] {
  const texts = (read(environment, variable) ?? "").split(",").map((text) => text.trim());
  const networks = texts.filter((text) => text !== "");
  // With all addresses, every client could write its own.
  const wrong = networks.find((text) => parseCidr(text) === undefined || text.endsWith("/0"));
  if (wrong !== undefined) {
    const expected =
      'addresses and networks, separated by commas, like "192.0.2.7, 10.0.0.0/8, 2001:db8::/32", and not all addresses';
    throw new ConfigurationError(variable, expected, JSON.stringify(wrong));
  }
  return networks;
}

function readToken(environment: NodeJS.ProcessEnv, variable: string): string | undefined {
  const token = read(environment, variable);
  if (token === undefined) return undefined;
  if (token.length < minTokenLength) {
    throw new ConfigurationError(
      variable,
      `a token of at least ${minTokenLength} characters`,
      `${token.length} characters`,
    );
  }
  // Other characters cannot travel in an Authorization header: the operator would be locked out without an explanation.
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new ConfigurationError(variable, "a token of printable ASCII without spaces", "other characters in it");
  }
  return token;
}

function readDatabase(environment: NodeJS.ProcessEnv, dataDir: string): DatabaseConfiguration {
  const variable = "SLUICE_DATABASE_URL";
  const url = read(environment, variable);
  if (url === undefined) return { variable: "SLUICE_DATA_DIR", kind: "sqlite", path: resolve(dataDir, "sluice.db") };
  const connections = readWhole(environment, "SLUICE_DATABASE_CONNECTIONS", 10, 2, 1_000);
  const database = parseDatabaseUrl(url, connections);
  // The error does not repeat the value, because it may contain a password.
  if ("expected" in database) {
    const nothing = database.expected === databaseUrls ? ", or nothing (SQLite in the data directory)" : "";
    throw new ConfigurationError(variable, `${database.expected}${nothing}`, database.got);
  }
  return { variable, ...database };
}

function readRedis(environment: NodeJS.ProcessEnv): RedisDeployment | undefined {
  const variable = "SLUICE_REDIS_URL";
  const url = read(environment, variable);
  if (url === undefined) return undefined;
  const deployment = parseRedisUrl(url);
  // The error does not repeat the value, because it may contain a password.
  if ("expected" in deployment) throw new ConfigurationError(variable, deployment.expected, deployment.got);
  return deployment;
}

function readPublicOrigin(environment: NodeJS.ProcessEnv): string | undefined {
  const variable = "SLUICE_PUBLIC_URL";
  const text = read(environment, variable);
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url !== undefined && /^https?:$/.test(url.protocol) && `${url.origin}/` === url.href;
  if (!isOrigin) {
    const expected = "the URL at which browsers see the control plane, without a path, like https://sluice.example.com";
    throw new ConfigurationError(variable, expected, withoutSecrets(text));
  }
  return url.origin;
}

function readOpenId(environment: NodeJS.ProcessEnv, publicOrigin: string | undefined): OpenIdConfiguration | undefined {
  const issuer = readIssuer(environment);
  if (issuer === undefined) {
    const lonely = ["SLUICE_OIDC_CLIENT_ID", "SLUICE_OIDC_CLIENT_SECRET", "SLUICE_OIDC_GROUPS"].find(
      (variable) => read(environment, variable) !== undefined,
    );
    if (lonely !== undefined) {
      throw new ConfigurationError("SLUICE_OIDC_ISSUER", `the provider's URL, because ${lonely} is set`, "nothing");
    }
    return undefined;
  }
  const needed = (variable: string, expected: string) => {
    const value = read(environment, variable);
    if (value === undefined) {
      throw new ConfigurationError(variable, `${expected}, because SLUICE_OIDC_ISSUER is set`, "nothing");
    }
    return value;
  };
  const clientId = needed("SLUICE_OIDC_CLIENT_ID", "the client's id at the provider");
  const clientSecret = needed("SLUICE_OIDC_CLIENT_SECRET", "the client's secret at the provider");
  const groups = parseGroupMapping(needed("SLUICE_OIDC_GROUPS", "what groups may do, like platform=admin"));
  if ("expected" in groups) throw new ConfigurationError("SLUICE_OIDC_GROUPS", groups.expected, groups.got);
  const scopes = read(environment, "SLUICE_OIDC_SCOPES") ?? "openid profile email";
  if (!scopes.split(" ").includes("openid")) {
    throw new ConfigurationError(
      "SLUICE_OIDC_SCOPES",
      "scopes separated by spaces, openid among them",
      JSON.stringify(scopes),
    );
  }
  if (publicOrigin === undefined) needed("SLUICE_PUBLIC_URL", "the URL at which browsers see the control plane");
  return Object.freeze({
    issuer,
    clientId,
    clientSecret,
    scopes,
    groupsClaim: read(environment, "SLUICE_OIDC_GROUPS_CLAIM") ?? "groups",
    groups,
    redirectUri: `${publicOrigin}/api/v1/session/oidc/callback`,
  });
}

/** Without TLS, somebody on the way could be the provider, so only one on this machine may do without. */
function readIssuer(environment: NodeJS.ProcessEnv): string | undefined {
  const variable = "SLUICE_OIDC_ISSUER";
  const text = read(environment, variable);
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isLocal = ["127.0.0.1", "[::1]", "localhost"].includes(url?.hostname ?? "");
  // Node's fetch refuses a URL with a user or a password, and its message has both.
  const isAsked = url !== undefined && url.username === "" && url.password === "";
  if (isAsked && (url.protocol === "https:" || (url.protocol === "http:" && isLocal))) return text;
  const expected = "the provider's issuer URL with https:// (http:// only for this machine), without user and password";
  throw new ConfigurationError(variable, expected, withoutSecrets(text));
}

/** A URL may have a password before its @, or behind a user whose @ is missing, and a key in its query. */
function withoutSecrets(url: string): string {
  return /[@?#]|:\d*[^\d/]/.test(url) ? "a URL that may have a password" : JSON.stringify(url);
}

function readLogLevel(environment: NodeJS.ProcessEnv): LogLevel {
  const text = read(environment, "SLUICE_LOG_LEVEL") ?? "warn";
  const level = logLevels.find((known) => known === text);
  if (level === undefined) {
    throw new ConfigurationError("SLUICE_LOG_LEVEL", `one of ${logLevels.join(", ")}`, JSON.stringify(text));
  }
  return level;
}
