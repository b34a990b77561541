// Renders nginx.conf: the file is a readable example whose ${NAME}s stand for what differs between machines. Line
// numbers stay the same, so that nginx's own messages point into the original.
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { isIPv4, isIPv6 } from "node:net";
import { join } from "node:path";
import { gatewayDist } from "./gateway-build.ts";
import type { Nginx } from "./nginx-binary.ts";
import { projectDir, type Settings } from "./settings.ts";
import { SetupError, say } from "./step.mjs";
import { workerAccount } from "./worker-account.ts";

/** Of Debian's package ca-certificates, without which nginx would refuse to start over the mere name. */
const certificates = "/etc/ssl/certs/ca-certificates.crt";
const template = join(projectDir, "nginx.conf");

/** @throws SetupError for a name that the template uses and nobody knows */
export function renderNginxConfig(settings: Settings, nginx: Nginx): string {
  const values: Record<string, string> = {
    SLUICE_MODULES: nginx.modules.map((file) => `load_module ${file};`).join(" "),
    SLUICE_USER: userDirective(settings),
    SLUICE_WORKERS: settings.workers,
    SLUICE_GATEWAY_HOST: bracketed(settings.gatewayHost),
    SLUICE_GATEWAY_PORT: String(settings.gatewayPort),
    SLUICE_GATEWAY_PRIVATE_HOST: bracketed(settings.gatewayPrivateHost),
    SLUICE_GATEWAY_PRIVATE_PORT: String(settings.gatewayPrivatePort),
    SLUICE_UPSTREAM_ADDRESS: upstreamAddress(settings),
    SLUICE_LUA_DIR: gatewayDist,
    SLUICE_GATEWAY_DIR: settings.gatewayDir,
    SLUICE_TRUST: existsSync(certificates) ? `lua_ssl_trusted_certificate ${certificates};` : "",
    SLUICE_RESOLVER: resolverDirective(readResolvConf()),
  };
  const text = readFileSync(template, "utf8");
  return text.replace(/\$\{([A-Z][A-Z0-9_]*)\}/g, (_, name: string, offset: number) => {
    const value = values[name];
    if (value === undefined) {
      throw new SetupError(`nginx.conf: expected one of ${Object.keys(values).join(", ")}, got \${${name}}`);
    }
    const isPath = name === "SLUICE_GATEWAY_DIR" || name === "SLUICE_LUA_DIR";
    if (isPath && !fitsInto(value, text, offset)) {
      throw new SetupError(
        `${name}: expected a path that nginx.conf can hold (no quotes, $, ; or blanks), got "${value}"`,
      );
    }
    return value;
  });
}

