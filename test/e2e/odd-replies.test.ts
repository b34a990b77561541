// A server that is no Redis of ours: what it replies decides nothing.

import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { ask } from "../fixtures/requests.ts";

let server: Server;
let gateway: LoneGateway;
let reply = "";

const policy = (name: string, limits: number) => ({
  name,
  scope: "cluster",
  onStoreFailure: "deny",
  match: { paths: [`/${name}`] },
  limits: Array.from({ length: limits }, (_, i) => ({
    name: `n${i}`,
    algorithm: "fixed-window",
    quota: 100_000,
    window: "1d",
  })),
});

beforeAll(async () => {
  server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (sent) => {
      const commands = sent.toString("latin1").match(/\$7\r\nevalsha|\$3\r\nget/gi)?.length ?? 0;
      setTimeout(() => socket.write(reply.repeat(commands)), 5);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  gateway = await LoneGateway.start({
    policies: [policy("one", 1), policy("two", 2)],
    env: { SLUICE_REDIS_URL: `redis://127.0.0.1:${port}`, SLUICE_REDIS_DEADLINE_MS: "1000" },
  });
});
afterAll(async () => {
  await gateway?.stop();
  server?.close();
});

it.each([
  ["a short string", "$3\r\nabc\r\n"],
  ["an empty string", "$0\r\n\r\n"],
  ["nothing", "$-1\r\n"],
  ["a status", "+OK\r\n"],
  ["a number", ":1\r\n"],
  ["an empty list", "*0\r\n"],
  ["a short list", "*2\r\n:1\r\n:1\r\n"],
])("%s for a reply: it did not decide", async (_, text) => {
  reply = text;
  for (const path of ["/one", "/two"]) {
    const url = `${gateway.url}${path}`;
    const answers = [await ask(url), ...(await Promise.all(Array.from({ length: 20 }, () => ask(url))))];
    for (const { body } of answers) expect(JSON.parse(body).title).toBe("Limit cannot be checked");
  }
});
