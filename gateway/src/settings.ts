// The settings from the environment. They are read once in init_by_lua, where nginx is still root. nginx passes on only the
// variables that nginx.conf names with "env". An invalid value stops the start; it is never replaced by a default.

import { type Deployment, parseDeployment } from "../../limiter/src/protocol/redis-url.ts";
import { unknownSettings } from "../../limiter/src/settings/setting-names.ts";
import { readFile } from "./runtime/files.ts";
import { environmentNames } from "./runtime/system-calls.ts";

export type HeaderStyle = "ietf" | "legacy" | "both" | "none";

export interface Settings {
  readonly gatewayId: string;
  /** The directory of the last good snapshot. */
  readonly gatewayDir: string;
  /** Whether SLUICE_GATEWAY_DIR names the directory; otherwise it is nginx's prefix. */
  readonly gatewayDirNamed: boolean;
  /**
   * ws:// or wss:// addresses of the control planes' push route, at least one, in the order in which this gateway tries them. Each
   * gateway has its own order: a fleet spreads over its control planes, and so do the gateways of one that is gone.
   */
  readonly pushUrls: readonly string[];
  /** Whether the operator has set SLUICE_CONTROL_URL. */
  readonly controlUrlGiven: boolean;
  /** The token that the control plane expects. Undefined: the operator has set none. */
  readonly gatewayToken: string | undefined;
  /** Whether the gateway reports itself as unhealthy until it has policies. */
  readonly requireSnapshot: boolean;
  readonly headers: HeaderStyle;
  /** A client that sends this secret learns how its request was decided. Undefined: this is off. */
  readonly debugSecret: string | undefined;
  /** How many requests may wait in a worker at the same time, over all policies. */
  readonly maxWaiting: number;
  /** How many requests of the check API may be under way in a worker at the same time, without those that wait in line. */
  readonly maxChecks: number;
  readonly redis: RedisSettings | undefined;
  /** A sentence for each variable that begins with SLUICE_ and that no part reads. */
  readonly unknown: readonly string[];
}

export interface RedisSettings {
  readonly deployment: Deployment;
  /** How long Redis may be silent before it counts as away and the node decides alone. */
  readonly deadlineMs: number;
  /** Undefined: Redis decides as long as it answers, however slowly. */
  readonly overload: OverloadSettings | undefined;
}

/** Above which of these a worker decides by its share by choice. Infinity: the operator has not set it. */
export interface OverloadSettings {
  /** The 99th percentile of the time that decisions by Redis take. */
  readonly redisP99Seconds: number;
  /** The number of requests of one worker that wait for Redis. */
  readonly queue: number;
}

/** Undefined for an empty value: `SLUICE_REDIS_URL= npm start` means no Redis. */
function environment(name: string): string | undefined {
  const value = os.getenv(name);
  return value === "" ? undefined : value;
}

export function readSettings(): Settings {
  const namedDir = environment("SLUICE_GATEWAY_DIR");
  const gatewayDir = namedDir ?? ngx.config.prefix();
  const id = gatewayId(environment("SLUICE_GATEWAY_ID"), gatewayDir);
  return {
    gatewayId: id,
    gatewayDir: gatewayDir.endsWith("/") ? gatewayDir : `${gatewayDir}/`,
    gatewayDirNamed: namedDir !== undefined,
    pushUrls: inOwnOrder(id, pushUrls(environment("SLUICE_CONTROL_URL") ?? "http://127.0.0.1:8081")),
    controlUrlGiven: environment("SLUICE_CONTROL_URL") !== undefined,
    gatewayToken: gatewayToken(environment("SLUICE_GATEWAY_TOKEN"), environment("SLUICE_GATEWAY_TOKEN_FILE")),
    requireSnapshot: yesOrNo("SLUICE_REQUIRE_SNAPSHOT", environment("SLUICE_REQUIRE_SNAPSHOT")),
    headers: headerStyle(environment("SLUICE_HEADERS") ?? "both"),
    debugSecret: debugSecret(environment("SLUICE_DEBUG_SECRET")),
    maxWaiting: wholeUpToMillion("SLUICE_MAX_WAITING", environment("SLUICE_MAX_WAITING") ?? "10000"),
    maxChecks: wholeUpToMillion("SLUICE_MAX_CHECKS", environment("SLUICE_MAX_CHECKS") ?? "2000"),
    redis: redisSettings(
      environment("SLUICE_REDIS_URL"),
      redisDeadlineMs(environment("SLUICE_REDIS_DEADLINE_MS") ?? "200"),
      overload(environment("SLUICE_OVERLOAD_REDIS_P99_MS"), environment("SLUICE_OVERLOAD_QUEUE")),
    ),
    unknown: unknownSettings(environmentNames()),
  };
}

