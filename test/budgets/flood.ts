// A client at full force, in a process of its own: it sends its requests on many connections as fast as they are answered. Some
// connections send more before they have an answer, and some never read one.

import { connect } from "node:net";

export interface Flood {
  readonly port: number;
  /** The client's own address. */
  readonly from: string;
  /** In base64. */
  readonly requests: readonly string[];
}

/** Answers, by their status, and connections that the other side closed. */
export type Flooded = Record<string, number>;

const connections = 48;
const unreadConnections = 8;
const atOnce = 8;
const statusLine = Buffer.from("HTTP/1.1 ");
const pauseAfterCutMs = 20;

const flooded: Flooded = {};

process.on("message", (flood: Flood | "tell") => {
  if (flood === "tell") {
    process.send?.(flooded);
    return;
  }
  const requests = flood.requests.map((text) => Buffer.from(text, "base64"));
  for (let i = 0; i < connections; i++) open(flood, requests, i, i >= unreadConnections);
});
process.on("disconnect", () => process.exit());

function open(flood: Flood, requests: readonly Buffer[], first: number, reads: boolean): void {
  const socket = connect({ port: flood.port, host: "127.0.0.1", localAddress: flood.from });
  let next = first * 7;
  const send = () => {
    socket.write(requests[next % requests.length] as Buffer);
    next += 1;
  };
  socket.on("connect", () => {
    for (let i = 0; i < (reads ? atOnce : atOnce * 4); i++) send();
  });
  if (reads) {
    socket.on("data", (data) => {
      for (let at = data.indexOf(statusLine); at >= 0; at = data.indexOf(statusLine, at + 1)) {
        note(data.toString("latin1", at + 9, at + 12));
        if (socket.writable) send();
      }
    });
  }
  socket.on("error", () => undefined);
  socket.on("close", () => {
    note("closed");
    setTimeout(() => open(flood, requests, next, reads), pauseAfterCutMs);
  });
}

function note(what: string): void {
  flooded[what] = (flooded[what] ?? 0) + 1;
}
