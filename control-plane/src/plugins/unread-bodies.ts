// An answer that does not wait for the request's body closes the connection: nobody reads on what a stranger sends, or
// waits for it. Mostly that is a 401. Closed at once, the connection would be reset while the client still sends, and many
// clients then tell of the broken connection instead of the answer. So what comes within a second is read and dropped.

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import fp from "fastify-plugin";

const lingerMs = 1_000;

export default fp(
  async (app) => {
    app.addHook("onSend", async ({ raw }, reply) => {
      if (raw.complete || !announcesBody(raw)) return;
      reply.header("connection", "close");
      linger(raw.socket);
    });
  },
  { name: "unread-bodies" },
);

function announcesBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** Behind an answer that closes, Node drops what comes and calls destroySoon(), which closes both directions. */
function linger(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once("close", () => clearTimeout(timer));
  };
}
