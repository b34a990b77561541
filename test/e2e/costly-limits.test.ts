// Bounds what it costs to find the limits of a client: those of a consumer's own for a thousand policies, and those of overrides.

import { Agent } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { childrenOf, cpuUs } from "../../bench/cpu-time.ts";
import { mostKinds } from "../../limiter/src/key/key-patterns.ts";
import { lineOfConsumer } from "../../limiter/src/protocol/consumer-lines.ts";
import { callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { writeConsumerLog } from "../fixtures/documents/consumer-log.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const count = 1_000;
const daily = (quota: number, name = "d") => ({ name, algorithm: "fixed-window", quota, window: "1d" });

/** Limits of their own for 32 policies, with nearly as many bytes as a consumer may have. */
const overridesOf = (quota: number) =>
  JSON.stringify(
    Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`p${i}`, [daily(quota), daily(quota + 1, "e")]])),
  );

const caller = { app: "default", token: "a-token-of-the-shop" };
/** Patterns of eight values for as many kinds as there may be, in other places from the first kind on. */
const kindsFrom = (first: number) =>
  Array.from({ length: mostKinds }, (_, i) =>
    Array.from({ length: 8 }, (_, part) => `${"z".repeat(Math.floor((first + i) / 3 ** part) % 3)}*`),
  );
const patterned = {
  name: "patterned",
  match: { paths: ["/nowhere"] },
  key: Array.from({ length: 8 }, (_, part) => `header:x-${part}`),
  limits: [daily(1_000_000)],
  overrides: kindsFrom(1_000).map((key) => ({ key, mode: "off" })),
  exempt: { keys: kindsFrom(2_000) },
};
const bans = kindsFrom(3_000).map((keyPattern, i) => ({
  id: `${i}`,
  app: "default",
  policy: "patterned",
  keyPattern,
  untilSeconds: 4_000_000_000,
}));

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    callers: [callerOf(caller)],
    bans,
    policies: [
      patterned,
      ...Array.from({ length: count }, (_, i) => ({
        name: `p${i}`,
        key: [i % 2 === 0 ? "header:x-user" : "header:x-team"],
        plans: { free: [daily(1_000_000)], pro: [daily(5_000_000)] },
        planBy: "consumer",
        defaultPlan: "free",
      })),
    ],
  });
  const quotas = { ann: 10_000, bob: 20_000 };
  const lines = Object.entries(quotas).map(([id, quota]) => lineOfConsumer("default", id, "pro", overridesOf(quota)));
  await gateway.restart(() => writeConsumerLog(gateway.snapshotDir, lines.length, (i) => lines[i] as string));
});
afterAll(() => gateway?.stop());

/** A thousand policies with plans take 5 to 10 ms. Those below took 65 to 75 ms. */
const mostUs = 40_000;

/** @returns the worker's CPU time per request in µs */
async function costOf(requests: readonly (readonly [user: string, team: string])[]): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const workers = childrenOf(gateway.pid);
  const before = cpuUs(workers);
  for (const [user, team] of requests) {
    const { headers } = await ask(gateway.url, { agent, headers: { "x-user": user, "x-team": team } });
    expect(headers["x-ratelimit-limit"]).toBe(user === "ann" || team === "ann" ? "10000" : "20000");
  }
  agent.destroy();
  return (cpuUs(workers) - before) / requests.length;
}

it("of one consumer after another", async () => {
  const inTurn = [
    ["ann", "ann"],
    ["bob", "bob"],
  ] as const;
  await costOf(inTurn);
  expect(await costOf([...inTurn, ...inTurn, ...inTurn])).toBeLessThan(mostUs);
});

it("of two consumers whose policies come in turn", async () => {
  const inTurn = [
    ["ann", "bob"],
    ["bob", "ann"],
  ] as const;
  await costOf(inTurn);
  expect(await costOf([...inTurn, ...inTurn, ...inTurn])).toBeLessThan(mostUs);
});

it("of a hundred checks of a policy whose overrides, exemptions and bans are of as many kinds as may be", async () => {
  // No pattern matches, so each kind is looked up.
  const checks = Array.from({ length: 100 }, (_, i) => ({ policy: "patterned", key: Array(8).fill(`a${i}`) }));
  const ofHundred = async () => {
    const workers = childrenOf(gateway.pid);
    const before = cpuUs(workers);
    const { results } = await check(gateway.privateUrl, caller, checks);
    expect(results.map(({ allowed }) => allowed)).toEqual(Array(100).fill(true));
    return cpuUs(workers) - before;
  };
  await ofHundred();
  expect(await ofHundred()).toBeLessThan(mostUs);
});
