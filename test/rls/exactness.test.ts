// The service loses no decision and makes none up: exactly the quota is admitted, of one key by many calls at once, and of 100,000 keys one
// by one. Its memory stays bounded meanwhile. The whole system runs, so that a policy can be made while it is asked.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { descriptor, type EnvoyClient } from "../fixtures/clients/envoy-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { RateLimitService } from "../fixtures/servers/rate-limit-service.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

let system: System;
const services: RateLimitService[] = [];
beforeAll(async () => {
  system = await System.start({ redis: true, gateways: 2 });
  const answer = await system.api("POST", "/tokens?wait=30s", { name: "envoy", app: "default", role: "caller" });
  expect(answer.status, answer.body).toBe(201);
  const { token } = JSON.parse(answer.body);
  for (const scope of ["node", "cluster"]) {
    for (const [name, quota] of [
      ["hundred", 100],
      ["once", 1],
    ] as const) {
      await system.put({
        name: `${scope}-${name}`,
        scope,
        match: { paths: ["/elsewhere"] },
        key: ["header:x-user"],
        limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
      });
    }
  }
  for (const { privateUrl } of system.gateways) {
    services.push(await RateLimitService.start({ gateway: privateUrl, token }));
  }
});
afterAll(async () => {
  await Promise.all(services.map((service) => service.stop()));
  await system?.stop();
});

const service = () => services[0] as RateLimitService;
/** @returns whether the call was admitted; an error fails the test */
const isAdmitted = async (client: EnvoyClient, domain: string, key: string, value: string) => {
  const { overallCode } = await client.ask({ domain, descriptors: [descriptor(key, value)] });
  if (overallCode !== "OK" && overallCode !== "OVER_LIMIT") throw new Error(`expected a decision, got ${overallCode}`);
  return overallCode === "OK";
};
const countOf = (decisions: readonly boolean[]) => decisions.filter((admitted) => admitted).length;

describe("1,000 calls at once for a quota of 100", () => {
  it.each(["node", "cluster"])("admit exactly 100 in scope %s", async (scope) => {
    const { client } = service();
    const calls = Array.from({ length: 1_000 }, () => isAdmitted(client, scope, "hundred", "everybody"));
    expect(countOf(await Promise.all(calls))).toBe(100);
  });

  it("admit exactly 100 if they come to two services of two gateways", async () => {
    const calls = Array.from({ length: 1_000 }, (_, i) =>
      isAdmitted((services[i % 2] as RateLimitService).client, "cluster", "hundred", "both"),
    );
    expect(countOf(await Promise.all(calls))).toBe(100);
  });

  it("admit exactly 100 if each has ten descriptors of the same counter", async () => {
    const { client } = service();
    const descriptors = Array.from({ length: 10 }, () => descriptor("hundred", "ten"));
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => client.ask({ domain: "cluster", descriptors })),
    );
    const codes = answers.flatMap(({ statuses }) => statuses.map(({ code }) => code));
    expect(codes.filter((code) => code === "OK")).toHaveLength(100);
    expect(codes.filter((code) => code === "OVER_LIMIT")).toHaveLength(900);
  });
});

describe("100,000 different descriptors", () => {
  const keys = 100_000;
  const warmUp = 10_000;
  const callersAtOnce = 100;

  /** Asks for every nth of these keys once, ten in a call. @returns how many were admitted */
  async function askAll(from: number, to: number, step = 1): Promise<number> {
    const { client } = service();
    let admitted = 0;
    let next = from;
    const caller = async () => {
      while (next < to) {
        const first = next;
        next += 10 * step;
        const descriptors = Array.from({ length: 10 }, (_, i) => descriptor("once", `user ${first + i * step}`));
        const { statuses } = await client.ask({ domain: "node", descriptors });
        expect(statuses.every(({ code }) => code === "OK" || code === "OVER_LIMIT")).toBe(true);
        admitted += countOf(statuses.map(({ code }) => code === "OK"));
      }
    };
    await Promise.all(Array.from({ length: callersAtOnce }, caller));
    return admitted;
  }

  it("are admitted once each, and take no memory for long", { timeout: 300_000 }, async () => {
    await askAll(keys, keys + warmUp);
    const before = service().residentMb;
    expect(await askAll(0, keys)).toBe(keys);
    // They are refused now, twice as many of them as the service remembers refusals.
    expect(await askAll(0, keys, 5)).toBe(0);
    const after = service().residentMb;
    const isMuch = after - before >= 120;
    // On a busy machine there may be more garbage. It does not come again with as many other keys, as what stayed would.
    const others = isMuch ? await askAll(2 * keys, 3 * keys) : 0;
    const last = service().residentMb;
    const memory = [before, after, last].map((mb) => mb.toFixed(0)).join(", ");
    process.stdout.write(
      `memory of the service before and after ${keys} keys, and after ${others} others: ${memory} MB\n`,
    );
    if (isMuch) expect(last - after, memory).toBeLessThan(60);
    const { body } = await ask(`${system.gateway.privateUrl}/sluice/metrics`);
    const [, allowed] =
      /^sluice_decisions_total\{app="default",policy="node-once",result="allowed"\} (\d+)$/m.exec(body) ?? [];
    expect(Number(allowed)).toBe(keys + warmUp + others);
  });
});

it("limits by a policy that somebody has just made", async () => {
  const { client } = service();
  expect(await isAdmitted(client, "node", "late", "x")).toBe(true);
  await system.put({
    name: "node-late",
    match: { paths: ["/elsewhere"] },
    key: ["header:x-user"],
    limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
  });
  await until("it limits", async () => !(await isAdmitted(client, "node", "late", "x")));
});
