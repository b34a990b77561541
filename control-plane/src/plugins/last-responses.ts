// While the control plane stops, each response closes its connection: a connection that is kept alive would delay the stop
// until it times out.

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
