// Some hundred random worlds, and the smallest worlds in which the gateway once differed from the documents.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { breaks } from "./breaks.ts";
import { asTest, comparedBy, play, shrunk } from "./oracle.ts";
import { project, VirtualPlayer } from "./players.ts";
import { compare } from "./reference/reference.ts";
import type { LimitDocument, PolicyDocument, World, WorldEvent } from "./world.ts";
import { everyAlgorithm } from "./worlds.ts";

const player = new VirtualPlayer();
afterAll(() => player.stop());

async function agrees(world: World): Promise<void> {
  expect((await comparedBy(player, world)).difference).toBeUndefined();
}

const request: WorldEvent = {
  afterMs: 0,
  do: "ask",
  path: "/one",
  headers: { "x-key": "a" },
  address: "192.0.2.1",
  gateway: 1,
  worker: 1,
  serviceMs: 0,
};

/** Two requests to a policy with one token-bucket. */
function oneBucket(limit: Omit<LimitDocument, "name" | "algorithm">): World {
  const limits = [{ name: "default", algorithm: "token-bucket" as const, ...limit }];
  const policies = [{ name: "p1", match: { paths: ["/one"] }, key: ["header:x-key"], limits }];
  return { startMs: 1_700_000_000_000, redisAheadUs: 0, gateways: 1, workers: 1, policies, events: [request, request] };
}

it("decides random worlds as the documents say", async () => {
  // Always the same ones: a difference in others is for `npm run oracle`.
  const seed = 1;
  const kinds = { scopes: ["node", "cluster"] as const, algorithms: everyAlgorithm };
  const outcome = await play({ seed, worlds: 60, kinds, mostDifferences: 1 }, player, () => {});
  const [found] = outcome.found;
  expect(found && asTest(await shrunk(player, found))).toBeUndefined();
  // The worlds have something to decide.
  expect(outcome.decisions).toBeGreaterThan(1_000);
  expect(outcome.refusals).toBeGreaterThan(100);
  expect(outcome.gaveUp).toBeLessThan(12);
});

it("finds a gateway that differs: here, one that counts by another quota", async () => {
  const { answers } = await player.play(oneBucket({ quota: 2, window: "1h" }));
  const { difference } = compare(oneBucket({ quota: 3, window: "1h" }), answers);
  expect(difference).toMatchObject({
    index: 0,
    words: expect.stringMatching(/^expected shows default r=2 .* got 200, "default";r=1/),
  });
});

it("says that a bucket which fills within a µs has a window of a second", async () => {
  await agrees(oneBucket({ quota: 289_766_699, window: "3s", burst: 1 }));
});

it("counts in shadow mode what reaches the policy, also if another one refuses it later", async () => {
  const [match, key] = [{ paths: ["/one"] }, ["header:x-key"]];
  const daily = (quota: number) => [{ name: "default", algorithm: "fixed-window" as const, quota, window: "1d" }];
  const shadow = { name: "p1", match, key, limits: daily(2), scope: "cluster" as const, mode: "shadow" as const };
  const enforced = { name: "p2", match, key, limits: daily(1) };
  for (const priority of [1, -1]) {
    const events: WorldEvent[] = [
      request,
      request,
      { afterMs: 100, do: "put", policy: { ...shadow, mode: "enforce" } },
      { afterMs: 100, do: "delete", policy: "p2" },
      { ...request, afterMs: 100 },
    ];
    const policies = [{ ...shadow, priority }, enforced];
    const world: World = { startMs: 1_700_000_000_000, redisAheadUs: 0, gateways: 1, workers: 1, policies, events };
    await agrees(world);
    const { answers } = await player.play(world);
    expect(answers.at(-1)).toMatchObject({ status: priority === 1 ? 429 : 200 });
  }
});

it("has the policy with the longest wait speak if several of scope cluster refuse in one call", async () => {
  const policyOf = (name: string, window: string, status: number) => ({
    name,
    match: { paths: ["/one"] },
    key: [],
    limits: [{ name: "default", algorithm: "fixed-window" as const, quota: 1, window }],
    scope: "cluster" as const,
    onLimit: { action: "reject" as const, status },
  });
  const policies = [policyOf("p1", "1h", 503), policyOf("p2", "1d", 599)];
  const events = [request, request, request];
  const world: World = { startMs: 1_700_000_000_000, redisAheadUs: 0, gateways: 1, workers: 1, policies, events };
  await agrees(world);
  const { answers } = await player.play(world);
  // By then, the worker remembers both refusals, and answers for the first policy without a call.
  expect(answers).toMatchObject([{ status: 200 }, { status: 599 }, { status: 503 }]);
});

