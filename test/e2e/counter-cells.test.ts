// Some counters have several cells in the shared dict. Each counter writes only its own cells. If nginx evicts one of them,
// the counter admits later than it might, and never more than it may. This shows it in nginx' own dict, with two cells; counters
// of five, each of which is lost at several moments, are in test/gateway/stores/node/counter-cells_spec.lua.

import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";

const quota = 300;
const windowSeconds = 60;
const perKey = (name: string, limit: Record<string, unknown>) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [{ quota, window: `${windowSeconds}s`, ...limit }],
});
const others = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"];
const policies = [
  perKey("log", { algorithm: "sliding-log" }),
  perKey("window", { algorithm: "sliding-window", precision: "200ms" }),
  ...others.map((algorithm) => perKey(`other-${algorithm}`, { algorithm })),
];

const cellsOfCounters = `
    location = /cells { content_by_lua_block { ngx.print(table.concat(ngx.shared.sluice_counters:get_keys(0), "\\n")) } }
    location = /evict { content_by_lua_block { ngx.shared.sluice_counters:delete(ngx.req.get_headers()["x-cell"]) } }
`;

let clock: SetClock;
let gateway: LoneGateway;
let seconds = 1_700_000_000;
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  clock = new SetClock(seconds);
  gateway = await LoneGateway.start({
    policies,
    clock,
    edit: (config) => config.replace("location / {", `${cellsOfCounters}location / {`),
  });
});
afterAll(async () => {
  agent.destroy();
  await gateway?.stop();
  clock?.remove();
});

function setClock(to: number): void {
  seconds = to;
  clock.set(seconds);
}

async function cells(): Promise<string[]> {
  const { body } = await ask(`${gateway.url}/cells`, { agent });
  return body === "" ? [] : body.split("\n");
}

/** @returns the numbers of the cells that hold this counter's entries, and "head" for its other cell */
async function cellsOf(key: string): Promise<string[]> {
  const own = (await cells()).filter((cell) => cell.endsWith(key));
  return own.map(numberOf).toSorted();
}

function numberOf(cell: string): string {
  return /^(\d+):/.exec(cell)?.[1] ?? "head";
}

/** Does what nginx does when it is short of memory and this cell is the least recently used. */
async function evict(number: string, key: string): Promise<void> {
  const cell = (await cells()).find((each) => each.endsWith(key) && numberOf(each) === number);
  expect(cell, `the cell ${number} of ${key}`).toBeDefined();
  await ask(`${gateway.url}/evict`, { agent, headers: { "x-cell": cell as string } });
  expect(await cells()).not.toContain(cell);
}

/** Records what each of several counters of a policy admitted, and when. */
class Counters {
  readonly admittedAt: Record<string, number[]> = {};
  /** Values of X-RateLimit-Remaining that are out of range. */
  readonly odd: string[] = [];
  readonly #path: string;

  constructor(path: string, keys: readonly string[]) {
    this.#path = path;
    for (const key of keys) this.admittedAt[key] = [];
  }

  /** Asks each counter `times` times, with a pause before each round. */
  async ask(times: number, pauseSeconds: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      setClock(seconds + pauseSeconds);
      await this.#askEach();
    }
  }

  /** Asks each counter until all refuse. */
  async drain(): Promise<void> {
    while (await this.#askEach());
  }

  async #askEach(): Promise<boolean> {
    const answers = await Promise.all(
      Object.entries(this.admittedAt).map(async ([key, at]) => {
        const { status, headers } = await ask(gateway.url + this.#path, { agent, headers: { "x-key": key } });
        const remaining = Number(headers["x-ratelimit-remaining"]);
        if (!(remaining >= 0 && remaining < quota)) this.odd.push(`${key}: ${remaining} remaining`);
        if (status === 429) return false;
        at.push(seconds);
        return true;
      }),
    );
    return answers.includes(true);
  }

  /** @returns the most requests admitted in any window */
  most(key: string): number {
    const at = this.admittedAt[key] as number[];
    let most = 0;
    let first = 0;
    for (let last = 0; last < at.length; last++) {
      while ((at[last] as number) - (at[first] as number) >= windowSeconds - 0.0001) first += 1;
      most = Math.max(most, last - first + 1);
    }
    return most;
  }

  since(key: string, moment: number): number {
    return (this.admittedAt[key] as number[]).filter((at) => at > moment).length;
  }
}

describe("a counter that is decided after one with many entries", () => {
  it("writes only its own cells", async () => {
    const log = new Counters("/log", ["before"]);
    await log.ask(300, 0.01);
    expect(await cellsOf("before")).toEqual(["1", "head"]);
    for (const algorithm of others) {
      const key = `after-a-log-${algorithm}`;
      await new Counters(`/other-${algorithm}`, [key]).ask(1, 0);
      expect(await cellsOf(key), algorithm).toEqual(["head"]);
      // This request changes the cells in the worker's room for entries again.
      await log.ask(1, 0.01);
    }
  });
});

describe("a sliding counter that lost a cell to eviction", () => {
  it("admits no more than its quota in any window, or has forgotten everything if it was the head", async () => {
    setClock(Math.ceil(seconds) + 120);
    const step = 0.2;
    const of = ["log", "window"].map((name) => {
      const early = `${name}-early`;
      const full = `${name}-full`;
      const headless = `${name}-headless`;
      return { early, full, headless, counters: new Counters(`/${name}`, [early, full, headless]) };
    });
    const each = async (act: (one: (typeof of)[number]) => Promise<void>) => {
      await Promise.all(of.map(act));
    };
    const round = async (times: number, pauseSeconds: number) => {
      for (let i = 0; i < times; i++) {
        setClock(seconds + pauseSeconds);
        await each(({ counters }) => counters.ask(1, 0));
      }
    };
    await round(260, step);
    for (const { early } of of) await evict("1", early);
    await round(40, step / 10);
    for (const { full } of of) await evict("1", full);
    await round(60, 0.3);
    await each(({ counters }) => counters.drain());
    for (const { early, full, headless, counters } of of) {
      for (const key of [early, full, headless]) expect(counters.most(key), key).toBeLessThanOrEqual(quota);
    }
    const silentSince = seconds;
    setClock(seconds + windowSeconds + step);
    await each(({ counters }) => counters.drain());
    for (const { early, full, headless, counters } of of) {
      for (const key of [early, full, headless]) expect(counters.since(key, silentSince), key).toBe(quota);
      await evict("head", headless);
    }
    await each(({ counters }) => counters.drain());
    for (const { early, full, headless, counters } of of) {
      for (const key of [early, full]) expect(counters.since(key, silentSince), key).toBe(quota);
      expect(counters.since(headless, silentSince)).toBe(2 * quota);
      expect(counters.odd).toEqual([]);
    }
  });
});
