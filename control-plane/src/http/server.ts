// The HTTP server, and what it takes from strangers: how long a request may take, how many connections and unread answers there may be, and which requests may
// become a WebSocket.

import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { boundConnections } from "./connections.ts";
import { requestsOfLargeChunks, smallChunks } from "./small-chunks.ts";
import { inTurn } from "./turns.ts";

export interface HttpTimes {
  /** The longest time from the start of the connection, or from the previous request, to the end of a request's headers. */
  readonly headersMs: number;
  /** The longest time to the end of the request's body: the server does not wait for a body that trickles in. */
  readonly requestMs: number;
  /** The longest time without traffic in either direction on a connection. Longer than the longest `wait` of a request. */
  readonly silenceMs: number;
  /** The longest time between two requests of a connection. */
  readonly keepAliveMs: number;
  /** How often the server looks for requests that take too long. */
  readonly checkEveryMs: number;
}

export const defaultHttpTimes: HttpTimes = {
  headersMs: 10_000,
  requestMs: 30_000,
  silenceMs: 90_000,
  keepAliveMs: 60_000,
  checkEveryMs: 1_000,
};

/**
 * Returns a server that emits `cut` with the reason when it closes a connection at once.
 *
 * @param socketUrl the path whose requests may become a WebSocket. On any other request the server ignores the wish for an upgrade, as HTTP
 *   allows (RFC 9110 §7.8), and answers the request normally. It does so, too, if it has not answered all earlier requests of the connection.
 */
export function createBoundedServer(answer: RequestListener, socketUrl: string, times: HttpTimes): Server {
  const { headersMs, requestMs, silenceMs, keepAliveMs, checkEveryMs } = times;
  const options = {
    IncomingMessage: requestsOfLargeChunks(({ socket }) => {
      server.emit("cut", "chunks");
      // Nothing more is read, so that the client can read the answer.
      socket.pause();
      server.emit("clientError", Object.assign(new Error(smallChunks), { code: smallChunks }), socket);
    }),
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: keepAliveMs,
    connectionsCheckingInterval: checkEveryMs,
    // Node would never close a connection that it gives away while an answer is under way.
    shouldUpgradeCallback: ({ url = "", headers, socket }: IncomingMessage) =>
      url.split("?", 1)[0] === socketUrl && headers.upgrade?.toLowerCase() === "websocket" && !turns.isBusy(socket),
  };
  const turns = inTurn(answer, () => server.emit("cut", "pipelining"));
  const server: Server = createServer(options, turns.begin);
  // Otherwise Node answers 417 itself, past all bounds. Expectations but 100-continue may be ignored (RFC 9110 §10.1.1 lets a server answer 417).
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  server.setTimeout(silenceMs);
  boundConnections(server);
  return server;
}
