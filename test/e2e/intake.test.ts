// A gateway that takes ten thousand policies in goes on answering: it does so in slices.

import { once } from "node:events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { snapshotFrame } from "../../control-plane/src/push/snapshot-frame.ts";
import { freePorts } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";

/** In one go it takes 400 ms of CPU. A slice is 2 ms, and the machine may have other things to do. */
const mostSliceSeconds = 0.2;

let server: WebSocketServer;
let gateway: LoneGateway;
let socket: WebSocket;
beforeAll(async () => {
  const [port = 0] = await freePorts(1);
  server = new WebSocketServer({ port, host: "127.0.0.1", path: "/api/v1/push" });
  const connection = once(server, "connection");
  gateway = await LoneGateway.start({
    policies: [],
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, SLUICE_GATEWAY_TOKEN: "t", SLUICE_GATEWAY_ID: "g" },
  });
  [socket] = (await connection) as [WebSocket];
});
afterAll(async () => {
  await gateway?.stop();
  socket?.terminate();
  server?.close();
});

it("takes 10,000 policies in, and what is edited after, in slices", async () => {
  for (const revision of [2, 3]) {
    const policies = Array.from({ length: 10_000 }, (_, i) => ({
      app: "default",
      document: JSON.stringify({
        name: `p${i}`,
        match: { hosts: [`h${i % 1000}.example`] },
        limits: [{ algorithm: "fixed-window", quota: i === 7 ? revision : 1, window: "1d" }],
      }),
    }));
    const state = { epoch: "intake", revision, policies, templates: [], bans: [], callers: [] };
    const answer = new Promise<object>((resolve) => {
      socket.on("message", (data) => {
        const message = JSON.parse(String(data));
        if (message.revision === revision) resolve(message);
      });
    });
    socket.send(snapshotFrame(state, Date.now()).bytes, { binary: false });
    expect(await answer).toEqual({ type: "applied", epoch: "intake", revision });
  }
  expect(await gateway.metric("sluice_snapshot_policies")).toBe(10_000);
  const longest = await gateway.metric("sluice_snapshot_slice_seconds_max");
  expect(longest).toBeGreaterThan(0);
  expect(longest).toBeLessThan(mostSliceSeconds);
});
