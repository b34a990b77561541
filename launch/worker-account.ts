// Chooses the account of nginx's workers. They read what strangers send. So if root starts them, they get an account that
// owns only the directory of the snapshot, and neither the control plane's files nor nginx.conf.
import { readFileSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { SetupError } from "./step.mjs";

export interface WorkerAccount {
  readonly user: string;
  readonly uid: number;
  readonly gid: number;
  readonly group: string;
  /** Whether the account is one for servers, used because root owns the data dir. */
  readonly isUnprivileged: boolean;
  /** Why the workers run as root after all. */
  readonly warning?: string;
}

/** Accounts that systems have for servers. Other programs may have files under the last one too. */
const serverAccounts = ["www-data", "nginx", "nobody"];

/**
 * @returns undefined if root does not start nginx: the workers then run as the user who starts it
 * @throws SetupError when the data dir's owner has no name
 */
export function workerAccount(dataDir: string): WorkerAccount | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const uid = statSync(dataDir, { throwIfNoEntry: false })?.uid ?? 0;
  const owner = accounts().find((account) => account.uid === uid);
  if (owner === undefined) {
    throw new SetupError(`${dataDir}: expected an owner in /etc/passwd whose group is in /etc/group, got uid ${uid}`);
  }
  if (uid !== 0) return { ...owner, isUnprivileged: false };
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