it("leaves a full bucket as it is when units are returned to it, also for a clock that then steps back", async () => {
  const events: WorldEvent[] = [
    request,
    { afterMs: 1_292, do: "top-up", policy: "p1", key: ["a"], gateway: 1, units: 3 },
    { afterMs: 0, do: "step", byMs: -10 },
    request,
  ];
  const world: World = { ...oneBucket({ quota: 4, window: "100ms", burst: 6, initial: 1 }), events };
  await agrees(world);
  const { answers } = await player.play(world);
  expect(answers.at(-1)).toMatchObject({ headers: { ratelimit: expect.stringContaining("r=5") } });
});

it("pays the last part of each response when all of it is available", async () => {
  const limits = [{ name: "default", algorithm: "sliding-log" as const, quota: 3, window: "10s" }];
  const policies = [{ name: "p1", match: { paths: ["/one"] }, key: [], limits, cost: { from: "response-bytes" } }];
  const response = (afterMs: number, serviceMs: number, bytes: number) => ({ ...request, afterMs, serviceMs, bytes });
  // At 7 s, three units are owed since 3.015 s. They are all available at 20.105 s, so a further one is at 30.105 s.
  const events = [response(0, 105, 1), response(0, 3_005, 3), response(0, 3_015, 3), response(7_000, 5, 1)];
  const world: World = { startMs: 1_700_000_000_000, redisAheadUs: 0, gateways: 1, workers: 1, policies, events };
  await agrees(world);
  const { answers } = await player.play(world);
  expect(answers.at(-1)).toMatchObject({ status: 429, headers: { "retry-after": "24" } });
});

it("takes a debt for one from before a step back of the clock if it is a part of a µs beyond what the bucket waits for", async () => {
  const limits = [{ name: "b", algorithm: "token-bucket" as const, quota: 1123451192, window: "1s", initial: 5 }];
  const policies = [
    { name: "p1", match: { paths: ["/one"] }, key: ["header:x-key"], limits, scope: "cluster" as const },
  ];
  const events: WorldEvent[] = [
    { ...request, afterMs: 40 },
    { ...request, afterMs: 1101 },
    { afterMs: 0, do: "step", byMs: -2000 },
    request,
  ];
  await agrees({ startMs: 1_838_452_740_000, redisAheadUs: 0, gateways: 1, workers: 1, policies, events });
});

it("expects that a bucket which had expired may come back with a clock, also after units were returned to it", async () => {
  const events: WorldEvent[] = [
    request,
    { afterMs: 19_850_000, do: "top-up", policy: "p1", key: ["a"], gateway: 1, units: 2 },
    { afterMs: 0, do: "step", byMs: -86_400_000 },
    { afterMs: 0, do: "read", policy: "p1", key: ["a"], gateway: 1 },
  ];
  await agrees({ ...oneBucket({ quota: 609, window: "1m", burst: 2, initial: 1 }), events });
});

it("expects that a refusal by a larger bucket leaves what a smaller one has forgiven", async () => {
  const policyOf = (quota: number, free: object, max: object): PolicyDocument => ({
    name: "p1",
    match: { paths: ["/one"] },
    key: ["ip"],
    scope: "cluster",
    planBy: "consumer",
    defaultPlan: "free",
    plans: {
      free: [{ name: "l2", algorithm: "token-bucket", window: "1m", quota, ...free }],
      max: [{ name: "l2", algorithm: "token-bucket", window: "1m", quota: 1, ...max }],
    },
  });
  const asking = (afterMs: number): WorldEvent => ({ ...request, afterMs });
  const inPlan = (plan: string, afterMs: number): WorldEvent => ({
    afterMs,
    do: "put-consumer",
    consumer: { id: "192.0.2.1", plan },
  });
  const events: WorldEvent[] = [
    ...[0, 6_000, 0, 49_381].map(asking),
    inPlan("none", 60_000),
    asking(60_040),
    { afterMs: 8, do: "put", policy: policyOf(5, { burst: 6 }, { quota: 2, burst: 1 }) },
    asking(40),
    inPlan("max", 0),
    asking(24_041),
  ];
  await agrees({
    startMs: 1_880_111_204_999,
    redisAheadUs: 0,
    gateways: 1,
    workers: 1,
    policies: [policyOf(8, { burst: 7 }, { burst: 4 })],
    consumers: [{ id: "192.0.2.1", plan: "max" }],
    events,
  });
});

