// A client goes away while Redis decides its request: what it was charged is refunded, whichever event came first.

import { createConnection, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { freePorts } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { childrenOf } from "../../fixtures/servers/system.ts";
import { until } from "../../fixtures/until.ts";

const deadlineMs = 1000;

/** Keeps the worker from its events for so long. A worker stopped by a signal would run its timers first when it goes on. */
const busy = `
    location = /busy {
        content_by_lua_block {
            local ffi = require "ffi"
            pcall(ffi.cdef, "int poll(void *files, unsigned long count, int ms);")
            ffi.C.poll(nil, 0, tonumber(ngx.var.arg_ms))
            ngx.say("over")
        }
    }
`;

let redis: RedisServer;
let gateway: LoneGateway;
let worker: number;

const policy = (name: string, limits: object[]) => ({
  name,
  scope: "cluster",
  match: { paths: [`/${name}`] },
  limits,
});

beforeAll(async () => {
  const [port] = (await freePorts(1)) as [number];
  redis = new RedisServer(port);
  await redis.start();
  gateway = await LoneGateway.start({
    policies: [
      policy("alone", [{ algorithm: "concurrency", quota: 9, ttl: "1m" }]),
      policy("together", [{ algorithm: "concurrency", quota: 9, ttl: "1m" }]),
      policy("late", [{ algorithm: "fixed-window", quota: 100, window: "366d" }]),
    ],
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` },
    edit: (config) => config.replace("location / {", `${busy}location / {`),
  });
  [worker] = childrenOf(gateway.pid) as [number];
  // After these requests, Redis knows the scripts.
  for (const name of ["alone", "together"]) {
    await ask(`${gateway.url}/${name}`);
    await until("the slot is back", async () => (await slotsHeld(name)) === 0);
  }
  // By now no request is under way.
  await sleep(200);
});
afterEach(() => {
  redis.goOn();
  process.kill(worker, "SIGCONT");
});
afterAll(async () => {
  redis?.goOn();
  await gateway?.stop();
  await redis?.stop();
});

async function begin(path: string): Promise<Socket> {
  const { hostname, port } = new URL(gateway.url);
  const socket = createConnection({ host: hostname, port: Number(port) });
  socket.on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  await sleep(50);
  return socket;
}

/** @returns calls of scripts, as Redis counts them */
async function scriptCalls(): Promise<number> {
  const stats = String(await redis.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

async function slotsHeld(name: string): Promise<number> {
  return (await redis.countOf(`sluice:s3:{default:${name}:0:}:default:concurrency:60000000`)) ?? -1;
}

async function windowCount(name: string): Promise<number> {
  return (await redis.countOf(`sluice:s3:{default:${name}:0:}:default:fixed-window:31622400000000`)) ?? Number.NaN;
}

it("frees the slot of a client that left while its request was sent to Redis by itself", async () => {
  const before = await scriptCalls();
  redis.hang();
  const client = await begin("/alone");
  client.destroy();
  await sleep(100);
  redis.goOn();
  await until("Redis has run the script", async () => (await scriptCalls()) > before);
  await until("the slot is back", async () => (await slotsHeld("alone")) === 0);
});

it("frees the slots of clients that left at the moment when the reply came", async () => {
  redis.hang();
  const [first, second] = [await begin("/together"), await begin("/together")];
  // When nginx goes on, both events wait for it: first the reply, then the client's leaving.
  process.kill(worker, "SIGSTOP");
  redis.goOn();
  await until("Redis has replied", async () => (await slotsHeld("together")) > 0);
  first.destroy();
  second.destroy();
  await sleep(100);
  process.kill(worker, "SIGCONT");
  await until("the slots are back", async () => (await slotsHeld("together")) === 0);
});

it("takes Redis' decision when its reply came while the worker was busy for longer than the deadline", async () => {
  await ask(`${gateway.url}/late`);
  await sleep(200);
  redis.hang();
  const answers = [];
  for (let i = 0; i < 4; i++) {
    answers.push(ask(`${gateway.url}/late`));
    await sleep(20);
  }
  const over = ask(`${gateway.url}/busy?ms=${deadlineMs + 300}`);
  await sleep(50);
  redis.goOn();
  await over;
  const remaining = (await Promise.all(answers)).map(({ headers }) => Number(headers["x-ratelimit-remaining"]));
  expect(remaining.sort((a, b) => b - a)).toEqual([98, 97, 96, 95]);
  expect(await windowCount("late")).toBe(5);
});
