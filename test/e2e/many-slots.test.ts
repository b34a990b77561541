// Slots of concurrency are renewed while their requests run. One app's, however many, leave a worker its time, and other apps their slots.

import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { childrenOf, cpuUs } from "../../bench/cpu-time.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const slots = (name: string, quota: number) => ({ name, algorithm: "concurrency", quota, ttl: "1s" });
const idle = 300;
const policiesOfOne = 100;

const service = createServer(({ url }, response) => {
  if (url === "/other") response.end("at once");
});
const sockets: Socket[] = [];
let gateway: LoneGateway;
beforeAll(async () => {
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  const { port } = service.address() as AddressInfo;
  gateway = await LoneGateway.start({
    policies: [{ name: "slots", match: { paths: ["/one"] }, key: [], limits: [slots("one", 1)] }],
    otherPolicies: {
      many: Array.from({ length: policiesOfOne }, (_, i) => ({
        name: `slots-${i}`,
        match: { paths: ["/many"] },
        key: [],
        limits: ["a", "b", "c", "d"].map((name) => slots(name, 100_000)),
      })),
    },
    env: { SLUICE_UPSTREAM: `http://127.0.0.1:${port}` },
  });
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await gateway?.stop();
  service.closeAllConnections();
  service.close();
});

function begin(path: string): void {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1").on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  sockets.push(socket);
}

it("120,000 slots of an app, of a life of a second each, take a part of a worker, and none of another app's slots", async () => {
  begin("/one");
  await sleep(200);
  expect((await ask(`${gateway.url}/one`)).status).toBe(429);
  for (let i = 0; i < idle; i++) {
    begin("/many");
    // All at once, they would take the worker for longer than slots live.
    await sleep(20);
  }
  const workers = childrenOf(gateway.pid);
  const [cpu, beganMs] = [cpuUs(workers), performance.now()];
  while (performance.now() - beganMs < 4_000) {
    expect((await ask(`${gateway.url}/other`)).status).toBe(200);
    await sleep(20);
  }
  const share = (cpuUs(workers) - cpu) / 1_000 / (performance.now() - beganMs);
  expect((await ask(`${gateway.url}/one`)).status).toBe(429);
  expect(share).toBeLessThan(0.5);
});
