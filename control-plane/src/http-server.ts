// Limits what the HTTP server accepts from strangers: how long a request may take, and which requests may become a
// WebSocket.

import type { IncomingMessage } from "node:http";
import { pushUrl } from "./plugins/push.ts";

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

/** Returns the options of the Fastify server. */
export function serverOptions({ headersMs, requestMs, silenceMs, keepAliveMs, checkEveryMs }: HttpTimes) {
  return {
    requestTimeout: requestMs,
    connectionTimeout: silenceMs,
    keepAliveTimeout: keepAliveMs,
    http: {
      headersTimeout: headersMs,
      connectionsCheckingInterval: checkEveryMs,
      shouldUpgradeCallback: isForSocket,
    },
  };
}

/**
 * Returns whether the request opens the push socket. On any other request the server ignores the wish for an upgrade, as
 * HTTP allows (RFC 9110 §7.8), and answers the request normally.
 */
function isForSocket({ url = "", headers }: IncomingMessage): boolean {
  return url.split("?", 1)[0] === pushUrl && headers.upgrade?.toLowerCase() === "websocket";
}
