// An answer that does not wait for the request's body closes the connection: nobody reads on what a stranger sends, or
// waits for it. Mostly that is a 401.

import type { IncomingMessage } from "node:http";
import fp from "fastify-plugin";

export default fp(
  async (app) => {
    app.addHook("onSend", async ({ raw }, reply) => {
      if (!raw.complete && announcesBody(raw)) reply.header("connection", "close");
    });
  },
  { name: "unread-bodies" },
);

function announcesBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}
