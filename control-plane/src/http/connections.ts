// Bounds how many connections strangers may have, and gateways, how many bytes all of them together may leave unread, and how many bytes of
// messages that have not ended gateways may have sent.

import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { TakenPlaces } from "../limits/who-gives-way.ts";

/** An event of the server: this socket is a push socket now. With it comes a function that returns how many bytes of an unfinished message have come. */
export const upgraded = "upgraded";
/**
 * An event of the server: a gateway has said its id on this socket, which does not count among those of strangers any more. The socket is
 * destroyed if there is no place for it.
 */
export const signedIn = "signed-in";
/** Gateways that have signed in do not count. When all are taken, whoever has the most loses one to whoever has fewer. */
const mostConnections = 4_000;
/** IPv6 addresses count by their /64. */
const mostOfOneAddress = 2_000;
/** Twice the largest fleet. An id has one place, so that a gateway that comes again while its old socket is open needs no other one. */
export const mostGateways = 4_000;
/** Answers that wait in this process for somebody to read them. */
export const mostUnreadBytes = 64 * 1_048_576;
/**
 * One gateway may leave so much unread: several times the longest message that waits here as a whole. A snapshot, however long, waits by the
 * frame, so that a slow gateway gets it, too.
 */
export const mostUnreadOfGateway = 8 * 1_048_576;
/** All gateways together may leave so much unread: a thousand of them may get a message with consumers at once. */
const mostUnreadOfGateways = 256 * 1_048_576;
/** All messages that have not ended may have so much together: each may have a megabyte, and may last for many seconds. */
export const mostUnfinishedBytes = 64 * 1_048_576;
const lookEveryMs = 250;

/** Why a connection was closed at once: an event of the server, `cut`. */
export const cuts = ["connections", "unread", "unfinished", "pipelining", "chunks"] as const;
export type Cut = (typeof cuts)[number];

export function boundConnections(server: Server): void {
  const strangers = new Places(mostConnections);
  const gateways = new Places(mostGateways);
  const socketOf = new Map<string, Socket>();
  /** The push sockets, also those that are closing. */
  const unfinishedOf = new Map<Socket, () => number>();
  const addressOf = new Map<Socket, string>();
  const cut = (why: Cut, socket: Socket) => {
    server.emit("cut", why);
    socket.destroy();
  };
  server.on("connection", (socket: Socket) => {
    if (strangers.ofAddress(socket) >= mostOfOneAddress) {
      cut("connections", socket);
      return;
    }
    // The first one of an address is the one whose last request began the longest ago.
    const without = strangers.take(socket, ([first]) => first);
    if (without !== undefined) cut("connections", without);
    if (without !== socket) socket.once("close", () => strangers.leave(socket));
  });
  server.on("request", ({ socket }: IncomingMessage) => strangers.noteUse(socket));
  server.on(upgraded, (socket: Socket, unfinishedBytes: () => number) => {
    unfinishedOf.set(socket, unfinishedBytes);
    addressOf.set(socket, addressOfSocket(socket));
    socket.once("close", () => {
      unfinishedOf.delete(socket);
      addressOf.delete(socket);
    });
  });
  server.on(signedIn, (socket: Socket, id: string) => {
    strangers.leave(socket);
    const older = socketOf.get(id);
    if (older !== undefined) gateways.leave(older);
    // The last one of an address: a fleet that is connected stays when somebody with its address connects with ever more ids.
    const without = gateways.take(socket, (sockets) => [...sockets].at(-1));
    if (without !== undefined) cut("connections", without);
    if (without === socket) return;
    socketOf.set(id, socket);
    socket.once("close", () => {
      gateways.leave(socket);
      if (socketOf.get(id) === socket) socketOf.delete(id);
    });
  });
  const timer = setInterval(() => {
    for (const socket of tooMuch(strangers.addresses, mostUnreadBytes, unreadBytes)) cut("unread", socket);
    // Whatever waits there: whoever sends should not have to count.
    for (const socket of addressOf.keys()) if (socket.writableLength > mostUnreadOfGateway) cut("unread", socket);
    for (const socket of tooMuch(addressOf, mostUnreadOfGateways, unreadBytes)) cut("unread", socket);
    const unfinishedBytes = (socket: Socket) => unfinishedOf.get(socket)?.() ?? 0;
    for (const socket of tooMuch(addressOf, mostUnfinishedBytes, unfinishedBytes)) cut("unfinished", socket);
  }, lookEveryMs).unref();
  server.once("close", () => clearInterval(timer));
}

