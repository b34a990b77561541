// Sprays keys under one policy, at one gateway, while other keys have used up their limits, and observes these, honest
// newcomers, and everybody's waiting times.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { say } from "../../launch/step.mjs";
import { keysFrom, spray } from "../fixtures/clients/key-spray.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { readPrometheusText } from "../fixtures/measures/prometheus-text.ts";
import { HeldService } from "../fixtures/servers/held-service.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

export interface SprayPlan {
  readonly keys: number;
  readonly countersMb: number;
  readonly overflowMb: number;
  readonly workers: number;
  /** The limit of the sprayed policy. */
  readonly limit: Readonly<Record<string, unknown>>;
  readonly stopped?: () => boolean;
}

/** Durations in milliseconds. */
export interface Waits {
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
}

/** How many newcomers there were, and how many of them were refused at their first request. */
export interface Newcomers {
  readonly of: number;
  readonly refused: number;
}

export interface SprayResult {
  readonly limit: string;
  readonly keys: number;
  readonly keysPerSecond: number;
  readonly refusedOfSpray: number;
  /** Waits of refused requests: beside as many requests for one key, and beside the spray. */
  readonly waitsBeside: { readonly oneKey: Waits; readonly spray: Waits };
  readonly newcomers: {
    readonly sprayedDuring: Newcomers;
    readonly otherDuring: Newcomers;
    readonly sprayedAfter: Newcomers;
    readonly otherAfter: Newcomers;
  };
  readonly freeBytes: number;
  readonly overflowFreeBytes: number;
  readonly evictions: number;
  readonly overflowDecisions: number;
  readonly uncountedRefusals: number;
  readonly facts: readonly Fact[];
}

const algorithms = ["token-bucket", "fixed-window", "sliding-window", "sliding-log", "concurrency"] as const;
type Algorithm = (typeof algorithms)[number];
const quota = 3;
const exhausted = Array.from({ length: 20 }, (_, i) => `exhausted-${i}`);
const halfUsed = Array.from({ length: 20 }, (_, i) => `half-${i}`);
const newcomersAfter = 500;
const pauseMs = 8;

const policyOf = (name: string, limit: Readonly<Record<string, unknown>>) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [limit],
});
const victimsLimit = (algorithm: Algorithm) =>
  algorithm === "concurrency" ? { algorithm, quota, ttl: "1h" } : { algorithm, quota, window: "1d" };

/** @param stack gets a callback for everything that this starts, to end it */
export async function runSpray(stack: AsyncDisposableStack, plan: SprayPlan): Promise<SprayResult> {
  const service = await HeldService.start();
  stack.defer(() => service.stop());
  const gateway = await LoneGateway.start({
    policies: [
      ...algorithms.map((algorithm) => policyOf(`login-${algorithm}`, victimsLimit(algorithm))),
      policyOf("sprayed", plan.limit),
      policyOf("other", { algorithm: "fixed-window", quota, window: "1d" }),
    ],
    workers: plan.workers,
    env: { SLUICE_UPSTREAM: service.url },
    edit: (config) => withSizes(config, plan),
  });
  stack.defer(() => gateway.stop());
  const victims = await useUp(gateway, service);
  stack.defer(() => victims.end());

  const oneKeyBeside = probe(gateway, false);
  await spray(`${gateway.url}/other`, sameKey(Math.ceil(plan.keys / 8)));
  const { waits: besideOneKey } = await oneKeyBeside.end();

  const beside = probe(gateway, true);
  const startedAtMs = performance.now();
  const statuses = await spray(`${gateway.url}/sprayed`, said(keysFrom("spray", plan.keys), plan.keys), {
    ...(plan.stopped === undefined ? {} : { stopped: plan.stopped }),
  });
  const seconds = (performance.now() - startedAtMs) / 1000;
  const { waits: besideSpray, sprayed, other } = await beside.end();
  const sprayedAfter = await newcomers(gateway, "sprayed");
  const otherAfter = await newcomers(gateway, "other");
  const facts = await victims.facts();
  // The counts of workers are summed now and then.
  await sleep(300);
  const evictions = await gateway.metric("sluice_evictions_total");
  const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
  const failed = Object.entries(statuses).filter(([status]) => Number(status) >= 500);
  return {
    limit: `${plan.limit["algorithm"]}, ${plan.limit["quota"]} in ${plan.limit["window"]}`,
    keys: plan.keys,
    keysPerSecond: Math.round(plan.keys / seconds),
    refusedOfSpray: statuses[429] ?? 0,
    waitsBeside: { oneKey: besideOneKey, spray: besideSpray },
    newcomers: { sprayedDuring: sprayed, otherDuring: other, sprayedAfter, otherAfter },
    freeBytes: await gateway.metric("sluice_counters_free_bytes"),
    overflowFreeBytes: await gateway.metric("sluice_overflow_free_bytes"),
    evictions,
    overflowDecisions: sumOf(body, "sluice_overflow_decisions_total"),
    uncountedRefusals: await gateway.metric("sluice_uncounted_refusals_total"),
    facts: [
      ...facts,
      atMost("counters evicted", 0, evictions),
      atMost("answers of 500 and above", 0, failed.length),
      atMost(
        `refused of ${other.of + otherAfter.of} newcomers of another policy`,
        0,
        other.refused + otherAfter.refused,
      ),
    ],
  };
}

function sumOf(metrics: string, family: string): number {
  return (readPrometheusText(metrics)[family]?.samples ?? []).reduce((sum, { value }) => sum + value, 0);
}

