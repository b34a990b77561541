// consistency: leased, with real gateways and a real Redis: what all admit together is never more than the limit, hardly
// less, and Redis is asked seldom.

import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway, type LoneGatewayOptions } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask } from "../fixtures/requests.ts";

/** What the upstream of these gateways says. */
const admitted = 404;
const bucket = { name: "burst", algorithm: "token-bucket", quota: 400, window: "1s", burst: 400 };

const policy = (limit: object, more: object = {}) => ({
  name: "hot",
  scope: "cluster",
  consistency: "leased",
  match: { paths: ["/hot"] },
  limits: [limit],
  ...more,
});

interface Admission {
  readonly sentMs: number;
  readonly heardMs: number;
}

let redis: RedisServer | undefined;
let gateways: LoneGateway[] = [];
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  gateways = [];
  await redis?.stop();
  redis = undefined;
});

async function start(count: number, policies: readonly Record<string, unknown>[], options: Partial<LoneGatewayOptions>) {
  redis = new RedisServer(await freePort());
  await redis.start();
  for (let i = 0; i < count; i++) {
    gateways.push(
      await LoneGateway.start({
        policies,
        ...options,
        env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "200", ...options.env },
      }),
    );
  }
}

/** @param perSecond requests to each gateway @returns what was admitted, and how many answers there were of each status */
async function load(urls: readonly string[], perSecond: number, seconds: number) {
  const admissions: Admission[] = [];
  const statuses: Record<number, number> = {};
  const lanes = 8;
  const startedMs = performance.now();
  const lane = async (url: string, number: number) => {
    const agent = new Agent({ keepAlive: true });
    const pauseMs = (1000 * lanes) / perSecond;
    for (let dueMs = startedMs + (number * pauseMs) / lanes; ; dueMs += pauseMs) {
      const now = performance.now();
      if (now >= startedMs + seconds * 1000) break;
      if (dueMs > now) await sleep(dueMs - now);
      const sentMs = performance.now();
      const { status } = await ask(url, { agent }).catch(() => ({ status: 0 }));
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === admitted) admissions.push({ sentMs, heardMs: performance.now() });
    }
    agent.destroy();
  };
  await Promise.all(urls.flatMap((url) => Array.from({ length: lanes }, (_, number) => lane(url, number))));
  return { admissions, statuses, startedMs, endedMs: performance.now() };
}

/** The most units over burst + rate × time that certainly were admitted within any interval: at most 0. */
function excess(admissions: readonly Admission[], perSecond: number, burst: number): number {
  const byEnd = [...admissions].sort((a, b) => a.heardMs - b.heardMs);
  let most = Number.NEGATIVE_INFINITY;
  for (const { sentMs: fromMs } of admissions) {
    let count = 0;
    for (const { sentMs, heardMs } of byEnd) {
      if (sentMs < fromMs) continue;
      count += 1;
      most = Math.max(most, count - burst - (perSecond * (heardMs - fromMs)) / 1000);
    }
  }
  return most;
}

async function scriptCalls(): Promise<number> {
  const info = `${await redis?.command("INFO", "commandstats")}`;
  return ["evalsha", "eval"].reduce(
    (sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0),
    0,
  );
}

const urls = () => gateways.map(({ url }) => `${url}/hot`);

describe("gateways that saturate one limit", () => {
  for (const [count, workers] of [
    [2, 2],
    [4, 1],
  ] as const) {
    it(`${count} gateways of ${workers} workers: a token bucket`, async () => {
      await start(count, [policy(bucket)], { workers });
      const seconds = 6;
      const calls = sleep(1000).then(scriptCalls);
      const { admissions, statuses, startedMs } = await load(urls(), 1000 / count, seconds);
      const callsPerGateway = ((await scriptCalls()) - (await calls)) / (seconds - 1) / count;
      expect(Object.keys(statuses).sort()).toEqual([`${admitted}`, "429"]);
      expect(excess(admissions, 400, 400)).toBeLessThanOrEqual(0);
      const steady = admissions.filter(({ heardMs }) => heardMs >= startedMs + 2000).length / (seconds - 2);
      console.log({ count, workers, steady, callsPerGateway, all: admissions.length });
      expect(steady).toBeGreaterThanOrEqual(0.98 * 400);
      expect(callsPerGateway).toBeLessThanOrEqual(25);
    });
  }
});
