// A response that does not wait for the request's body, mostly a 401, closes the connection: nobody should have to read what
// a stranger sends. If the connection closed at once, it would be reset while the client still sends, and many clients would
// report the broken connection instead of the response. So what arrives is read and dropped, until nothing came for a second,
// and for three seconds at most.

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import fp from "fastify-plugin";

const silenceMs = 1_000;
const mostPeriods = 3;

export default fp(
  async (app) => {
    app.addHook("onSend", async ({ raw }, reply) => {
      if (raw.complete || !announcesBody(raw)) return;
      reply.header("connection", "close");
      linger(raw.socket);
      // Node would drop it before the sizes of its chunks are checked.
      raw.resume();
    });
  },
  { name: "unread-bodies" },
);

function announcesBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/**
 * After a response that closes the connection, Node drops what arrives and calls destroySoon(), which would close both
 * directions at once.
 */
function linger(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end();
    let periods = 0;
    let bytes = socket.bytesRead;
    const endOfPeriod = () => {
      periods += 1;
      if (socket.bytesRead === bytes || periods === mostPeriods) socket.destroy();
      bytes = socket.bytesRead;
    };
    // If this process was busy, Node runs the timer first, and reads what arrived meanwhile before it runs what setImmediate took.
    const timer = setInterval(() => setImmediate(endOfPeriod), silenceMs);
    socket.once("close", () => clearInterval(timer));
  };
}
