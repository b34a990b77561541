// With redis+cluster://, counters are where the cluster places them, and each request is counted once while it moves them.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { slotOf } from "../../gateway/src/redis/hash-slot.ts";
import { callerOf, check } from "../fixtures/check-api-client.ts";
import { rightsOf } from "../fixtures/documented-rights.ts";
import { HeldService } from "../fixtures/held-service.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisCluster } from "../fixtures/redis-cluster.ts";
import type { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAndLeave, askAtOnce, countStatuses, slowestOf } from "../fixtures/requests.ts";
import { excess, load } from "../fixtures/steady-load.ts";
import { until } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const caller = { app: "default", token: "a-caller-of-these-tests" };
const names = Array.from({ length: 12 }, (_, i) => `spread-${i}`);
/** Without Redis these policies allow: a request that Redis did not decide shows as one too many. */
const policy = (name: string, quota: number, paths = [`/${name}`]) => ({
  name,
  scope: "cluster",
  onStoreFailure: "allow",
  match: { paths },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});
const keyOf = (name: string) => `sluice:s3:{default:${name}:0:}`;
const nodeOf = (name: string) => Math.floor((slotOf(keyOf(name)) * 3) / 16384);
/** These two names lie on different nodes. */
const heldFirst = "held-first";
const heldLast = ["a", "b", "c", "d", "e", "f"]
  .map((letter) => `held-${letter}`)
  .find((name) => nodeOf(name) !== nodeOf(heldFirst)) as string;
/** One of these names lies on each node. */
const onEach = [0, 1, 2].map((node) =>
  ["a", "b", "c", "d", "e", "f", "g", "h"].map((letter) => `on-${letter}`).find((name) => nodeOf(name) === node),
) as string[];
const slots = (name: string, priority: number) => ({
  ...policy(name, 0, ["/held"]),
  priority,
  limits: [{ algorithm: "concurrency", quota: 9, ttl: "1m" }],
});
const policies = [
  slots(heldFirst, 1),
  slots(heldLast, 0),
  ...names.map((name) => policy(name, 10)),
  ...onEach.map((name) => policy(name, 1_000_000)),
  policy("moved", 60),
  policy("moving", 500),
  { ...policy("two-limits", 40), limits: ["a", "b"].map((name) => ({ ...policy("", 40).limits[0], name })) },
  policy("wide", 5, ["/wide", "/both"]),
  policy("narrow", 1, ["/both"]),
  policy("last", 5, ["/last", "/both"]),
  policy("asked-wide", 5),
  policy("asked-narrow", 1),
  policy("asked-last", 5),
  policy("outage", 1_000_000),
  {
    ...policy("leased", 0),
    onStoreFailure: "deny",
    consistency: "leased",
    limits: [{ algorithm: "token-bucket", quota: 200, window: "1s" }],
  },
];
/** This policy allows one request at a time per key, by slots that live a second unless they are renewed. */
const renewed = {
  ...policy("renewed", 0),
  key: ["header:x-key"],
  limits: [{ name: "slots", algorithm: "concurrency", quota: 1, ttl: "1s" }],
};

let redis: RedisCluster;
let gateways: LoneGateway[] = [];
const user = ["--user", "sluice", "on", ">s3cret/", ...rightsOf("Cluster")];
beforeAll(async () => {
  redis = await RedisCluster.start(3, [...user, "--cluster-require-full-coverage", "no"]);
});
afterAll(() => redis?.stop());
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.stop();
  for (const node of redis.nodes) await node.command("FLUSHALL");
});

