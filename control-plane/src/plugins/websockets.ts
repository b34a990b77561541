// Accepts upgrades to WebSocket through the same hooks as every request. It is registered before all plugins that may refuse
// a request: it must know of an upgrade to close the socket of a refused one, which Node leaves open for ever.

import type { Socket } from "node:net";
import websocket from "@fastify/websocket";
import fp from "fastify-plugin";
import { closeCodes } from "../push/gateway-link.ts";
import { maxMessageBytes } from "../push/gateway-message.ts";
import { answerClientError } from "./error-responses.ts";

/** How long the other side may take to answer our close frame when the control plane stops. */
const goodbyeMs = 500;
/** And whenever we close a socket: it has a place until then, or takes the one of a stranger. */
const closeTimeoutMs = 1_000;

/** A constant of its own, because the types of the library do not know `closeTimeout` yet. */
const options = {
  maxPayload: maxMessageBytes,
  // Each message is heard in a turn of its own, also if many arrive at once.
  allowSynchronousEvents: false,
  closeTimeout: closeTimeoutMs,
};

export default fp(
  async (app) => {
    await app.register(websocket, {
      options,
      errorHandler: (error, socket, request) => {
        request.server.gatewayLog.warn(undefined, request.address, { err: error }, "push socket failed");
        // A frame that breaks the protocol or is too large was already answered with its close code.
        if (!String((error as NodeJS.ErrnoException).code).startsWith("WS_ERR_")) socket.terminate();
      },
      preClose(done) {
        const { clients } = this.websocketServer;
        for (const socket of clients) socket.close(closeCodes.goingAway, "the control plane is stopping");
        const timer = setTimeout(() => {
          for (const socket of clients) socket.terminate();
        }, goodbyeMs);
        this.websocketServer.close(() => clearTimeout(timer));
        done();
      },
    });
    app.websocketServer.on("wsClientError", (error, socket) => {
      answerClientError(error, socket as Socket, `The request is no handshake of a WebSocket: ${error.message}.`);
    });
  },
  { name: "websockets" },
);
