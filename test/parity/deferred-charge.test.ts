// Compares deferred charges by Redis' script, under Lua 5.1 and LuaJIT, and on nginx's shared dict with those of Node: random
// lives of counters with debts, with edits of the quota and a clock that steps both ways.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { calendarWindow } from "../../limiter/src/algorithms/calendar-window.ts";
import { type Rate, rateOf } from "../../limiter/src/algorithms/rate.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { DeferredCounter } from "../limiter/algorithms/deferred-counter.ts";
import { crowdedTraces, type LegalLimit, limitedTraces } from "../limiter/legal-limits.ts";
import { momentsAround } from "./trace.ts";

interface Step {
  readonly nowUs: number;
  readonly limit: LegalLimit;
  /** 0 only reads. */
  readonly units: number;
  /** Of a window of the calendar: when the windows around now begin and end. */
  readonly moments?: readonly number[];
}

const kinds = ["ask", "ask", "settle", "settle", "much", "edit", "back"] as const;

/** A cost of a trace is read, charged, charged eight times over, charged under half the quota, or charged after a step back. */
const life = fc.constantFrom("token-bucket", "fixed-window", "sliding-window", "sliding-log").chain((algorithm) =>
  fc
    .tuple(
      fc.oneof(crowdedTraces(algorithm, 40), limitedTraces(algorithm, 25)),
      fc.array(fc.constantFrom(...kinds), { minLength: 40, maxLength: 40 }),
      // Half of the fixed windows are of a calendar.
      fc.boolean(),
    )
    .map(([{ limit, fromUs, requests }, what, isCalendar]): Step[] => {
      let nowUs = fromUs;
      let { quota } = limit;
      // Only Redis remembers what a smaller bucket has forgiven. So no bucket is made larger after it was made smaller.
      let edits = algorithm === "token-bucket" ? 2 : requests.length;
      return requests.map(({ afterUs, cost }, i) => {
        const kind = what[i];
        nowUs += kind === "back" ? -Math.min(afterUs, 3e12) : afterUs;
        if (kind === "edit" && edits-- > 0) quota = quota === limit.quota ? Math.ceil(quota / 2) : limit.quota;
        const units = kind === "ask" ? 0 : kind === "much" ? cost * 8 : cost;
        const step = { nowUs, limit: { ...limit, quota }, units };
        if (!isCalendar || algorithm !== "fixed-window") return step;
        return { ...step, moments: momentsAround(limit.windowUs, nowUs) };
      });
    }),
);

function rateAt({ limit, moments }: Step): Rate {
  if (moments === undefined) return rateOf(limit);
  const [previousUs, startUs, endUs, nextEndUs] = moments as [number, number, number, number];
  return { ...calendarWindow(limit.quota, limit.windowUs, () => {}), previousUs, startUs, endUs, nextEndUs };
}

function reportedByNode(steps: readonly Step[]): number[][] {
  const counter = new DeferredCounter(rateAt(steps[0] as Step));
  return steps.map((step) => {
    const { nowUs, units } = step;
    counter.rate = rateAt(step);
    const beyond = units > 0 ? counter.chargeDeferred(nowUs, units) : 0;
    const { allowed, remaining, retryAfterUs, resetAfterUs } = counter.ask(nowUs);
    return [allowed ? 1 : 0, remaining, retryAfterUs, resetAfterUs, beyond];
  });
}

const project = resolve(import.meta.dirname, "../..");

beforeAll(requireGatewayBuild);

/** @param reportedNumbers a line of JSON per life */
function expectAsInNode(lives: readonly Step[][], reportedNumbers: string) {
  const inLua = reportedNumbers
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as number[][]);
  expect(inLua).toHaveLength(lives.length);
  let refused = 0;
  lives.forEach((steps, i) => {
    const inNode = reportedByNode(steps);
    expect({ steps, reportedNumbers: inLua[i] }).toEqual({ steps, reportedNumbers: inNode });
    refused += inNode.filter(([allowed]) => allowed === 0).length;
  });
  expect(refused).toBeGreaterThan(lives.length);
}

test.each(["lua5.1", "luajit"])("the script, in %s, reports what Node reports", (lua) => {
  const lives = fc.sample(life, { numRuns: 2000, seed: 7 });
  const reportedNumbers = execFileSync(lua, ["test/parity/deferred-charge.lua"], {
    cwd: project,
    input: JSON.stringify(lives),
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  expectAsInNode(lives, reportedNumbers);
});

test("the shared dict of a real nginx reports what Node reports", async () => {
  const lives = fc.sample(life, { numRuns: 500, seed: 11 });
  const player = `location = /deferred {
    client_max_body_size 8m;
    client_body_buffer_size 8m;
    content_by_lua_file ${project}/test/parity/deferred-charge-nginx.lua;
  }
  location = /sluice/healthz {`;
  const gateway = await LoneGateway.start({
    policies: [],
    edit: (config) => config.replace("location = /sluice/healthz {", player),
  });
  try {
    const { status, body } = await ask(`${gateway.url}/deferred`, { method: "POST", body: JSON.stringify(lives) });
    expect(status, gateway.log).toBe(200);
    expectAsInNode(lives, body);
  } finally {
    await gateway.stop();
  }
});
