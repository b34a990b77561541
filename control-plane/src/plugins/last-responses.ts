// While stopping, a response closes its connection: one kept alive for a next request would hold up the stop until it
// times out.

import fp from "fastify-plugin";

export default fp(
  async (app) => {
    let stopping = false;
    app.addHook("preClose", async () => {
      stopping = true;
    });
    app.addHook("onSend", async (_request, reply) => {
      if (stopping) reply.header("connection", "close");
    });
  },
  { name: "last-responses" },
);
