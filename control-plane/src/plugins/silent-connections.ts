// While the control plane stops, connections on which no request has come are closed: browsers, clients and load balancers open
// them in advance. Node counts such a connection as busy and not as idle, so each one would delay the stop.

import type { Socket } from "node:net";
import fp from "fastify-plugin";

/** For a connection that comes during the stop, whose first request may be on its way. */
const patienceMs = 100;

export default fp(
  async (app) => {
    const silent = new Set<Socket>();
    let stopping = false;
    app.server.on("connection", (socket: Socket) => {
      silent.add(socket);
      socket.once("close", () => silent.delete(socket));
      if (stopping) setTimeout(() => silent.has(socket) && socket.destroy(), patienceMs).unref();
    });
    app.server.on("request", ({ socket }) => silent.delete(socket));
    app.server.on("upgrade", ({ socket }) => silent.delete(socket));
    app.addHook("preClose", async () => {
      stopping = true;
      for (const socket of silent) socket.destroy();
    });
  },
  { name: "silent-connections" },
);
