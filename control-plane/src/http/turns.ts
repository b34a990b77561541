// The requests of a connection take turns: the next one begins when the answer to the one before has left this process. So a client that asks
// and does not read has one answer in memory, however many requests it sends at once (HTTP pipelining, RFC 9112 §9.3.2).

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** More than any client has under way that pipelines in earnest. */
const mostWaiting = 32;
/** Of all connections: each waiting request takes some 5 KB. */
const mostWaitingInAll = 2_000;

interface Turn {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export interface Turns {
  readonly begin: RequestListener;
  /** Returns whether the connection has a request that is not answered yet. */
  isBusy(socket: Socket): boolean;
}

/**
 * @param answer is called for one request of a connection at a time
 * @param onCut is called when a connection is cut because too many requests wait for their turns
 */
export function inTurn(answer: RequestListener, onCut: () => void): Turns {
  /** By connections that have a request under way: those that wait behind it. */
  const lines = new WeakMap<Socket, Turn[]>();
  let inAll = 0;

  const begin = (socket: Socket, line: Turn[], { request, response }: Turn) => {
    response.once("close", () => next(socket, line));
    answer(request, response);
  };
  const next = (socket: Socket, line: Turn[]) => {
    const turn = socket.destroyed ? undefined : line.shift();
    if (turn === undefined) {
      inAll -= line.length;
      lines.delete(socket);
      return;
    }
    inAll -= 1;
    begin(socket, line, turn);
  };
  const takeTurn: RequestListener = (request, response) => {
    const { socket } = request;
    // It was cut, and this is what else had arrived with the request that was too many.
    if (socket.destroyed) return;
    const line = lines.get(socket);
    if (line === undefined) {
      const first: Turn[] = [];
      lines.set(socket, first);
      begin(socket, first, { request, response });
    } else if (line.length < mostWaiting && inAll < mostWaitingInAll) {
      line.push({ request, response });
      inAll += 1;
    } else {
      onCut();
      socket.destroy();
    }
  };
  return { begin: takeTurn, isBusy: (socket) => lines.has(socket) };
}
