// While the control plane stops, each response closes its connection, and a connection that has sent nothing is closed:
// browsers open such connections in advance. Otherwise both would delay the stop until they time out.

import type { Socket } from "node:net";
import fp from "fastify-plugin";

export default fp(
  async (app) => {
    let stopping = false;
    const open = new Set<Socket>();
    app.server.on("connection", (socket: Socket) => {
      open.add(socket);
      socket.once("close", () => open.delete(socket));
    });
    app.addHook("preClose", async () => {
      stopping = true;
      for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
    });
    app.addHook("onSend", async (_request, reply) => {
      if (stopping) reply.header("connection", "close");
    });
  },
  { name: "last-responses" },
);
