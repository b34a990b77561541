// With redis+cluster://, counters are where a real cluster places them, and each request is counted once while it moves them or a node
// dies. test/gateway/redis/redis-cluster_spec.lua plays all the rest in virtual time.

import { afterAll, beforeAll, expect, it } from "vitest";
import { slotOf } from "../../gateway/src/redis/hash-slot.ts";
import { callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { rightsOf } from "../fixtures/documents/documented-rights.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisCluster } from "../fixtures/servers/redis-cluster.ts";
import type { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until } from "../fixtures/until.ts";

const caller = { app: "default", token: "a-caller-of-these-tests" };
const names = Array.from({ length: 12 }, (_, i) => `spread-${i}`);
/** Without Redis these policies allow: a request that Redis did not decide shows as one too many. */
const policy = (name: string, quota: number) => ({
  name,
  scope: "cluster",
  onStoreFailure: "allow",
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});
const keyOf = (name: string) => `sluice:s3:{default:${name}:0:}`;
/** Names whose counters are on the first of three nodes. */
const [lost, lostIdle] = ["a", "b", "c", "d", "e", "f", "g", "h"]
  .map((letter) => `lost-${letter}`)
  .filter((name) => slotOf(keyOf(name)) < Math.floor(16384 / 3)) as [string, string];
const policies = [
  ...names.map((name) => policy(name, 10)),
  policy("moving", 500),
  { ...policy("two-limits", 40), limits: ["a", "b"].map((name) => ({ ...policy("", 40).limits[0], name })) },
  policy("asked-wide", 5),
  policy("asked-narrow", 1),
  policy("asked-last", 5),
  policy(lost, 60),
  policy(lostIdle, 1_000_000),
];

let redis: RedisCluster;
/** The first has one worker, because a test cannot choose between two. */
let gateways: LoneGateway[] = [];
const user = ["--user", "sluice", "on", ">s3cret/", ...rightsOf("Cluster")];
beforeAll(async () => {
  // The first node has a replica.
  redis = await RedisCluster.start(3, user, 1);
  const SLUICE_REDIS_URL = redis.url("sluice:s3cret%2F@");
  const started = [1, 2].map((workers) =>
    LoneGateway.start({
      policies,
      callers: [callerOf(caller)],
      workers,
      env: { SLUICE_REDIS_URL, SLUICE_REDIS_DEADLINE_MS: "5000" },
    }),
  );
  gateways = await Promise.all(started);
});
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  await redis?.stop();
});

const at = (path: string) => gateways.map(({ url }) => url + path);
const keysOf = async (node: RedisServer) => (await node.command("KEYS", "*")) as string[];
/** @returns how often this node has replied with this error */
const errorsOf = async (node: RedisServer, code: string) => {
  const stats = String(await node.command("INFO", "errorstats"));
  return Number(new RegExp(`^errorstat_${code}:count=(\\d+)`, "m").exec(stats)?.[1] ?? 0);
};
const placeOf = async (name: string) => {
  const slot = slotOf(keyOf(name));
  const from = await redis.ownerOf(slot);
  const to = redis.nodes.slice(0, 3).find((node) => node !== from) as RedisServer;
  return { slot, from, to };
};

it("counts policies on all nodes exactly, with only the rights that docs/cluster.md lists", async () => {
  const statuses = await Promise.all(names.map((name) => askAtOnce(at(`/${name}`), 60)));
  for (const counted of statuses) expect(counted).toEqual({ 404: 10, 429: 50 });
  let count = 0;
  for (const node of redis.nodes.slice(0, 3)) {
    const keys = (await keysOf(node)).filter((key) => key.includes(":spread-"));
    expect(keys.length).toBeGreaterThan(0);
    count += keys.length;
    for (const key of keys) expect(slotOf(key)).toBe(await redis.slotOf(key));
  }
  expect(count).toBe(names.length);
});

it("reports every check of the check API in every slot, and charges for all or none", async () => {
  const checks = ["asked-wide", "asked-narrow", "asked-last"].map((name) => ({ policy: name, key: [] }));
  const both = () => check((gateways[0] as LoneGateway).privateUrl, caller, checks);
  expect(await both()).toMatchObject({
    allowed: true,
    results: [{ remaining: 4 }, { remaining: 0 }, { remaining: 4 }],
  });
  for (let i = 0; i < 8; i++) {
    expect(await both()).toMatchObject({
      allowed: false,
      results: [
        { allowed: true, limit: 5, remaining: 4 },
        { allowed: false, limit: 1, remaining: 0 },
        { allowed: true, limit: 5, remaining: 4 },
      ],
    });
  }
});