const start = async (
  count = 2,
  cluster: Pick<RedisCluster, "url"> = redis,
  workers = 2,
  deadlineMs = 5000,
): Promise<string[]> => {
  const started = Array.from({ length: count }, () =>
    LoneGateway.start({
      policies,
      callers: [callerOf(caller)],
      workers,
      env: { SLUICE_REDIS_URL: cluster.url("sluice:s3cret%2F@"), SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` },
    }),
  );
  gateways = await Promise.all(started);
  return gateways.map(({ url }) => url);
};
const seeds = (...proxies: TcpProxy[]) => ({
  url: (signIn = "") => `redis+cluster://${signIn}${proxies.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
});
const at = (urls: readonly string[], path: string) => urls.map((url) => url + path);
const keysOf = async (node: RedisServer) => (await node.command("KEYS", "*")) as string[];
/** @returns how often this node has replied with this error */
const errorsOf = async (node: RedisServer, code: string) => {
  const stats = String(await node.command("INFO", "errorstats"));
  return Number(new RegExp(`^errorstat_${code}:count=(\\d+)`, "m").exec(stats)?.[1] ?? 0);
};
const placeOf = async (name: string) => {
  const slot = slotOf(keyOf(name));
  const from = await redis.ownerOf(slot);
  const to = redis.nodes.find((node) => node !== from) as RedisServer;
  return { slot, from, to };
};

describe("with three nodes and two gateways", () => {
  it("counts policies on all nodes exactly, with only the rights that docs/cluster.md lists", async () => {
    const urls = await start();
    const statuses = await Promise.all(names.map((name) => askAtOnce(at(urls, `/${name}`), 60)));
    for (const counted of statuses) expect(counted).toEqual({ 404: 10, 429: 50 });
    let count = 0;
    for (const node of redis.nodes) {
      const keys = await keysOf(node);
      expect(keys.length).toBeGreaterThan(0);
      count += keys.length;
      for (const key of keys) expect(slotOf(key)).toBe(await redis.slotOf(key));
    }
    expect(count).toBe(names.length);
  });

  it("frees what a request holds in one slot when its client leaves while another slot is called", async () => {
    const [url] = await start(1, redis, 1);
    const heldOf = async (name: string) => {
      const key = `${keyOf(name)}:default:concurrency:60000000`;
      return (await (await redis.ownerOf(slotOf(key))).countOf(key)) ?? 0;
    };
    expect((await ask(`${url}/held`)).status).toBe(404);
    await until("the slots are back", 3000, async () => (await heldOf(heldFirst)) + (await heldOf(heldLast)) === 0);
    const hanging = await redis.ownerOf(slotOf(keyOf(heldLast)));
    const watching = await redis.ownerOf(slotOf(keyOf(heldFirst)));
    const key = `${keyOf(heldFirst)}:default:concurrency:60000000`;
    const held = () => watching.countOf(key);
    hanging.hang();
    try {
      const leaving = new AbortController();
      const answer = fetch(`${url}/held`, { signal: leaving.signal }).catch(() => undefined);
      await until("the first slot is held", 3000, async () => (await held()) === 1);
      leaving.abort();
      await answer;
      await until("it is back", 2000, async () => (await held()) === 0);
    } finally {
      hanging.goOn();
    }
    await until("the other is back", 3000, async () => (await heldOf(heldLast)) === 0);
  });

  it("renews slots on all nodes, also where one has moved, and frees them", async () => {
    const service = await HeldService.start();
    try {
      const env = {
        SLUICE_UPSTREAM: service.url,
        SLUICE_REDIS_URL: redis.url("sluice:s3cret%2F@"),
        SLUICE_REDIS_DEADLINE_MS: "5000",
      };
      const gateway = await LoneGateway.start({ policies: [renewed], workers: 1, env });
      gateways = [gateway];
      const askEach = () =>
        Promise.all(
          Array.from({ length: 30 }, (_, i) => ask(`${gateway.url}/renewed`, { headers: { "x-key": `${i}` } })),
        );
      const running = askEach();
      await until("all run", 5000, () => service.running === 30);
      for (const from of redis.nodes) {
        const [key] = (await keysOf(from)) as [string];
        const slot = await redis.slotOf(key);
        const to = redis.nodes.find((node) => node !== from) as RedisServer;
        await redis.beginMove(slot, from, to);
        await redis.moveKeys(slot, from, to);
        await redis.endMove(slot, to);
        // This is longer than a slot lives without renewal.
        await sleep(1200);
        expect(countStatuses(await askEach())).toEqual({ 429: 30 });
      }
      expect(await gateway.metric("sluice_late_renewals_total")).toBe(0);
      service.answer();
      expect(countStatuses(await running)).toEqual({ 200: 30 });
      await sleep(200);
      service.holds = false;
      expect(countStatuses(await askEach())).toEqual({ 200: 30 });
    } finally {
      service.answer();
      service.stop();
    }
  });

  it("gets the map of slots though the client whose request first needed it has left", async () => {
    const late = await TcpProxy.start((redis.nodes[0] as RedisServer).port);
    late.delayMs = 150;
    try {
      const [url] = await start(1, seeds(late), 1);
      await askAndLeave(`${url}/moved`, 100);
      late.delayMs = 0;
      await sleep(700);
      expect((await ask(`${url}/moved`)).headers["x-ratelimit-remaining"]).toBe("59");
    } finally {
      await late.refuse();
    }
  });

  it("lets no request wait while no node reports who serves a slot, and retries until one does", async () => {
    const hanging = await Promise.all(redis.nodes.map(({ port }) => TcpProxy.start(port)));
    for (const proxy of hanging) proxy.delayMs = 10_000;
    try {
      const [url] = await start(1, seeds(...hanging), 1, 1000);
      expect(await slowestOf(`${url}/outage`, 1)).toBeLessThan(1800);
      await sleep(2500);
      expect(await slowestOf(`${url}/outage`, 20)).toBeLessThan(700);
      for (const proxy of hanging) proxy.delayMs = 0;
      await sleep(3500);
      // The 21 requests that passed meanwhile count too.
      expect((await ask(`${url}/outage`)).headers["x-ratelimit-remaining"]).toBe("999978");
    } finally {
      await Promise.all(hanging.map((proxy) => proxy.refuse()));
    }
  });

  it("follows a slot that has moved (MOVED), and keeps its count", async () => {
    const urls = await start();
    expect(await askAtOnce(at(urls, "/moved"), 20)).toEqual({ 404: 20 });
    const { slot, from, to } = await placeOf("moved");
    await redis.beginMove(slot, from, to);
    await redis.moveKeys(slot, from, to);
    await redis.endMove(slot, to);
    expect(await askAtOnce(at(urls, "/moved"), 100)).toEqual({ 404: 40, 429: 60 });
    expect(await errorsOf(from, "MOVED")).toBeGreaterThan(0);
    expect((await keysOf(to)).filter((key) => key.includes(":moved:"))).toHaveLength(1);
  });

  it("counts exactly while a slot moves under load (ASK, then MOVED)", async () => {
    const urls = await start();
    const { slot, from, to } = await placeOf("moving");
    const statuses: Record<number, number> = {};
    let done = false;
    const load = Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        while (!done) {
          const { status } = await ask(`${urls[i % 2]}/moving`);
          statuses[status] = (statuses[status] ?? 0) + 1;
        }
      }),
    );
    const untilAdmitted = (count: number) =>
      until(`${count} are admitted`, 20_000, () => (statuses[404] ?? 0) >= count);
    await untilAdmitted(50);
    await redis.beginMove(slot, from, to);
    await untilAdmitted(150);
    await redis.moveKeys(slot, from, to);
    // Since the counter has moved, each request was redirected by ASK.
    await untilAdmitted(350);
    expect(await errorsOf(from, "ASK")).toBeGreaterThan(50);
    await redis.endMove(slot, to);
    await until("some are refused", 20_000, () => (statuses[429] ?? 0) > 100);
    done = true;
    await load;
    expect(Object.keys(statuses)).toEqual(["404", "429"]);
    expect(statuses[404]).toBe(500);
  });

  it("leases units in the slot of their counters, and continues after the slot has moved", async () => {
    const urls = await start();
    const { slot, from, to } = await placeOf("leased");
    const moved = sleep(1500).then(async () => {
      await redis.beginMove(slot, from, to);
      await redis.moveKeys(slot, from, to);
      await redis.endMove(slot, to);
      return Promise.all(gateways.map((gateway) => gateway.metric("sluice_lease_grants_total")));
    });
    const { admissions, startedMs } = await load(at(urls, "/leased"), 300, 5);
    const grantsBefore = await moved;
    expect(excess(admissions, 200, 200)).toBeLessThanOrEqual(0);
    const afterwards = admissions.filter(({ answeredAtMs }) => answeredAtMs >= startedMs + 3000).length / 2;
    expect(afterwards).toBeGreaterThanOrEqual(0.95 * 200);
    for (const [i, gateway] of gateways.entries()) {
      expect(await gateway.metric("sluice_lease_grants_total")).toBeGreaterThan((grantsBefore[i] as number) + 10);
      expect(await gateway.metric("sluice_lease_excess_units")).toBe(0);
    }
    const here = (await keysOf(to)).filter((key) => key.includes(":leased:"));
    expect(here.some((key) => key.endsWith("::leases"))).toBe(true);
    expect((await keysOf(from)).filter((key) => key.includes(":leased:"))).toEqual([]);
  });

  it("waits for a slot with some counters already moved (TRYAGAIN), and charges nothing twice", async () => {
    const urls = await start();
    expect(await askAtOnce(at(urls, "/two-limits"), 10)).toEqual({ 404: 10 });
    const { slot, from, to } = await placeOf("two-limits");
    await redis.beginMove(slot, from, to);
    const [key] = (await from.command("CLUSTER", "GETKEYSINSLOT", `${slot}`, "1")) as string[];
    await from.command("MIGRATE", "127.0.0.1", `${to.port}`, key as string, "0", "5000");
    const asked = ask(`${urls[0]}/two-limits`);
    await until(
      "Redis says TRYAGAIN",
      4000,
      async () => (await errorsOf(to, "TRYAGAIN")) + (await errorsOf(from, "TRYAGAIN")) > 8,
    );
    await redis.moveKeys(slot, from, to);
    await redis.endMove(slot, to);
    expect((await asked).headers["x-ratelimit-remaining"]).toBe("29");
    expect(await askAtOnce(at(urls, "/two-limits"), 60)).toEqual({ 404: 29, 429: 31 });
  });

  it("refunds what policies in other slots charged for a request that a later one refuses", async () => {
    const urls = await start();
    const slots = ["wide", "narrow", "last"].map((name) => slotOf(`{default:${name}:0:}`));
    expect(new Set(slots).size).toBe(3);
    for (let i = 0; i < 10; i++) {
      expect((await ask(`${urls[i % 2]}/both`)).status).toBe(i === 0 ? 404 : 429);
    }
    expect(await askAtOnce(at(urls, "/wide"), 10)).toEqual({ 404: 4, 429: 6 });
    expect(await askAtOnce(at(urls, "/last"), 10)).toEqual({ 404: 4, 429: 6 });
  });

  it("reports every check of the check API in every slot, and charges for all or none", async () => {
    await start(1);
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

  // For each of these slots, the gateway requests the map from another node.
  it.each(onEach)(
    "lets no request of %s wait for its node, which never answers, nor for the map that the node might send",
    async (name) => {
      const [url] = await start(1, redis, 1, 1000);
      const hanging = (await placeOf(name)).from;
      await ask(`${url}/${name}`);
      hanging.hang();
      try {
        const [gateway] = gateways as [LoneGateway];
        await until("the breaker is open", 20_000, async () => {
          await ask(`${url}/${name}`);
          return (await gateway.metric("sluice_redis_breakers_open")) === 1;
        });
        expect(await slowestOf(`${url}/${name}`, 300)).toBeLessThan(700);
      } finally {
        hanging.goOn();
      }
      for (const node of redis.nodes) {
        await until("the cluster is whole", 20_000, async () =>
          String(await node.command("CLUSTER", "INFO")).includes("cluster_slots_ok:16384"),
        );
      }
    },
  );

  it("shows no client an error while a node is down, and counts there again when it is back", async () => {
    const urls = await start(1);
    const { from } = await placeOf("outage");
    const elsewhere: string[] = [];
    for (const name of names) if ((await placeOf(name)).from !== from) elsewhere.push(name);
    expect(elsewhere.length).toBeGreaterThan(0);
    const reported = async () => (await ask(`${urls[0]}/outage`)).headers["x-ratelimit-remaining"];
    expect(await reported()).toBe("999999");
    await from.stop("SIGKILL");
    expect(await askAtOnce(at(urls, "/outage"), 50)).toEqual({ 404: 50 });
    expect(await reported()).toBeUndefined();
    for (const name of elsewhere) expect(await askAtOnce(at(urls, `/${name}`), 20)).toEqual({ 404: 10, 429: 10 });
    await from.start();
    // Without persistence the node has forgotten the counter, but not its slots.
    await until("it counts again", 10_000, async () => (await reported()) !== undefined);
  });
});

it("follows a replica that takes a dead node's place, and keeps its counts", async () => {
  const replicated = await RedisCluster.start(3, user);
  try {
    const from = await replicated.ownerOf(slotOf("{default:moved:0:}"));
    const replica = await replicated.addReplicaOf(from);
    // There is one worker, because the test cannot choose between two, and each finds the replica for itself.
    const urls = await start(1, replicated, 1);
    expect(await askAtOnce(at(urls, "/moved"), 20)).toEqual({ 404: 20 });
    await until("the replica has it", 5000, async () => (await keysOf(replica)).length === 1);
    await from.stop("SIGKILL");
    const reported = async () => (await ask(`${urls[0]}/moved`)).headers["x-ratelimit-remaining"];
    // After eight counted answers in a row, the gateway has found the replica for good.
    let counted: string[] = [];
    await until("it counts again", 20_000, async () => {
      const remaining = await reported();
      counted = remaining === undefined ? [] : [...counted, remaining];
      return counted.length === 8;
    });
    // Requests that passed meanwhile are charged within a quarter of a second.
    await sleep(600);
    const left = Number(await reported());
    expect(left).toBeLessThan(40);
    const all = await askAtOnce(at(urls, "/moved"), 100);
    expect([all[404] ?? 0, all[429]]).toEqual([left, 100 - left]);
    const [gateway] = gateways as [LoneGateway];
    await until("the dead one is forgotten", 15_000, async () => {
      return (await gateway.metric("sluice_redis_breakers_open")) === 0;
    });
  } finally {
    await replicated.stop();
  }
});

it("sends all requests to the node that took a dead one's place while it finds that out", async () => {
  const replicated = await RedisCluster.start(3, user);
  try {
    const slot = slotOf(keyOf("outage"));
    const from = await replicated.ownerOf(slot);
    const replica = await replicated.addReplicaOf(from);
    const urls = await start(1, replicated, 1);
    const url = `${urls[0]}/outage`;
    expect((await ask(url)).headers["x-ratelimit-remaining"]).toBeDefined();
    await from.stop("SIGKILL");
    await until("the replica serves", 20_000, async () => {
      if (!String(await replica.command("ROLE")).startsWith("master")) return false;
      const tellers = replicated.nodes.filter((node) => node !== from);
      const reported = await Promise.all(tellers.map((node) => node.command("CLUSTER", "SLOTS")));
      return reported.every((ranges) =>
        (ranges as [number, number, [string, number]][]).some(
          ([first, last, [, port]]) => first <= slot && slot <= last && port === replica.port,
        ),
      );
    });
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask(url)));
    const undecided = answers.filter(({ headers }) => headers["x-ratelimit-remaining"] === undefined);
    expect(undecided).toHaveLength(0);
  } finally {
    await replicated.stop();
  }
});
