// Renders nginx.conf. The file is a readable example with ${NAME}s for what differs between machines. Rendering keeps the
// line numbers, so that nginx's messages refer to the right lines of the original.
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import { isIPv4, isIPv6 } from "node:net";
import { join } from "node:path";
import { gatewayDist } from "./gateway-build.ts";
import { keepFile, makeDirectory, whyNot } from "./kept-file.ts";
import type { Nginx } from "./nginx-binary.ts";
import { projectDir, type Settings } from "./settings.ts";
import { SetupError, say } from "./step.mjs";
import { workerAccount } from "./worker-account.ts";

/**
 * The certificates of Debian's package ca-certificates. If the file does not exist, the configuration must not name it:
 * nginx would refuse to start.
 */
const certificates = "/etc/ssl/certs/ca-certificates.crt";
const template = join(projectDir, "nginx.conf");

/** @throws SetupError for an unknown name in the template */
export function renderNginxConfig(settings: Settings, nginx: Nginx): string {
  const { role, checkSocket, checkTls } = settings;
  const values: Record<string, string> = {
    SLUICE_MODULES: nginx.modules.map((file) => `load_module ${file};`).join(" "),
    SLUICE_USER: userDirective(settings),
    SLUICE_WORKERS: settings.workers,
    SLUICE_GATEWAY_HOST: bracketed(settings.gatewayHost),
    SLUICE_GATEWAY_PORT: String(settings.gatewayPort),
    SLUICE_GATEWAY_PRIVATE_HOST: bracketed(settings.gatewayPrivateHost),
    SLUICE_GATEWAY_PRIVATE_PORT: String(settings.gatewayPrivatePort),
    SLUICE_UPSTREAM_ADDRESS: upstreamAddress(settings),
    SLUICE_CHECK_LISTEN: checkListeners(settings),
    SLUICE_LUA_DIR: gatewayDist,
    SLUICE_GATEWAY_DIR: settings.gatewayDir,
    SLUICE_TRUST:
      connectsByTls(settings) && existsSync(certificates) ? `lua_ssl_trusted_certificate ${certificates};` : "",
    SLUICE_RESOLVER: resolverDirective(readResolvConf()),
  };
  let text = readFileSync(template, "utf8");
  if (role === "service") text = without(text, "gateway");
  if (checkSocket === undefined && checkTls === undefined) text = without(text, "check");
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

/** Leaves out a part of the template. Its lines become empty, so that all others keep their numbers. */
function without(text: string, part: string): string {
  return text.replace(new RegExp(`^ *# <${part}>[^]*?^ *# </${part}>.*$`, "m"), (lines) => lines.replace(/[^\n]/g, ""));
}

/** On one line, for the same reason. */
function checkListeners({ checkSocket, checkTls }: Settings): string {
  const directives: string[] = [];
  if (checkSocket !== undefined) directives.push(`listen "unix:${checkSocket}";`);
  if (checkTls !== undefined) {
    const { host, port, certificate, key } = checkTls;
    directives.push(`listen ${bracketed(host)}:${port} ssl;`, `ssl_certificate "${certificate}";`);
    directives.push(`ssl_certificate_key "${key}";`, "ssl_protocols TLSv1.2 TLSv1.3;");
  }
  return directives.join(" ");
}

/** Returns whether certificates are needed. It takes nginx 0.3 s of CPU to read them, at each start and reload. */
function connectsByTls({ controlUrl, redisUrl }: Settings): boolean {
  return controlUrl.includes("https:") || redisUrl?.startsWith("rediss") === true;
}

/**
 * Returns whether nginx can read the path at this place. A path in double quotes may contain blanks; characters with a
 * meaning to nginx are not allowed anywhere.
 */
function fitsInto(path: string, text: string, offset: number): boolean {
  const lineSoFar = text.slice(text.lastIndexOf("\n", offset) + 1, offset);
  const isQuoted = lineSoFar.split('"').length % 2 === 0;
  return isQuoted ? !/["'\\$;{}\n]/.test(path) : !/["'\\$;{}\s]/.test(path);
}

/** Returns host and port in the form that an upstream block needs. */
function upstreamAddress({ upstream, upstreamPort }: Settings): string {
  if (upstream === undefined) return `127.0.0.1:${upstreamPort}`;
  const { host, port } = new URL(upstream);
  return port === "" ? `${host}:80` : host;
}

export interface GatewayFiles {
  /** The rendered nginx.conf. */
  readonly config: string;
  /** The directory in which the workers keep the snapshot. */
  readonly snapshotDir: string;
}

/**
 * Writes the rendered file into the gateway's directory. Workers with their own account may write to only one directory in
 * it: root reads nginx.conf and opens the log, so the workers must not be able to replace either.
 */
export function writeGatewayFiles(settings: Settings, nginx: Nginx): GatewayFiles {
  const { dataDir, gatewayDir } = settings;
  // The control plane keeps its secrets in the data dir.
  makeDirectory(dataDir, 0o700);
  const account = workerAccount(dataDir);
  makeDirectory(gatewayDir);
  const snapshotDir = workersDir(settings);
  if (account !== undefined) {
    withOwn(gatewayDir, constants.O_DIRECTORY, (file) => fchownSync(file, 0, 0));
    refuseFilesOfOthers(gatewayDir);
  }
  makeDirectory(snapshotDir);
  if (account !== undefined) {
    withOwn(snapshotDir, constants.O_DIRECTORY, (file) => fchownSync(file, account.uid, account.gid));
  }
  if (account?.isUnprivileged === true) openTheWayTo(settings);
  if (account?.warning !== undefined) say(account.warning);
  const config = join(gatewayDir, "nginx.conf");
  keepFile(config, renderNginxConfig(settings, nginx));
  closeErrorLog(errorLogOf(settings));
  return { config, snapshotDir };
}

export function errorLogOf({ gatewayDir }: Settings): string {
  return join(gatewayDir, "error.log");
}

/**
 * Keeps other users from reading the log, which contains clients and keys; nginx would make it readable for everybody. If it
 * is not a file, such as a pipe, it is left as the operator chose.
 */
function closeErrorLog(file: string): void {
  const about = lstatSync(file, { throwIfNoEntry: false });
  if (about !== undefined && !about.isFile()) return;
  withOwn(file, constants.O_WRONLY | constants.O_CREAT, closeToOthers);
}

/**
 * Opens a file or directory and closes it afterwards. What is done to it is done by its descriptor, and a link in its place is not
 * followed: root must not change what another account has put there.
 *
 * @throws SetupError if it cannot be opened
 */
function withOwn(path: string, flags: number, use: (file: number) => void, mayBeGone = false): void {
  try {
    const file = openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
    try {
      use(file);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (mayBeGone && (error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw new SetupError(`cannot write ${path}: ${whyNot(error)}`);
  }
}

/**
 * The gateway's directory may have belonged to another account before. nginx, as root, follows the links and writes to the files that it
 * finds there.
 *
 * @throws SetupError that names such a file
 */
function refuseFilesOfOthers(gatewayDir: string): void {
  for (const name of readdirSync(gatewayDir)) {
    const file = join(gatewayDir, name);
    const about = lstatSync(file);
    if (about.isDirectory() || (about.uid === 0 && about.nlink === 1)) continue;
    const got = about.uid === 0 ? `one with ${about.nlink} names` : `one of uid ${about.uid}`;
    throw new SetupError(
      `${file}: expected a file of root with one name, because root starts nginx, got ${got}: remove it`,
    );
  }
}

/**
 * Lets the workers pass through the data dir. What is in it is closed first, but for directories of gateways and the one of the check
 * API's socket: until now the directory kept other users out.
 */
function openTheWayTo(settings: Settings): void {
  const { dataDir, gatewayDir, checkSocket = "" } = settings;
  for (const entry of readdirSync(dataDir, { withFileTypes: true })) {
    const path = join(dataDir, entry.name);
    // The file may be gone already: SQLite makes and removes files beside the database as it works.
    if (entry.isFile()) withOwn(path, constants.O_RDONLY, closeToOthers, true);
    else if (entry.isDirectory() && !isOfGateway(entry.name) && !checkSocket.startsWith(`${path}/`)) {
      closeDirectory(path);
    }
  }
  withOwn(realpathSync(dataDir), constants.O_DIRECTORY, (file) => fchmodSync(file, modeOf(fstatSync(file)) | 0o011));
  withOwn(gatewayDir, constants.O_DIRECTORY, (file) => fchmodSync(file, 0o711));
  withOwn(workersDir(settings), constants.O_DIRECTORY, (file) => fchmodSync(file, 0o700));
}

/** A directory that root cannot change, such as one that is mounted to be read only, keeps nothing from starting. */
function closeDirectory(path: string): void {
  try {
    withOwn(path, constants.O_DIRECTORY, closeToOthers, true);
  } catch (error) {
    say(`${(error as Error).message}; other accounts may read what it is open for`);
  }
}

function isOfGateway(name: string): boolean {
  return /^(gateway|service)-\d+$/.test(name);
}

function closeToOthers(file: number): void {
  const mode = modeOf(fstatSync(file));
  if ((mode & 0o077) !== 0) fchmodSync(file, mode & 0o700);
}

function modeOf({ mode }: Stats): number {
  return mode & 0o7777;
}

/** Without this directive, nginx would choose an account itself when root starts it. */
function userDirective({ dataDir }: Settings): string {
  const account = workerAccount(dataDir);
  return account === undefined ? "" : `user ${account.user} ${account.group};`;
}

/** Returns what an operator who prints the configuration and runs it without the launcher must do and know. */
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
 * nginx does not read resolv.conf: it needs its own resolver for the names of a control plane, a Redis or an upstream. Of
 * several name servers only the first is used. libc asks the others only if the first is silent, but nginx asks all in turn:
 * one that does not know the names of a container network would answer every other query with "no such host".
 */
export function resolverDirective(resolvConf: string): string {
  const first = resolvConf
    .split("\n")
    .map((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1] ?? "")
    // nginx cannot use a link-local address with a zone (fe80::1%eth0).
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
