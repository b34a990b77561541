// Bounds how many connections strangers may have, and how many bytes all of them together, and all gateways, may leave unread.

import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { type Taken, whoGivesWay } from "../limits/who-gives-way.ts";

/** An event of the server: a gateway has signed in on this socket, which does not count among those of strangers any more. */
export const signedIn = "signed-in";
/** Gateways that have signed in do not count. When all are taken, whoever has the most loses one to whoever has fewer. */
const mostConnections = 4_000;
/** IPv6 addresses count by their /64. */
const mostOfOneAddress = 2_000;
/** Answers that wait in this process for somebody to read them. */
export const mostUnreadBytes = 64 * 1_048_576;
/**
 * One gateway may leave so much unread: several times the longest message that waits here as a whole. A snapshot, however long, waits by the
 * frame, so that a slow gateway gets it, too.
 */
export const mostUnreadOfGateway = 8 * 1_048_576;
/** All gateways together may leave so much unread: a thousand of them may get a message with consumers at once. */
const mostUnreadOfGateways = 256 * 1_048_576;
const lookEveryMs = 250;

/** Why a connection was closed at once: an event of the server, `cut`. */
export const cuts = ["connections", "unread", "pipelining", "chunks"] as const;
export type Cut = (typeof cuts)[number];

export function boundConnections(server: Server): void {
  const sockets = new Map<Socket, string>();
  /** By addresses. The connection whose last request began the longest ago comes first. */
  const taken = new Map<string, Taken & { readonly sockets: Set<Socket> }>();
  const gateways = new Map<Socket, string>();
  const forget = (socket: Socket) => {
    const address = sockets.get(socket);
    if (address === undefined) return;
    sockets.delete(socket);
    const ofAddress = taken.get(address)?.sockets;
    ofAddress?.delete(socket);
    if (ofAddress?.size === 0) taken.delete(address);
  };
  const cut = (why: Cut, socket: Socket) => {
    server.emit("cut", why);
    socket.destroy();
  };
  server.on("connection", (socket: Socket) => {
    const address = ipPrefix(socket.remoteAddress ?? "", 32, 64);
    const network = ipPrefix(socket.remoteAddress ?? "", 32, 48);
    if ((taken.get(address)?.size ?? 0) >= mostOfOneAddress) {
      cut("connections", socket);
      return;
    }
    if (sockets.size >= mostConnections) {
      const [longestIdle] = whoGivesWay(taken.values(), { app: network, name: address, size: 1 })?.sockets ?? [];
      cut("connections", longestIdle ?? socket);
      if (longestIdle === undefined) return;
      forget(longestIdle);
    }
    const ofAddress = taken.get(address) ?? takenBy(network, address);
    ofAddress.sockets.add(socket);
    taken.set(address, ofAddress);
    sockets.set(socket, address);
    socket.once("close", () => forget(socket));
  });
  server.on("request", ({ socket }: IncomingMessage) => {
    const ofAddress = taken.get(sockets.get(socket) ?? "")?.sockets;
    if (ofAddress?.delete(socket) === true) ofAddress.add(socket);
  });
  server.on(signedIn, (socket: Socket) => {
    forget(socket);
    gateways.set(socket, ipPrefix(socket.remoteAddress ?? "", 32, 64));
    socket.once("close", () => gateways.delete(socket));
  });
  const timer = setInterval(() => {
    for (const socket of tooMuchUnread(sockets)) cut("unread", socket);
    // Whatever waits there: whoever sends should not have to count.
    for (const socket of gateways.keys()) if (socket.writableLength > mostUnreadOfGateway) cut("unread", socket);
    for (const socket of tooMuchUnread(gateways, mostUnreadOfGateways)) cut("unread", socket);
  }, lookEveryMs).unref();
  server.once("close", () => clearInterval(timer));
}

function takenBy(app: string, name: string): Taken & { readonly sockets: Set<Socket> } {
  const sockets = new Set<Socket>();
  return {
    app,
    name,
    sockets,
    get size() {
      return sockets.size;
    },
  };
}

interface Unread {
  /** Bytes. */
  readonly writableLength: number;
}

/**
 * Returns whom to cut so that no more is left unread than may be. Connections of the address that has left the most come first, so that nobody
 * suffers from what another one does, and of these the one that has left the most.
 *
 * @param connections with their addresses
 */
export function tooMuchUnread<Connection extends Unread>(
  connections: ReadonlyMap<Connection, string>,
  most = mostUnreadBytes,
): Connection[] {
  let inAll = 0;
  const ofAddress = new Map<string, number>();
  for (const [{ writableLength }, address] of connections) {
    if (writableLength === 0) continue;
    inAll += writableLength;
    ofAddress.set(address, (ofAddress.get(address) ?? 0) + writableLength);
  }
  if (inAll <= most) return [];
  const worstFirst = [...connections].sort(
    ([one, address], [other, otherAddress]) =>
      (ofAddress.get(otherAddress) ?? 0) - (ofAddress.get(address) ?? 0) || other.writableLength - one.writableLength,
  );
  const cut: Connection[] = [];
  for (const [connection] of worstFirst) {
    if (inAll <= most) break;
    inAll -= connection.writableLength;
    cut.push(connection);
  }
  return cut;
}