it("counts exactly while a slot moves under load (ASK, then MOVED)", async () => {
  const { slot, from, to } = await placeOf("moving");
  const statuses: Record<number, number> = {};
  let done = false;
  const load = Promise.all(
    Array.from({ length: 16 }, async (_, i) => {
      while (!done) {
        const { status } = await ask(at("/moving")[i % 2] as string);
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
    }),
  );
  const untilAdmitted = (count: number) => until(`${count} are admitted`, () => (statuses[404] ?? 0) >= count);
  try {
    await untilAdmitted(30);
    await redis.beginMove(slot, from, to);
    await untilAdmitted(80);
    await redis.moveKeys(slot, from, to);
    // From now on each request is redirected by ASK; those that come together, 16 at most, share a call.
    await untilAdmitted((statuses[404] ?? 0) + 96);
    expect(await errorsOf(from, "ASK")).toBeGreaterThanOrEqual(4);
    await redis.endMove(slot, to);
    await until("some are refused", () => (statuses[429] ?? 0) > 50);
  } finally {
    done = true;
    await load;
  }
  expect(Object.keys(statuses)).toEqual(["404", "429"]);
  expect(statuses[404]).toBe(500);
  expect(await errorsOf(from, "MOVED")).toBeGreaterThan(0);
  expect((await keysOf(to)).filter((key) => key.includes(":moving:"))).toHaveLength(1);
});

it("waits for a slot with some counters already moved (TRYAGAIN), and charges nothing twice", async () => {
  expect(await askAtOnce(at("/two-limits"), 10)).toEqual({ 404: 10 });
  const { slot, from, to } = await placeOf("two-limits");
  await redis.beginMove(slot, from, to);
  const [key] = (await from.command("CLUSTER", "GETKEYSINSLOT", `${slot}`, "1")) as string[];
  await from.command("MIGRATE", "127.0.0.1", `${to.port}`, key as string, "0", "5000");
  const asked = ask(at("/two-limits")[0] as string);
  await until(
    "Redis says TRYAGAIN",
    async () => (await errorsOf(to, "TRYAGAIN")) + (await errorsOf(from, "TRYAGAIN")) > 8,
  );
  await redis.moveKeys(slot, from, to);
  await redis.endMove(slot, to);
  expect((await asked).headers["x-ratelimit-remaining"]).toBe("29");
  expect(await askAtOnce(at("/two-limits"), 60)).toEqual({ 404: 29, 429: 31 });
});

it("follows a replica that takes a dead node's place, keeps its counts, and shows no client an error", async () => {
  const [busy, idle] = gateways as [LoneGateway, LoneGateway];
  const [from, , , replica] = redis.nodes as [RedisServer, RedisServer, RedisServer, RedisServer];
  expect(await askAtOnce([`${busy.url}/${lost}`], 20)).toEqual({ 404: 20 });
  expect((await ask(`${idle.url}/${lostIdle}`)).headers["x-ratelimit-remaining"]).toBeDefined();
  await until("the replica has all", async () => {
    const keys = await keysOf(from);
    return (await keysOf(replica)).length === keys.length && keys.some((key) => key.includes(`:${lost}:`));
  });
  await from.stop("SIGKILL");
  const undecided = () => askAtOnce([`${busy.url}/${lost}`], 5);
  expect(await undecided()).toEqual({ 404: 5 });
  const reported = async () => (await ask(`${busy.url}/${lost}`)).headers["x-ratelimit-remaining"];
  const following = (async () => {
    // After eight counted answers in a row, the gateway has found the replica for good.
    let counted: string[] = [];
    await until("it counts again", async () => {
      const remaining = await reported();
      counted = remaining === undefined ? [] : [...counted, remaining];
      return counted.length === 8;
    });
  })();
  const slot = slotOf(keyOf(lostIdle));
  const tellers = redis.nodes.filter((node) => node !== from);
  await until("the replica serves", async () => {
    if (!String(await replica.command("ROLE")).startsWith("master")) return false;
    const told = await Promise.all(tellers.map((node) => node.command("CLUSTER", "SLOTS")));
    return told.every((ranges) =>
      (ranges as [number, number, [string, number]][]).some(
        ([first, last, [, port]]) => first <= slot && slot <= last && port === replica.port,
      ),
    );
  });
  // This gateway has sent nothing meanwhile, so all of these find out at once.
  const answers = await Promise.all(Array.from({ length: 40 }, () => ask(`${idle.url}/${lostIdle}`)));
  expect(answers.filter(({ headers }) => headers["x-ratelimit-remaining"] === undefined)).toHaveLength(0);
  await following;
  // Requests that passed meanwhile are charged within a quarter of a second.
  await until("they are charged", async () => (await busy.metric("sluice_redis_late_units_total")) >= 5);
  const left = Number(await reported());
  expect(left).toBeLessThan(40);
  const all = await askAtOnce([`${busy.url}/${lost}`], 100);
  expect([all[404] ?? 0, all[429]]).toEqual([left, 100 - left]);
});
