// A server that is not one of our Redis decides nothing by its replies.

import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { ask } from "../fixtures/requests.ts";

let server: Server;
let gateway: LoneGateway;
let reply = "";

const policy = (name: string, limits: number, more = {}) => ({
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
  ...more,
});
const settled = { cost: { from: "response-bytes" } };
const policies = [
  policy("one", 1),
  policy("two", 2),
  policy("settled", 1, settled),
  policy("leased", 1, { consistency: "leased" }),
  // The quota is too small for a lease, so Redis decides each request.
  { ...policy("exact", 1, { consistency: "leased" }), limits: [{ algorithm: "fixed-window", quota: 2, window: "1d" }] },
];
const list = (...elements: string[]) => `*${elements.length}\r\n${elements.join("")}`;
const strings = (count: number) => list(...Array.from({ length: count }, () => "$1\r\na\r\n"));

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
    policies,
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
  ["a short list", list(":1\r\n", ":1\r\n")],
  ["nothing in a list as long as is expected of a deferred charge", list("$-1\r\n", "$-1\r\n", "$-1\r\n", "$-1\r\n")],
  ["as many strings as numbers are expected of a deferred charge", strings(4)],
  ["as many strings as numbers are expected of a decision", strings(7)],
  ["as many strings as numbers are expected of two limits", strings(13)],
  ["as many strings as numbers are expected of a lease", strings(8)],
])("%s as a reply decides nothing", async (_, text) => {
  reply = text;
  for (const { name } of policies) {
    const url = `${gateway.url}/${name}`;
    const answers = [await ask(url), ...(await Promise.all(Array.from({ length: 20 }, () => ask(url))))];
    for (const { body } of answers) expect(body, name).toContain("Limit cannot be checked");
  }
});