function refuse(name: string, expected: string, got: string): never {
  return error(`sluice: ${name}: expected ${expected}, got "${got}"`, 0);
}

/**
 * nginx's master reads the file as root: its workers, which handle untrusted requests, do not need access to it.
 *
 * @param path is ignored if there is a token
 */
function gatewayToken(token: string | undefined, path: string | undefined): string | undefined {
  if (token !== undefined) {
    if (isToken(token)) return token;
    // The value is a secret, so the message does not repeat it.
    return refuse("SLUICE_GATEWAY_TOKEN", "printable characters without spaces", "something else");
  }
  if (path === undefined) return undefined;
  const [text, failure] = readFile(path);
  const [written] = string.match(text ?? "", "^%s*(.-)%s*$");
  if (written !== undefined && isToken(written)) return written;
  const got = failure ?? `${path}: ${written === "" ? "an empty file" : "a file with something else in it"}`;
  return refuse("SLUICE_GATEWAY_TOKEN_FILE", "a file that holds the gateways' token, and that nginx can read", got);
}

function isToken(text: string): boolean {
  return string.match(text, "^[!-~]+$")[0] !== undefined;
}

function yesOrNo(name: string, text: string | undefined): boolean {
  if (text === undefined || text === "false" || text === "0") return false;
  if (text === "true" || text === "1") return true;
  return refuse(name, "true or false", text);
}

/**
 * Reports a missing token when the operator's log is open. Without a token the gateway runs and limits by the snapshot on its
 * disk.
 */
export function reportMissing({ gatewayToken: token }: Settings): void {
  if (token !== undefined) return;
  ngx.log(
    ngx.ERR,
    "sluice: this gateway has no token, and without one it receives no policies from the control plane: set SLUICE_GATEWAY_TOKEN or ",
    "SLUICE_GATEWAY_TOKEN_FILE in the environment that nginx is started with, which under a service manager is not that ",
    'of your shell, and name it at the top of nginx.conf: "env SLUICE_GATEWAY_TOKEN;" or "env SLUICE_GATEWAY_TOKEN_FILE;"',
  );
}

/** Called when nginx starts or reads its configuration again. */
export function reportUnknown({ unknown }: Settings): void {
  for (const sentence of unknown) ngx.log(ngx.WARN, "sluice: ", sentence);
}

/** The minimum length makes it hard to guess: anyone can try from outside. */
function debugSecret(secret: string | undefined): string | undefined {
  if (secret !== undefined && secret.length < 16) {
    return error(`sluice: SLUICE_DEBUG_SECRET: expected at least 16 characters, got ${secret.length}`, 0);
  }
  return secret;
}

/** Two gateways with the same id would keep displacing each other at the control plane. */
function gatewayId(given: string | undefined, gatewayDir: string): string {
  if (given === undefined) return `${hostName()}-${ngx.md5(gatewayDir).slice(0, 8)}`;
  if (given.length > 64 || string.match(given, "^[%w._-]+$")[0] === undefined) {
    return refuse("SLUICE_GATEWAY_ID", "1 to 64 letters, digits, dots, dashes or underscores", given);
  }
  return given;
}

function hostName(): string {
  const [text] = readFile("/proc/sys/kernel/hostname");
  const [name] = string.match(text ?? "", "^[%w._-]+");
  return name === undefined ? "gateway" : name.slice(0, 50);
}

