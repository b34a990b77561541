// What the environment says, read once in init_by_lua, where nginx still is root. It passes on only the variables that
// nginx.conf names with "env". Invalid is refused at start, never replaced by a default.

import { type Deployment, parseDeployment } from "../../limiter/src/protocol/redis-url.ts";
import { readFile } from "./runtime/files.ts";

export type HeaderStyle = "ietf" | "legacy" | "both" | "none";

export interface Settings {
  readonly gatewayId: string;
  /** Where the last good snapshot is kept. */
  readonly gatewayDir: string;
  /** Whether SLUICE_GATEWAY_DIR names it, rather than its being nginx's prefix. */
  readonly gatewayDirNamed: boolean;
  /** ws:// or wss:// address of the control plane's push route. */
  readonly pushUrl: string;
  /** Whether the operator has said where that is. */
  readonly controlUrlGiven: boolean;
  /** What the control plane asks for. Undefined: the operator has given none. */
  readonly gatewayToken: string | undefined;
  /** Whether the gateway calls itself unhealthy until it has policies. */
  readonly requireSnapshot: boolean;
  readonly headers: HeaderStyle;
  /** Who shows it is told how a request was decided. Undefined: nobody is. */
  readonly debugSecret: string | undefined;
  /** How many requests may wait on a worker at once, of all policies together. */
  readonly maxWaiting: number;
  readonly redis: RedisSettings | undefined;
}

export interface RedisSettings {
  readonly deployment: Deployment;
  /** How long Redis may be silent before it counts as away, and the node decides alone. */
  readonly deadlineMs: number;
}

/** Undefined for an empty value: `SLUICE_REDIS_URL= npm start` means without. */
function environment(name: string): string | undefined {
  const value = os.getenv(name);
  return value === "" ? undefined : value;
}

export function readSettings(): Settings {
  const namedDir = environment("SLUICE_GATEWAY_DIR");
  const gatewayDir = namedDir ?? ngx.config.prefix();
  return {
    gatewayId: gatewayId(environment("SLUICE_GATEWAY_ID"), gatewayDir),
    gatewayDir: gatewayDir.endsWith("/") ? gatewayDir : `${gatewayDir}/`,
    gatewayDirNamed: namedDir !== undefined,
    pushUrl: pushUrl(environment("SLUICE_CONTROL_URL") ?? "http://127.0.0.1:8081"),
    controlUrlGiven: environment("SLUICE_CONTROL_URL") !== undefined,
    gatewayToken: gatewayToken(environment("SLUICE_GATEWAY_TOKEN"), environment("SLUICE_GATEWAY_TOKEN_FILE")),
    requireSnapshot: yesOrNo("SLUICE_REQUIRE_SNAPSHOT", environment("SLUICE_REQUIRE_SNAPSHOT")),
    headers: headerStyle(environment("SLUICE_HEADERS") ?? "both"),
    debugSecret: debugSecret(environment("SLUICE_DEBUG_SECRET")),
    maxWaiting: maxWaiting(environment("SLUICE_MAX_WAITING") ?? "10000"),
    redis: redisSettings(
      environment("SLUICE_REDIS_URL"),
      redisDeadlineMs(environment("SLUICE_REDIS_DEADLINE_MS") ?? "200"),
    ),
  };
}

function refuse(name: string, expected: string, got: string): never {
  return error(`sluice: ${name}: expected ${expected}, got "${got}"`, 0);
}

/**
 * nginx's master reads the file, as root: its workers, which read what strangers send, need not be able to.
 *
 * @param path is not looked at where there is a token
 */
function gatewayToken(token: string | undefined, path: string | undefined): string | undefined {
  if (token !== undefined) {
    if (isToken(token)) return token;
    // The value is a secret: it is not repeated.
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

/** Says what is missing, once the log is the operator's: without it the gateway runs, and limits by what it has on its disk. */
export function reportMissing({ gatewayToken: token }: Settings): void {
  if (token !== undefined) return;
  ngx.log(
    ngx.ERR,
    "sluice: this gateway has no token, and without one no control plane gives it policies: set SLUICE_GATEWAY_TOKEN or ",
    "SLUICE_GATEWAY_TOKEN_FILE in the environment that nginx is started with, which a service manager keeps apart from that ",
    'of your shell, and name it at the top of nginx.conf: "env SLUICE_GATEWAY_TOKEN;" or "env SLUICE_GATEWAY_TOKEN_FILE;"',
  );
}

/** Anyone may try one from outside. */
function debugSecret(secret: string | undefined): string | undefined {
  if (secret !== undefined && secret.length < 16) {
    return error(`sluice: SLUICE_DEBUG_SECRET: expected at least 16 characters, got ${secret.length}`, 0);
  }
  return secret;
}

/** Two gateways of one name would throw each other off the control plane. */
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

function pushUrl(controlUrl: string): string {
  const [scheme, rest] = string.match(controlUrl, "^(https?)://([^/]+)/?$");
  if (scheme === undefined || rest === undefined) {
    return refuse("SLUICE_CONTROL_URL", "http://HOST:PORT or https://HOST:PORT", controlUrl);
  }
  const [host, port] = string.match(rest, "^(.+):(%d+)$");
  const secure = scheme === "https";
  return `${secure ? "wss" : "ws"}://${host ?? rest}:${port ?? (secure ? "443" : "80")}/api/v1/push`;
}

function redisSettings(url: string | undefined, deadlineMs: number): RedisSettings | undefined {
  if (url === undefined) return undefined;
  const deployment = parseDeployment(url);
  // The value may hold a password: it is not repeated.
  if ("expected" in deployment) return refuse("SLUICE_REDIS_URL", deployment.expected, deployment.got);
  return { deployment, deadlineMs };
}

function maxWaiting(text: string): number {
  const most = string.match(text, "^%d+$")[0] === undefined ? undefined : tonumber(text);
  if (most === undefined || !(most >= 1 && most <= 1_000_000)) {
    return refuse("SLUICE_MAX_WAITING", "a whole number from 1 to 1000000", text);
  }
  return most;
}

/** Read without a Redis too: what is wrong is found before the Redis is there. */
function redisDeadlineMs(text: string): number {
  const deadlineMs = tonumber(text);
  if (deadlineMs === undefined || !(deadlineMs >= 1 && deadlineMs <= 60000)) {
    return refuse("SLUICE_REDIS_DEADLINE_MS", "a number from 1 to 60000", text);
  }
  return deadlineMs;
}
