// A gateway that loses its control plane in the middle of a change ends the change, and holds nothing back of the memory for it.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { frameText } from "../fixtures/documents/loaded-state.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../fixtures/servers/push-server.ts";
import { until } from "../fixtures/until.ts";

/** They take some 400 ms to apply. */
const policies = Array.from({ length: 6_000 }, (_, i) => ({
  app: "default",
  document: {
    name: `p${i}`,
    match: { paths: [`/p${i}`] },
    limits: [{ algorithm: "fixed-window", quota: 5, window: "1d" }],
  },
}));

it("a snapshot that has arrived is applied, although the socket is lost meanwhile", async () => {
  const port = await freePort();
  const env = { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, SLUICE_GATEWAY_TOKEN: "x".repeat(24) };
  let server = new PushServer(port);
  const gateway = await LoneGateway.start({ workers: 1, policies: [], env });
  try {
    await until("it is connected", () => server.socket !== undefined);
    const head = { type: "snapshot", epoch: "e1", revision: 5, format: 1, proof: "n", edition: "one" };
    server.socket?.send(frameText({ ...head, policies } as never));
    await until("it has been sent", () => server.socket?.bufferedAmount === 0);
    // So that the gateway loads it by now. If the machine is too busy for that, the gateway still reads all that was sent.
    await sleep(150);
    server.socket?.terminate();
    await server.stop();
    server = new PushServer(port);
    await until("it is connected again", () => server.received.some(({ type }) => type === "hello"));
    expect(server.received.find(({ type }) => type === "hello")).toMatchObject({ epoch: "e1", revision: 5 });
    // A collector that was left postponed would let it grow to ten times what it was during the load.
    const usedBytes = () => gateway.metric('sluice_lua_memory_bytes{worker="0"}');
    await until("the collector has been round", async () => (await usedBytes()) < 40e6);
  } finally {
    await gateway.stop();
    await server.stop();
  }
});