function headerStyle(text: string): HeaderStyle {
  if (text !== "ietf" && text !== "legacy" && text !== "both" && text !== "none") {
    return refuse("SLUICE_HEADERS", "ietf, legacy, both or none", text);
  }
  return text;
}

/** @param controlUrls one URL, or several separated by commas */
function pushUrls(controlUrls: string): string[] {
  const urls: string[] = [];
  const texts = controlUrls.split(",");
  for (const [index, text] of texts.entries()) {
    const [trimmed] = string.match(text, "^%s*(.-)%s*$");
    const which = texts.length === 1 ? "" : `URL ${index + 1} of ${texts.length} to be `;
    const url = pushUrl(trimmed ?? "", `${which}http://HOST:PORT or https://HOST:PORT`);
    if (!urls.includes(url)) urls.push(url);
  }
  return urls;
}

/** Sorts by a hash of the gateway's id and the URL. */
function inOwnOrder(id: string, urls: string[]): string[] {
  return urls.sort((a, b) => (ngx.md5(`${id} ${a}`) < ngx.md5(`${id} ${b}`) ? -1 : 1));
}

function pushUrl(controlUrl: string, expected: string): string {
  const [scheme, rest] = string.match(controlUrl, "^(https?)://([^/%s@?#]+)/?$");
  if (scheme === undefined || rest === undefined)
    return refuse("SLUICE_CONTROL_URL", expected, withoutSecrets(controlUrl));
  const [host, port] = string.match(rest, "^(.+):(%d+)$");
  const secure = scheme === "https";
  return `${secure ? "wss" : "ws"}://${host ?? rest}:${port ?? (secure ? "443" : "80")}/api/v1/push`;
}

/** A URL may have a password before its @, or behind a user whose @ is missing, and a key in its query. */
function withoutSecrets(url: string): string {
  const maySay = string.match(url, "[@?#]")[0] === undefined && string.match(url, ":%d*[^%d/]")[0] === undefined;
  return maySay ? url : "a URL that may have a password";
}

function redisSettings(
  url: string | undefined,
  deadlineMs: number,
  overloadSettings: OverloadSettings | undefined,
): RedisSettings | undefined {
  if (url === undefined) return undefined;
  const deployment = parseDeployment(url);
  // The value may contain a password, so the message does not repeat it.
  if ("expected" in deployment) return refuse("SLUICE_REDIS_URL", deployment.expected, deployment.got);
  return { deployment, deadlineMs, overload: overloadSettings };
}

/** Read even without a Redis, as the deadline is. */
function overload(p99: string | undefined, queue: string | undefined): OverloadSettings | undefined {
  if (p99 === undefined && queue === undefined) return undefined;
  return {
    redisP99Seconds: p99 === undefined ? Infinity : overloadP99Ms(p99) / 1000,
    queue: queue === undefined ? Infinity : wholeUpToMillion("SLUICE_OVERLOAD_QUEUE", queue),
  };
}

function overloadP99Ms(text: string): number {
  const ms = tonumber(text);
  if (ms === undefined || !(ms >= 1 && ms <= 60000)) {
    return refuse("SLUICE_OVERLOAD_REDIS_P99_MS", "a number from 1 to 60000", text);
  }
  return ms;
}

function wholeUpToMillion(name: string, text: string): number {
  const most = string.match(text, "^%d+$")[0] === undefined ? undefined : tonumber(text);
  if (most === undefined || !(most >= 1 && most <= 1_000_000)) {
    return refuse(name, "a whole number from 1 to 1000000", text);
  }
  return most;
}

/** Read even without a Redis, so that an invalid value is found before Redis is configured. */
function redisDeadlineMs(text: string): number {
  const deadlineMs = tonumber(text);
  if (deadlineMs === undefined || !(deadlineMs >= 1 && deadlineMs <= 60000)) {
    return refuse("SLUICE_REDIS_DEADLINE_MS", "a number from 1 to 60000", text);
  }
  return deadlineMs;
}
