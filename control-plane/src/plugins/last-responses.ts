// While the control plane stops, each response closes its connection, and so does whoever has connected and sends nothing, as
// browsers do in advance: a connection that is kept alive would delay the stop until it times out.

import type { Socket } from "node:net";
import fp from "fastify-plugin";

/** A request that is on its way when the stop begins is still answered. */
const firstRequestMs = 500;

export default fp(
  async (app) => {
    let stopping = false;
    const unused = new Set<Socket>();
    app.server.on("connection", (socket: Socket) => {
      unused.add(socket);
      socket.once("close", () => unused.delete(socket));
    });
    for (const event of ["request", "upgrade"] as const) {
      app.server.on(event, ({ socket }) => unused.delete(socket));
    }
    app.addHook("preClose", async () => {
      stopping = true;
      setTimeout(() => {
        for (const socket of unused) socket.destroy();
      }, firstRequestMs).unref();
    });
    app.addHook("onSend", async (_request, reply) => {
      if (stopping) reply.header("connection", "close");
    });
  },
  { name: "last-responses" },
);