/** Places for sockets. When all are taken, the address with the most loses one to an address with fewer. */
class Places {
  readonly #most: number;
  readonly #addresses = new Map<Socket, string>();
  readonly #sockets = new Map<string, { readonly network: string; readonly all: Set<Socket> }>();
  readonly #taken = new TakenPlaces();

  constructor(most: number) {
    this.#most = most;
  }

  /** The address of each socket that has a place. */
  get addresses(): ReadonlyMap<Socket, string> {
    return this.#addresses;
  }

  /** Returns how many places the socket's address has. */
  ofAddress(socket: Socket): number {
    return this.#sockets.get(addressOfSocket(socket))?.all.size ?? 0;
  }

  /**
   * @param choose which socket of an address gives way. They are in the order in which they were used last
   * @returns the socket that has no place: the new one, or one that has lost its place
   */
  take(socket: Socket, choose: (sockets: Iterable<Socket>) => Socket | undefined): Socket | undefined {
    const address = addressOfSocket(socket);
    const network = ipPrefix(socket.remoteAddress ?? "", 32, 48);
    let loser: Socket | undefined;
    if (this.#addresses.size >= this.#most) {
      const largest = this.#taken.whoGivesWay({ app: network, name: address });
      loser = choose(this.#sockets.get(largest ?? "")?.all ?? []);
      if (loser === undefined) return socket;
      this.leave(loser);
    }
    const ofAddress = this.#sockets.get(address) ?? { network, all: new Set() };
    this.#sockets.set(address, ofAddress);
    ofAddress.all.add(socket);
    this.#addresses.set(socket, address);
    this.#taken.add({ app: network, name: address });
    return loser;
  }

  noteUse(socket: Socket): void {
    const all = this.#sockets.get(this.#addresses.get(socket) ?? "")?.all;
    if (all?.delete(socket) === true) all.add(socket);
  }

  leave(socket: Socket): void {
    const address = this.#addresses.get(socket);
    const ofAddress = this.#sockets.get(address ?? "");
    if (address === undefined || ofAddress === undefined) return;
    this.#addresses.delete(socket);
    ofAddress.all.delete(socket);
    this.#taken.remove({ app: ofAddress.network, name: address });
    if (ofAddress.all.size === 0) this.#sockets.delete(address);
  }
}

function addressOfSocket({ remoteAddress = "" }: Socket): string {
  return ipPrefix(remoteAddress, 32, 64);
}

/** Bytes that wait to be read. */
export function unreadBytes({ writableLength }: { readonly writableLength: number }): number {
  return writableLength;
}

/**
 * Returns whom to cut so that all together have no more bytes here than they may. Connections of the address that has the most come first, so that
 * nobody suffers from what another one does, and of these the one that has the most.
 *
 * @param connections with their addresses
 */
export function tooMuch<Connection>(
  connections: ReadonlyMap<Connection, string>,
  most: number,
  bytesOf: (connection: Connection) => number,
): Connection[] {
  let inAll = 0;
  const ofAddress = new Map<string, number>();
  const found: { connection: Connection; address: string; bytes: number }[] = [];
  for (const [connection, address] of connections) {
    const bytes = bytesOf(connection);
    if (bytes === 0) continue;
    inAll += bytes;
    ofAddress.set(address, (ofAddress.get(address) ?? 0) + bytes);
    found.push({ connection, address, bytes });
  }
  if (inAll <= most) return [];
  const sumOf = ({ address }: { address: string }) => ofAddress.get(address) ?? 0;
  found.sort((one, other) => sumOf(other) - sumOf(one) || other.bytes - one.bytes);
  const cut: Connection[] = [];
  for (const { connection, bytes } of found) {
    if (inAll <= most) break;
    inAll -= bytes;
    cut.push(connection);
  }
  return cut;
}
