// Chooses the accounts that everything runs as if root starts it. nginx's workers read what strangers send. So they get an account
// that owns only the directory of the snapshot, and neither the control plane's files nor nginx.conf. And root writes nothing to a
// place that another account could replace by a link: if the data dir is in such a place, everything runs as that account.
import { lstatSync, readFileSync, readlinkSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeDirectory } from "./kept-file.ts";
import { requireFreePorts, type WantedPort } from "./ports.ts";
import { SetupError, say } from "./step.mjs";

export interface WorkerAccount {
  readonly user: string;
  readonly uid: number;
  readonly gid: number;
  readonly group: string;
  /** Whether the account is one for servers. Otherwise it is root. */
  readonly isUnprivileged: boolean;
  /** Why the workers run as root after all. */
  readonly warning?: string;
}

/** Accounts that systems have for servers. Other programs may have files under the last one too. */
const serverAccounts = ["www-data", "nginx", "nobody"];

/**
 * Called when what needs root is done, and before anything is written to the data dir.
 *
 * @param ports those of the parts that are to start: only root may listen on some of them
 * @throws SetupError as `giveUpRoot` and `requireFreePorts` do
 */
export async function becomeOwner(dataDir: string, ports: readonly WantedPort[]): Promise<void> {
  let line = giveUpRoot(dataDir);
  if (line === undefined && process.getuid?.() === 0) {
    // Until it is there, somebody else may make it, in a directory like /tmp.
    makeDirectory(dataDir, 0o700);
    line = giveUpRoot(dataDir);
  }
  if (line === undefined) return;
  say(line);
  await requireFreePorts(ports);
}

/**
 * If root starts this and another account can change the data dir, this process becomes that account for good.
 *
 * @returns a line that says so; undefined: nothing has changed
 * @throws SetupError if everybody can change the data dir, or the account has no name
 */
export function giveUpRoot(dataDir: string): string | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const place = placeOfAnother(dataDir);
  if (place === undefined) return undefined;
  const { user, uid, gid } = ownerOf(place);
  // In this order: without root, the groups cannot be changed any more.
  process.setgroups?.([gid]);
  process.setgid?.(gid);
  process.setuid?.(uid);
  return `everything runs as ${user}, because ${place.path} belongs to ${user}, who could replace what root writes below it (files there that root has written before: chown -R ${user} ${dataDir})`;
}

/**
 * @returns undefined if root does not start nginx: the workers then run as the user who starts it
 * @throws SetupError if another account can change the data dir
 */
export function workerAccount(dataDir: string): WorkerAccount | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const place = placeOfAnother(dataDir);
  if (place !== undefined) {
    throw new SetupError(
      `${dataDir}: expected a place that only root can change, got ${place.path} of ${ownerOf(place).user}`,
    );
  }
  const owner = ownerOf({ path: "/", about: { uid: 0 } });
  const blocking = directoryClosedToOthers(dataDir);
  if (blocking !== undefined) {
    const warning = `nginx's workers run as root: no other account may pass ${blocking} to their files below it; set SLUICE_DATA_DIR to a directory elsewhere, such as /var/lib/sluice`;
    return { ...owner, isUnprivileged: false, warning };
  }
  for (const name of serverAccounts) {
    const account = accounts().find(({ user }) => user === name);
    if (account !== undefined && account.uid !== 0) return { ...account, isUnprivileged: true };
  }
  const warning = `nginx's workers run as root: expected one of the accounts ${serverAccounts.join(", ")} in /etc/passwd, got none`;
  return { ...owner, isUnprivileged: false, warning };
}

interface Place {
  readonly path: string;
  readonly about: Pick<Stats, "uid">;
}

/**
 * Returns the first directory or link on the way to the data dir that belongs to another account than root.
 *
 * @throws SetupError if everybody, or a group, may replace what is in one of the directories
 */
function placeOfAnother(dataDir: string): Place | undefined {
  for (const place of wayTo(dataDir)) {
    const { uid, gid, mode } = place.about;
    if (uid !== 0) return place;
    const isSticky = (mode & 0o1000) !== 0;
    const others = (mode & 0o002) !== 0 ? "everybody" : (mode & 0o020) !== 0 && gid !== 0 ? "its group" : undefined;
    if (!place.about.isSymbolicLink() && !isSticky && others !== undefined) {
      throw new SetupError(
        `SLUICE_DATA_DIR: expected a place that only root can change, because root starts this, got ${dataDir}: ${others} may write to ${place.path} (chmod go-w ${place.path})`,
      );
    }
  }
  return undefined;
}

/** All directories and links from the root of the file system to a path, as far as they exist. */
function* wayTo(path: string): Generator<{ readonly path: string; readonly about: Stats }> {
  yield { path: "/", about: lstatSync("/") };
  let at = "/";
  let names = path.split("/");
  // As many links as Linux follows.
  for (let links = 0; names.length > 0 && links <= 40; ) {
    const next = join(at, names[0] as string);
    names = names.slice(1);
    const about = lstatSync(next, { throwIfNoEntry: false });
    if (about === undefined) return;
    if (next !== at) yield { path: next, about };
    if (!about.isSymbolicLink()) {
      at = next;
      continue;
    }
    const target = readlinkSync(next);
    if (target.startsWith("/")) at = "/";
    names = [...target.split("/"), ...names];
    links += 1;
  }
}

/** @throws SetupError if the owner has no name */
function ownerOf({ path, about: { uid } }: Place): ReturnType<typeof accounts>[number] {
  const owner = accounts().find((account) => account.uid === uid);
  if (owner !== undefined) return owner;
  throw new SetupError(`${path}: expected an owner in /etc/passwd whose group is in /etc/group, got uid ${uid}`);
}

/**
 * Returns the first directory above the data dir that other users may not enter. The mode of the data dir itself is the
 * launcher's to change.
 */
function directoryClosedToOthers(dataDir: string): string | undefined {
  const paths = [dataDir];
  try {
    paths.push(realpathSync(dataDir));
  } catch {
    // The data dir does not exist yet, so it is not a link either.
  }
  for (const path of paths) {
    for (let directory = dirname(path); ; directory = dirname(directory)) {
      const mode = statSync(directory, { throwIfNoEntry: false })?.mode;
      if (mode !== undefined && (mode & 0o001) === 0) return directory;
      if (directory === dirname(directory)) break;
    }
  }
  return undefined;
}

function accounts(): Omit<WorkerAccount, "isUnprivileged">[] {
  const groups = new Map(rowsOf("/etc/group").map(([group = "", , gid]) => [Number(gid), group]));
  return rowsOf("/etc/passwd").flatMap(([user = "", , uid, gid]) => {
    // Without an explicit group, nginx looks for one with the user's name; for the user `nobody` that group does not exist
    // on every system.
    const group = groups.get(Number(gid));
    return group === undefined ? [] : [{ user, uid: Number(uid), gid: Number(gid), group }];
  });
}

function rowsOf(file: string): string[][] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(":"));
}
