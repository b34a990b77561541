// What the environment says, read once in init_by_lua. nginx passes on only the variables that nginx.conf names with
// "env". Invalid is refused at start, never replaced by a default.

import { type Deployment, parseDeployment } from "./redis/deployment.ts";
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
  readonly gatewayToken: string;
  readonly headers: HeaderStyle;
  /** Who shows it is told how a request was decided. Undefined: nobody is. */
  readonly debugSecret: string | undefined;
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
    gatewayToken: environment("SLUICE_GATEWAY_TOKEN") ?? "",
    headers: headerStyle(environment("SLUICE_HEADERS") ?? "both"),
    debugSecret: debugSecret(environment("SLUICE_DEBUG_SECRET")),
    redis: redisSettings(
      environment("SLUICE_REDIS_URL"),
      redisDeadlineMs(environment("SLUICE_REDIS_DEADLINE_MS") ?? "200"),
    ),
  };
}

function refuse(name: string, expected: string, got: string): never {
  return error(`sluice: ${name}: expected ${expected}, got "${got}"`, 0);
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
  const [name] = string.match(readFile("/proc/sys/kernel/hostname") ?? "", "^[%w._-]+");
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

/** Read without a Redis too: what is wrong is found before the Redis is there. */
function redisDeadlineMs(text: string): number {
  const deadlineMs = tonumber(text);
  if (deadlineMs === undefined || !(deadlineMs >= 1 && deadlineMs <= 60000)) {
    return refuse("SLUICE_REDIS_DEADLINE_MS", "a number from 1 to 60000", text);
  }
  return deadlineMs;
}
