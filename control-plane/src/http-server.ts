// Bounds what the HTTP server accepts from strangers: how long a request may take, and what may become a WebSocket.

import type { IncomingMessage } from "node:http";
import { pushUrl } from "./plugins/push.ts";

export interface HttpTimes {
  /** From a connection, or the request before, to the end of a request's headers. */
  readonly headersMs: number;
  /** To the end of its body: a body that comes by drops is no reason to wait. */
  readonly requestMs: number;
  /** A connection on which nothing goes either way. Longer than a request may ask us to wait. */
  readonly silenceMs: number;
  /** Between two requests. */
  readonly keepAliveMs: number;
  /** How often it is looked who takes too long. */
  readonly checkEveryMs: number;
}

export const defaultHttpTimes: HttpTimes = {
  headersMs: 10_000,
  requestMs: 30_000,
  silenceMs: 90_000,
  keepAliveMs: 60_000,
  checkEveryMs: 1_000,
};

/** Options of Fastify's. */
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

/** Of other requests, an upgrade is a wish, which HTTP lets us pass over (RFC 9110 §7.8): they are answered as they are. */
function isForSocket({ url = "", headers }: IncomingMessage): boolean {
  return url.split("?", 1)[0] === pushUrl && headers.upgrade?.toLowerCase() === "websocket";
}