it("expects that a bucket which smaller ones forgave twice still owes it to a larger one", async () => {
  const policyOf = (limit: object): PolicyDocument => ({
    name: "p1",
    match: { paths: ["/one"] },
    key: ["ip"],
    scope: "cluster",
    limits: [{ name: "l1", algorithm: "token-bucket", window: "7m", quota: 4, ...limit }],
  });
  const asking = (afterMs: number): WorldEvent => ({ ...request, afterMs });
  const put = (afterMs: number, limit: object): WorldEvent => ({ afterMs, do: "put", policy: policyOf(limit) });
  const events: WorldEvent[] = [
    asking(1_000),
    put(40_000, { quota: 8, burst: 6 }),
    ...[40, 178_030].map(asking),
    put(20_000, { quota: 2 }),
    ...[60_000, 370_710].map(asking),
    put(0, { quota: 1, burst: 6 }),
    asking(80),
  ];
  await agrees({
    startMs: 1_866_882_359_998,
    redisAheadUs: 0,
    gateways: 1,
    workers: 1,
    policies: [policyOf({ burst: 871, initial: 5 })],
    events,
  });
});

it("expects that a full bucket may be forgotten which only refused since an edit gave it initial", async () => {
  const policyOf = (quota: number): PolicyDocument => ({
    name: "p1",
    match: { paths: ["/one"] },
    key: [],
    limits: [{ name: "l3", algorithm: "token-bucket", quota, window: "7m", initial: 1 }],
  });
  const events: WorldEvent[] = [
    request,
    { afterMs: 20_000, do: "put", policy: policyOf(3) },
    { ...request, afterMs: 230 },
    { afterMs: 411_890, do: "read", policy: "p1", key: [], gateway: 1 },
  ];
  const policies = [policyOf(1)];
  await agrees({ startMs: 1_666_011_427_289, redisAheadUs: 0, gateways: 1, workers: 1, policies, events });
});

it("forgets a bucket an hour after it is full again, if the clock stepped back behind a top-up", async () => {
  const policies: PolicyDocument[] = [
    {
      name: "p2",
      match: { paths: ["/one"] },
      key: [],
      limits: [{ name: "l1", algorithm: "token-bucket", quota: 1_426_852_140, window: "1m", burst: 6, initial: 5 }],
    },
  ];
  const checks = (...costs: number[]): WorldEvent => ({
    afterMs: 0,
    do: "check",
    checks: costs.map((cost) => ({ policy: "p2", key: [], cost })),
    mode: "all",
    gateway: 1,
    worker: 1,
  });
  const events: WorldEvent[] = [
    request,
    { afterMs: 1_000, do: "top-up", policy: "p2", key: [], gateway: 1, units: 4 },
    { afterMs: 0, do: "step", byMs: -5_184_000_000 },
    checks(99),
    { ...checks(1, 1), afterMs: 1_296_000_119 },
  ];
  await agrees({ startMs: 1_915_975_735_998, redisAheadUs: 0, gateways: 1, workers: 1, policies, events });
});

it("asks and charges no other policy if one degrades the request to a response", async () => {
  const policyOf = (name: string, quota: number, onLimit?: PolicyDocument["onLimit"]): PolicyDocument => ({
    name,
    match: { paths: ["/one"] },
    key: [],
    limits: [{ name: "default", algorithm: "fixed-window", quota, window: "1d" }],
    ...(onLimit === undefined ? {} : { onLimit }),
  });
  const cheap = { action: "degrade" as const, response: { status: 203, body: "less" } };
  const policies = [policyOf("p1", 9), policyOf("p2", 1, cheap), policyOf("p3", 1)];
  const read: WorldEvent = { afterMs: 0, do: "read", policy: "p1", key: [], gateway: 1 };
  const events = [request, request, read];
  const world: World = { startMs: 1_700_000_000_000, redisAheadUs: 0, gateways: 1, workers: 1, policies, events };
  await agrees(world);
  const { answers } = await player.play(world);
  expect(answers.slice(1)).toMatchObject([{ status: 203, body: "less" }, { limits: [{ remaining: 8 }] }]);
});

it("can make each of its breaks", () => {
  const places = breaks.map(({ file, line }) => readFileSync(join(project, file), "utf8").split(line).length - 1);
  expect(places).toEqual(breaks.map(() => 1));
});
