// Plays the cases of clients/conformance with one client: its driver makes the calls of a step, the scripted gateway answers them, and
// what the client sent and decided must be what the case says.

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { until } from "../../fixtures/until.ts";
import { type Command, Driver } from "../driver.ts";
import { type Exchange, type Response, ScriptedGateway, token } from "../scripted-gateway.ts";

interface Case {
  readonly name: string;
  readonly client?: object;
  /** Default: listening. */
  readonly server?: "away";
  readonly steps: readonly Step[];
}

interface Step {
  /** Calls that start at once. */
  readonly do?: readonly object[];
  /** What they become. "*" stands for any value. */
  readonly results?: readonly unknown[];
  readonly withinMs?: readonly [number, number];
  readonly waitMs?: number;
  /** The requests of this step, all of them; "any": as many as the client likes, each answered by `response`. */
  readonly exchanges?: readonly Exchange[] | "any";
  readonly response?: Response;
  readonly events?: readonly unknown[];
  /** The gateway ends all connections. */
  readonly closeIdle?: boolean;
  /** How many connections the client keeps at most after the step. */
  readonly mostOpen?: number;
}

/** Much longer than any case takes. */
const caseMs = 30_000;
const directory = resolve(import.meta.dirname, "../../../clients/conformance");

const suites = readdirSync(directory)
  .filter((name) => name.endsWith(".json"))
  .map((name) => ({
    subject: name.replace(".json", ""),
    cases: JSON.parse(readFileSync(join(directory, name), "utf8")) as readonly Case[],
  }));

interface Parts {
  driver: Driver;
  gateway: ScriptedGateway;
}

/** The client's driver and a scripted gateway, while the tests around run. */
function started(build: () => Promise<Command>): Parts {
  const parts = {} as Parts;
  beforeAll(async () => {
    parts.driver = new Driver(await build());
    parts.gateway = await ScriptedGateway.start();
  });
  afterAll(async () => {
    await parts.driver?.stop();
    await parts.gateway?.stop();
  });
  return parts;
}

/** Holds a client against everything that is here. Each client is a file of its own, so that they are tested side by side. */
export function isHeldAgainstAllCases(driver: () => Promise<Command>): void {
  conforms(driver);
  describe("many calls at once", () => shares(driver));
}

/** Holds a client against every case. */
function conforms(build: () => Promise<Command>): void {
  const parts = started(build);

  describe.each(suites)("$subject", ({ cases }) => {
    it.each(cases.map((one) => [one.name, one] as const))("%s", (_, one) => play(parts, one), caseMs);
  });
}

/** Cases of many calls at once, which may share requests as they like within bounds. */
function shares(build: () => Promise<Command>): void {
  const parts = started(build);

  const allowed = { policy: "p", allowed: true, limit: 10, remaining: 9, retryAfter: 0, resetAfter: 1 };
  const refused = { ...allowed, allowed: false, remaining: 0, retryAfter: 1 };

  it("300 calls at once share requests of 50, and each hears its own decision", async () => {
    const { driver, gateway } = parts;
    const names = Array.from({ length: 300 }, (_, i) => `key-${i}`);
    const byKey = Object.fromEntries(names.map((name, i) => [name, i % 3 === 0 ? refused : allowed]));
    gateway.expect({ answering: { byKey, mostRequests: 12, mostChecks: 50, afterMs: 100 } });
    await driver.client({ url: gateway.url, token, maxBatch: 50, maxInFlight: 2, deadlineMs: 20_000 });
    const results = await driver.do(...names.map((name) => ({ call: "check", policy: "p", key: [name] })));
    expect(gateway.takeFaults()).toEqual([]);
    expect(results).toEqual(names.map((_, i) => ({ ...(i % 3 === 0 ? refused : allowed), source: "gateway" })));
  });

  it("a request has at most 60 KiB, also when its values grow in JSON", async () => {
    const { driver, gateway } = parts;
    // Six bytes of JSON for each: eight values of 8 KiB in a request would have 400 KiB.
    const names = Array.from({ length: 40 }, (_, i) => `${i}${"\u0001".repeat(4_000)}`);
    gateway.expect({
      answering: { byKey: { "*": allowed }, mostRequests: 42, mostChecks: 2, afterMs: 20, mostBytes: 60 * 1024 },
    });
    await driver.client({ url: gateway.url, token, maxBatch: 100, maxInFlight: 2, deadlineMs: 20_000 });
    const results = await driver.do(...names.map((name) => ({ call: "check", policy: "p", key: [name] })));
    expect(gateway.takeFaults()).toEqual([]);
    expect(results.every((result) => result.allowed === true && result.source === "gateway")).toBe(true);
  });

  it("a call without company waits for nothing", async () => {
    const { driver, gateway } = parts;
    gateway.expect({ answering: { byKey: { "*": allowed }, mostRequests: 100_000, mostChecks: 1 } });
    await driver.client({ url: gateway.url, token, deadlineMs: 20_000 });
    let asked = 0;
    // A client that waits for company would wait each time; a busy machine is not busy each time.
    await until("a call takes less than 5 ms", async () => {
      asked += 1;
      const beganMs = performance.now();
      await driver.do({ call: "check", policy: "p", key: [`lone-${asked}`] });
      return performance.now() - beganMs < 5;
    });
    expect(gateway.takeFaults()).toEqual([]);
  });
}

async function play({ driver, gateway }: Parts, { client = {}, server, steps }: Case): Promise<void> {
  const url = server === "away" ? `http://127.0.0.1:${await freePort()}` : gateway.url;
  gateway.expect({});
  gateway.takeFaults();
  await driver.client({ url, token, ...client });
  await driver.say({ events: true });
  for (const [i, step] of steps.entries()) {
    const { exchanges = [], response } = step;
    gateway.expect(exchanges === "any" ? { always: response as Response } : { exchanges });
    const played = await playStep(driver, gateway, step);
    const faults = gateway.takeFaults();
    expect({ step: i, faults, ...played.seen }).toEqual({ step: i, faults: [], ...played.wanted });
  }
}

async function playStep(
  driver: Driver,
  gateway: ScriptedGateway,
  step: Step,
): Promise<{ seen: object; wanted: object }> {
  if (step.closeIdle === true) gateway.closeConnections();
  if (step.waitMs !== undefined) await sleep(step.waitMs);
  if (step.events !== undefined) {
    const { events } = await driver.say({ events: true });
    return { seen: { events }, wanted: { events: expected(step.events) } };
  }
  if (step.do === undefined) return { seen: {}, wanted: {} };
  const beganMs = performance.now();
  const results = await driver.do(...step.do);
  const tookMs = performance.now() - beganMs;
  const { mostOpen } = step;
  if (mostOpen !== undefined) await until("the client has ended its connections", () => gateway.open <= mostOpen);
  const [leastMs, mostMs] = step.withinMs ?? [0, 60_000];
  const inTime = tookMs >= leastMs && tookMs <= mostMs ? true : `took ${tookMs} ms`;
  return { seen: { results, inTime }, wanted: { results: expected(step.results), inTime: true } };
}

function expected(value: unknown): unknown {
  if (value === "*") return expect.anything();
  if (Array.isArray(value)) return value.map(expected);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, expected(one)]));
}