function withSizes(config: string, { countersMb, overflowMb }: SprayPlan): string {
  return config
    .replace("sluice_counters 64m", `sluice_counters ${countersMb}m`)
    .replace("sluice_overflow 16m", `sluice_overflow ${overflowMb}m`)
    .replace(
      "location / {",
      `location ~ ^/(sprayed|other) { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
       location / { proxy_read_timeout 1h;`,
    );
}

async function statusOf(gateway: LoneGateway, name: string, key: string, agent?: Agent): Promise<number> {
  const options = agent === undefined ? {} : { agent };
  return (await ask(`${gateway.url}/${name}`, { headers: { "x-key": key }, ...options })).status;
}

/** Uses up limits. Slots of concurrency are used as long as their requests go on, so those requests are held. */
async function useUp(gateway: LoneGateway, service: HeldService) {
  const held: Promise<unknown>[] = [];
  const hold = async (keys: readonly string[], slots: number) => {
    for (const key of keys) {
      for (let i = 0; i < slots; i++) held.push(askPatiently(`${gateway.url}/login-concurrency`, key));
    }
    await until("slots are held", () => service.running === held.length);
  };
  await hold(exhausted, quota);
  await hold(halfUsed, 1);
  service.holds = false;
  for (const algorithm of algorithms) {
    if (algorithm === "concurrency") continue;
    for (const key of exhausted) for (let i = 0; i < quota; i++) await statusOf(gateway, `login-${algorithm}`, key);
    for (const key of halfUsed) await statusOf(gateway, `login-${algorithm}`, key);
  }
  const facts = async (): Promise<Fact[]> => {
    const seen: Fact[] = [];
    for (const algorithm of algorithms) {
      let admitted = 0;
      let exact = 0;
      // The service does not hold a request that is wrongly admitted.
      service.holds = false;
      for (const key of exhausted) if ((await statusOf(gateway, `login-${algorithm}`, key)) < 400) admitted += 1;
      seen.push(atMost(`${algorithm}: admitted of ${exhausted.length} keys that were used up`, 0, admitted));
      if (algorithm === "concurrency") {
        service.holds = true;
        await hold(halfUsed, quota - 1).catch(() => undefined);
        for (const key of halfUsed) if ((await statusOf(gateway, "login-concurrency", key)) === 429) exact += 1;
        if (service.running !== held.length) exact = 0;
      } else {
        for (const key of halfUsed)
          if ((await admittedOf(gateway, `login-${algorithm}`, key)) === quota - 1) exact += 1;
      }
      const what = `${algorithm}: of ${halfUsed.length} keys that had used 1 of ${quota}, those that have ${quota - 1} left`;
      seen.push(fact(what, `${halfUsed.length}`, `${exact}`, exact === halfUsed.length));
    }
    return seen;
  };
  const end = async () => {
    service.holds = false;
    service.answer();
    await Promise.all(held);
  };
  return { facts, end };
}

/** Sends a request without a timeout, however long the answer takes. */
function askPatiently(url: string, key: string): Promise<void> {
  return new Promise((resolve) => {
    const outgoing = request(url, { agent: false, headers: { "x-key": key } }, (incoming) => {
      incoming.resume();
      incoming.on("close", resolve);
    });
    outgoing.on("error", () => resolve());
    outgoing.end();
  });
}

async function admittedOf(gateway: LoneGateway, name: string, key: string): Promise<number> {
  let admitted = 0;
  while (admitted <= quota && (await statusOf(gateway, name, key)) < 400) admitted += 1;
  return admitted;
}

async function newcomers(gateway: LoneGateway, name: string): Promise<Newcomers> {
  let refused = 0;
  for (const key of keysFrom("after", newcomersAfter)) if ((await statusOf(gateway, name, key)) === 429) refused += 1;
  return { of: newcomersAfter, refused };
}

/** Requests an exhausted key again and again and, with newcomers, one new key of each of two policies. */
function probe(gateway: LoneGateway, withNewcomers: boolean) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const tookMs: number[] = [];
  const counts = { sprayed: { of: 0, refused: 0 }, other: { of: 0, refused: 0 } };
  let ended = false;
  const run = async () => {
    for (let i = 0; !ended; i++) {
      const startedAtMs = performance.now();
      await statusOf(gateway, "login-token-bucket", exhausted[i % exhausted.length] as string, agent);
      tookMs.push(performance.now() - startedAtMs);
      for (const name of withNewcomers ? (["sprayed", "other"] as const) : []) {
        const status = await statusOf(gateway, name, `during-${i}`, agent);
        counts[name].of += 1;
        if (status === 429) counts[name].refused += 1;
      }
      await sleep(pauseMs);
    }
  };
  const running = run();
  const end = async () => {
    ended = true;
    await running;
    agent.destroy();
    tookMs.sort((a, b) => a - b);
    const at = (part: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(part * tookMs.length))] ?? 0;
    return { waits: { p50: at(0.5), p99: at(0.99), longest: at(1) }, ...counts };
  };
  return { end };
}

function* sameKey(count: number): Generator<string> {
  for (let i = 0; i < count; i++) yield "one";
}

/** Yields the keys, and reports progress now and then. */
function* said(keys: Iterable<string>, count: number): Generator<string> {
  let given = 0;
  for (const key of keys) {
    given += 1;
    if (given % 300_000 === 0 && given < count) say(`${given} keys …`);
    yield key;
  }
}
