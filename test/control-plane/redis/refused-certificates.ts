// A program that connects to a Redis by TLS, in every way, whose certificate it does not trust. Each socket reports a second error
// after the refusal, as Node does when the server's alert comes late: that happens when the event loop stands still meanwhile, and
// not reliably. An error to which nobody listens ends the program.

import { setTimeout as sleep } from "node:timers/promises";
import { TLSSocket } from "node:tls";
import { clientFor } from "../../../control-plane/src/redis/redis-client.ts";
import { parseRedisUrl } from "../../../control-plane/src/redis/redis-url.ts";

const { emit } = TLSSocket.prototype;
const alerted = new WeakSet<TLSSocket>();
TLSSocket.prototype.emit = function (this: TLSSocket, name: string, ...args: unknown[]) {
  if (name === "error" && !alerted.has(this)) {
    alerted.add(this);
    setImmediate(() => this.emit("error", new Error("tlsv1 alert decode error")));
  }
  return emit.apply(this, [name, ...args] as never);
};

const [server = ""] = process.argv.slice(2);
const urls = [
  `rediss://:s3%2Fcret@${server}`,
  `rediss+sentinel://:s3%2Fcret@${server}/main`,
  `rediss+cluster://:s3%2Fcret@${server}`,
];
let refused = 0;
const clients = urls.flatMap((url) =>
  Array.from({ length: 4 }, () => {
    const deployment = parseRedisUrl(url);
    if ("expected" in deployment) throw new Error(`${url}: expected ${deployment.expected}`);
    const client = clientFor(deployment);
    const note = (error: Error) => {
      if (
        /certificate/.test(error.message) ||
        /certificate/.test(String((error as { lastNodeError?: Error }).lastNodeError))
      )
        refused += 1;
    };
    client.on("error", note);
    client.on("sentinelError", note);
    client.on("+node", (node) => node.on("error", note));
    return client;
  }),
);
while (refused < 30) await sleep(10);
for (const client of clients) client.disconnect();
console.log(`done: ${refused} refused`);
process.exit(0);
