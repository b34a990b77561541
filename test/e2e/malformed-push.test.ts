// Messages over the push socket that no control plane of ours writes change nothing and end nothing.

import { afterAll, beforeAll, expect, it } from "vitest";
import { frameText } from "../fixtures/documents/loaded-state.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../fixtures/servers/push-server.ts";
import { until } from "../fixtures/until.ts";

let server: PushServer;
let gateway: LoneGateway;
beforeAll(async () => {
  const port = await freePort();
  server = new PushServer(port);
  gateway = await LoneGateway.start({ env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` } });
});
afterAll(async () => {
  await gateway?.stop();
  await server?.stop();
});

const order = { type: "counter", id: 7, do: "read", app: "default", policy: "users", key: ["ann"] };
const malformed: Record<string, object> = {
  "a key of lists": { ...order, key: [["ann"]] },
  "a key of nulls": { ...order, key: [null] },
  "a key that is a text": { ...order, key: "ann" },
  "no key": { ...order, key: undefined },
  "no id": { ...order, id: undefined },
  "an id that is none": { ...order, id: "7" },
  "a deed that nobody knows": { ...order, do: "constructor" },
  "an app that is a list": { ...order, app: ["default"] },
  "units that are a text": { ...order, do: "top-up", units: "5" },
  "no units": { ...order, do: "top-up" },
  "part of a unit": { ...order, do: "top-up", units: 0.5 },
  "a limit that is an object": { ...order, limit: { name: "default" } },
  "half a surrogate pair in the key": { ...order, key: ["\ud800"] },
};

it("a snapshot that is not UTF-8 is refused in UTF-8, and the socket stays open", async () => {
  await until("the gateway has said hello", () => server.received.some(({ type }) => type === "hello"));
  const { socket } = server;
  server.received = [];
  const policies = [{ app: "default", document: { "na\xa4me": "users", description: "\xff" } }];
  const snapshot = frameText({ type: "snapshot", epoch: "e", revision: 9, format: 1, policies });
  socket?.send(Buffer.from(snapshot, "latin1"), { binary: false });
  await until("it is refused", () => server.received.some(({ type }) => type === "refused"));
  expect(server.received[0]).toMatchObject({ type: "refused", revision: 9 });
  expect(server.received[0]?.problems).toContainEqual(
    expect.objectContaining({ path: "policies[0].document.na?me", expected: expect.stringContaining("no such field") }),
  );
  expect(server.socket).toBe(socket);
});

it("a malformed order about a counter is passed over without a Lua error, no snapshot is refused, and the socket stays open", async () => {
  const limits = [{ algorithm: "fixed-window", quota: 5, window: "1m" }];
  const document = { name: "users", key: ["header:x-user"], limits };
  const snapshot = { type: "snapshot", format: 1, epoch: "e", revision: 1, policies: [{ app: "default", document }] };
  await server.pushGood(frameText(snapshot), "e");
  const { socket } = server;
  for (const [what, message] of Object.entries(malformed)) {
    server.received = [];
    socket?.send(JSON.stringify(message));
    socket?.send(JSON.stringify({ ...order, id: 8 }));
    await until(`${what} is passed over`, () => server.received.some(({ type, id }) => type === "counter" && id === 8));
    expect([what, server.received.map(({ type }) => type)]).toEqual([what, ["counter"]]);
  }
  expect(server.socket).toBe(socket);
  expect(gateway.log).toContain("expected a message that this gateway understands");
  expect(gateway.log).not.toMatch(/attempt to|traceback/);
});