/** Inside of double quotes a path may hold blanks; characters with a meaning to nginx it may hold nowhere. */
function fitsInto(path: string, text: string, offset: number): boolean {
  const lineSoFar = text.slice(text.lastIndexOf("\n", offset) + 1, offset);
  const isQuoted = lineSoFar.split('"').length % 2 === 0;
  return isQuoted ? !/["'\\$;{}\n]/.test(path) : !/["'\\$;{}\s]/.test(path);
}

/** As an upstream block has it: host and port. */
function upstreamAddress({ upstream, upstreamPort }: Settings): string {
  if (upstream === undefined) return `127.0.0.1:${upstreamPort}`;
  const { host, port } = new URL(upstream);
  return port === "" ? `${host}:80` : host;
}

export interface GatewayFiles {
  /** The rendered nginx.conf. */
  readonly config: string;
  /** Where the workers keep the snapshot. */
  readonly snapshotDir: string;
}

/**
 * Writes the rendered file into the gateway's directory. Workers of an account of their own may write to one directory
 * in there alone: root reads nginx.conf and opens the log, so neither may be theirs to replace.
 */
export function writeGatewayFiles(settings: Settings, nginx: Nginx): GatewayFiles {
  const { dataDir, gatewayDir } = settings;
  // The control plane keeps its secrets there.
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  mkdirSync(gatewayDir, { recursive: true });
  const snapshotDir = workersDir(settings);
  mkdirSync(snapshotDir, { recursive: true });
  const account = workerAccount(dataDir);
  if (account !== undefined) {
    const { uid, gid } = account.isUnprivileged ? { uid: 0, gid: 0 } : account;
    chownSync(gatewayDir, uid, gid);
    chownSync(snapshotDir, account.uid, account.gid);
  }
  if (account?.isUnprivileged === true) openTheWayTo(settings);
  if (account?.warning !== undefined) say(account.warning);
  makePrivateLog(join(gatewayDir, "error.log"));
  const config = join(gatewayDir, "nginx.conf");
  writeFileSync(config, renderNginxConfig(settings, nginx));
  return { config, snapshotDir };
}

/** nginx keeps the mode of a log that is there. What is no file, such as a link to /dev/stderr, is as its operator made it. */
function makePrivateLog(path: string): void {
  const log = lstatSync(path, { throwIfNoEntry: false });
  if (log === undefined) writeFileSync(path, "", { mode: 0o600, flag: "wx" });
  else if (log.isFile()) chmodSync(path, 0o600);
}

/** Through the data dir, whose files are closed first: until now the directory kept others out. */
function openTheWayTo(settings: Settings): void {
  const { dataDir, gatewayDir } = settings;
  for (const entry of readdirSync(dataDir, { withFileTypes: true })) {
    if (entry.isFile()) closeToOthers(join(dataDir, entry.name));
  }
  chmodSync(dataDir, (statSync(dataDir).mode & 0o7777) | 0o011);
  chmodSync(gatewayDir, 0o711);
  chmodSync(workersDir(settings), 0o700);
}

function closeToOthers(file: string): void {
  // It may be gone again: SQLite makes and removes files beside the database as it works.
  const mode = statSync(file, { throwIfNoEntry: false })?.mode;
  if (mode !== undefined && (mode & 0o077) !== 0) chmodSync(file, mode & 0o700);
}

/** Started by root without a word about it, nginx would choose an account itself. */
function userDirective({ dataDir }: Settings): string {
  const account = workerAccount(dataDir);
  return account === undefined ? "" : `user ${account.user} ${account.group};`;
}

/** What whoever prints the configuration, and runs it without the launcher, has to do and to know. */
export function beforeRunning(settings: Settings): string[] {
  const account = workerAccount(settings.dataDir);
  const directory = workersDir(settings);
  const owner = statSync(directory, { throwIfNoEntry: false })?.uid;
  const lines = account?.warning === undefined ? [] : [account.warning];
  if (owner !== undefined && (account === undefined || owner === account.uid)) return lines;
  const chown = account === undefined ? "" : ` && chown ${account.user}:${account.group} ${directory}`;
  return [
    ...lines,
    `before nginx runs this, make the directory that its workers write to and tell them of it: mkdir -p ${directory}${chown}, and SLUICE_GATEWAY_DIR=${directory} in nginx's environment`,
  ];
}

function workersDir({ gatewayDir }: Settings): string {
  return join(gatewayDir, "workers");
}

/**
 * nginx reads no resolv.conf; names of a control plane, a Redis or an upstream need its own resolver. Of several name
 * servers the first alone: libc asks the others only when that is silent, but nginx asks all in turn, and one that does
 * not know the names of a container network would answer every other question with "no such host".
 */
export function resolverDirective(resolvConf: string): string {
  const first = resolvConf
    .split("\n")
    .map((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1] ?? "")
    // A link-local address with its zone (fe80::1%eth0) is nothing that nginx could take.
    .find((address) => isIPv4(address) || (isIPv6(address) && !address.includes("%")));
  return first === undefined ? "" : `resolver ${bracketed(first)} ipv6=off valid=10s;`;
}

function readResolvConf(): string {
  try {
    return readFileSync("/etc/resolv.conf", "utf8");
  } catch {
    return "";
  }
}

function bracketed(address: string): string {
  return isIPv6(address) ? `[${address}]` : address;
}
