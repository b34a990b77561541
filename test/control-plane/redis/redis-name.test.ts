// The name of Redis leads to another server while the old one still answers: the control plane goes there by itself.

import dns from "node:dns";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { until, untilWithin } from "../../fixtures/until.ts";

/** Connections become 30 s old at most. A busy machine may take a while to see what follows. */
const renewedWithinMs = 180_000;

const name = "redis.test";
const policy = {
  scope: "cluster",
  key: ["header:x-user"],
  limits: [{ algorithm: "fixed-window", quota: 9, window: "366d" }],
};

/** Node asks the machine's own name server: for this name, the test answers in its place. */
function leadName(): (address: string) => void {
  let leadsTo = "127.0.0.1";
  const { lookup } = dns;
  const spy = vi.spyOn(dns, "lookup").mockImplementation(((host: string, options: object, callback: LookedUp) => {
    if (host !== name) return lookup(host, options, callback as never);
    const found = { address: leadsTo, family: 4 };
    if ("all" in options && options.all) callback(null, [found]);
    else callback(null, found.address, found.family);
  }) as never);
  onFinished(async () => spy.mockRestore());
  return (address) => {
    leadsTo = address;
  };
}

type LookedUp = (error: null, address: string | object[], family?: number) => void;

const connections = async (redis: RedisServer) =>
  Number(/^connected_clients:(\d+)/m.exec(String(await redis.command("INFO", "clients")))?.[1]);

it("carries out every order for counters meanwhile, and leaves no connection at the old server", async () => {
  const port = await freePort();
  const start = async (host: string) => {
    const redis = new RedisServer(port, {}, [], host);
    onFinished(() => redis.stop());
    await redis.start();
    return redis;
  };
  const [old, other] = await Promise.all([start("127.0.0.1"), start("127.0.0.2")]);
  const lead = leadName();
  const control = await startControlPlane({ SLUICE_REDIS_URL: `redis://${name}:${port}` });
  await until("Redis is ok", async () => (await control.call("GET", "readyz")).body.redis === "ok");
  expect((await control.call("PUT", "/apps/default/policies/books", { body: policy })).status).toBe(201);
  expect(await connections(other)).toBe(1);
  lead("127.0.0.2");
  const statuses: Record<number, number> = {};
  let done = false;
  const orders = (async () => {
    const body = { policy: "books", key: ["a"], units: 1 };
    while (!done) {
      const { status } = await control.call("POST", "/apps/default/counters", { body });
      statuses[status] = (statuses[status] ?? 0) + 1;
      await sleep(5);
    }
  })();
  onFinished(async () => {
    done = true;
    await orders;
  });
  const identity = async () => (await control.call("GET", "/gateways")).body.redis.id;
  await untilWithin("the new server is used", renewedWithinMs, async () => {
    const id = await other.command("GET", "sluice:epoch");
    return id !== null && (await identity()) === id;
  });
  // That of this test is one of them.
  await untilWithin("the old one is left", renewedWithinMs, async () => (await connections(old)) === 1);
  done = true;
  await orders;
  expect(Object.keys(statuses)).toEqual(["200"]);
  expect((await control.call("GET", "readyz")).body.redis).toBe("ok");
});
