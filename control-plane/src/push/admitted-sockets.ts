// The open sockets of gateways, by the token that let them in: a token that is replaced or deleted must not serve for as long as
// its gateways stay connected.

import type { WebSocket } from "ws";
import { closeCodes } from "./gateway-link.ts";

export class AdmittedSockets {
  readonly #byToken = new Map<string, Set<WebSocket>>();

  /** @param token the id of the token */
  add(token: string, socket: WebSocket): void {
    const sockets = this.#byToken.get(token) ?? new Set();
    this.#byToken.set(token, sockets);
    sockets.add(socket);
    socket.on("close", () => {
      sockets.delete(socket);
      if (sockets.size === 0 && this.#byToken.get(token) === sockets) this.#byToken.delete(token);
    });
  }

  /** Closes the sockets whose token is not valid any more. @returns how many */
  async closeInvalid(isValid: (token: string) => Promise<boolean>): Promise<number> {
    let closed = 0;
    for (const [token, sockets] of [...this.#byToken]) {
      if (await isValid(token)) continue;
      for (const socket of sockets) socket.close(closeCodes.refused, "the token is not valid any more");
      closed += sockets.size;
    }
    return closed;
  }
}
