// The gateway's log reports that the control plane or Redis is lost, and also when it is back.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { System, until } from "../fixtures/system.ts";

let system: System | undefined;
let gateway: LoneGateway | undefined;
let redis: RedisServer | undefined;
afterEach(async () => {
  await system?.stop();
  await gateway?.stop();
  await redis?.stop();
  system = undefined;
  gateway = undefined;
  redis = undefined;
});

const linesWith = (log: string, words: RegExp) => log.split("\n").filter((line) => words.test(line));

it("logs that the control plane is lost, and logs once that it is connected again", async () => {
  system = await System.start({ workers: 2 });
  const { gateway: connected } = system;
  const log = () => readFileSync(join(connected.directory, "error.log"), "utf8");
  await system.untilConnected(10_000);
  const again = /\[error\].*push: connected to the control plane at ws:\S+ again/;
  expect(log()).not.toMatch(again);
  await system.killControlPlane();
  await until("the loss is logged", 5000, () => /\[error\].*push: (connection lost|cannot reach)/.test(log()));
  await system.startControlPlane();
  await until("the return is logged", 10_000, () => again.test(log()));
  await system.untilConnected(10_000);
  expect(linesWith(log(), again)).toHaveLength(1);
});

it("logs once for all workers that Redis fails, and once that it answers again", async () => {
  const port = await freePort();
  redis = new RedisServer(port);
  await redis.start();
  gateway = await LoneGateway.start({
    workers: 2,
    env: { SLUICE_REDIS_URL: redis.url },
    policies: [
      { name: "fleet", scope: "cluster", limits: [{ algorithm: "fixed-window", quota: 1e6, window: "366d" }] },
    ],
  });
  const { url } = gateway;
  await ask(url);
  const name = `Redis at 127\\.0\\.0\\.1:${port}`;
  const fails = new RegExp(`\\[error\\].*${name}: it fails`);
  const again = new RegExp(`\\[error\\].*${name}: it answers again`);
  expect(gateway.log).not.toMatch(fails);
  await redis.stop();
  await until("the outage is logged", 5000, async () => {
    await askAtOnce([url], 20);
    return fails.test(gateway?.log ?? "");
  });
  await askAtOnce([url], 50);
  expect(gateway.log).not.toMatch(again);
  redis = new RedisServer(port);
  await redis.start();
  await until("the return is logged", 5000, () => again.test(gateway?.log ?? ""));
  await until("all workers ask again", 5000, async () => (await gateway?.metric("sluice_redis_breakers_open")) === 0);
  expect(linesWith(gateway.log, fails)).toHaveLength(1);
  expect(linesWith(gateway.log, again)).toHaveLength(1);
});
