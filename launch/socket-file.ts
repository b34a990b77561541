// The file of the unix socket at which the check API is answered. nginx removes it when it ends, but not when it is killed, and then
// cannot start again.
import { lstatSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { SetupError } from "./step.mjs";

/**
 * Removes the socket that a killed nginx has left.
 *
 * @throws SetupError if somebody listens there, or if it is another kind of file
 */
export async function requireFreeSocket(path: string | undefined): Promise<void> {
  if (path === undefined) return;
  const about = lstatSync(path, { throwIfNoEntry: false });
  if (about === undefined) return;
  if (!about.isSocket()) {
    throw new SetupError(
      `SLUICE_CHECK_SOCKET: expected the path of a socket, got ${path}, which is another kind of file`,
    );
  }
  if (await isListening(path)) {
    throw new SetupError(`SLUICE_CHECK_SOCKET: expected a free path, got ${path}, at which another process listens`);
  }
  rmSync(path);
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code !== "ECONNREFUSED" && code !== "ENOENT"));
  });
}
