// One policy is edited hundreds of times while four workers decide by it: each response is of one revision, no connection
// sees an older revision again, and counts are kept.

import { readdirSync } from "node:fs";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { residentKb } from "../fixtures/measures/resident-memory.ts";
import { nginxProcesses, System } from "../fixtures/servers/system.ts";

const edits = 400;
const quota = 1_000_000;
const burst = 2_000_000;
/** This client has spent the year's quota and is refused from then on, as long as its counter is kept. */
const spent = { "x-client": "spent", "x-cost": `${quota}` };

/** Every field that may change while the policy's counters are kept shows the generation. */
function edited(generation: number, mode: string) {
  return {
    name: "edited",
    description: `generation ${generation}`,
    mode,
    key: ["header:x-client"],
    onMissingKey: "shared",
    cost: { from: "header:x-cost", default: 1, max: quota },
    limits: [
      { name: "year", algorithm: "fixed-window", quota: quota + generation, window: "366d" },
      {
        name: "second",
        algorithm: "token-bucket",
        quota: 500_000 + generation,
        window: "1s",
        burst: burst + generation,
      },
    ],
    onLimit: {
      status: 400 + (generation % 100),
      body: `generation ${generation}`,
      headers: [`x-generation: ${generation}`, `x-again: ${generation}`],
    },
  };
}

/** Now and then the policy is in shadow mode, which shows in no response. */
const modeOf = (generation: number) => (generation % 50 === 25 ? "shadow" : "enforce");

/** @returns the generation of this answer; undefined if it shows none. @throws if it shows two */
function generationOf({ status, headers, body }: Answer): number | undefined {
  const policy = headers["ratelimit-policy"];
  if (policy === undefined) {
    expect(status).toBe(200);
    expect(headers["x-generation"]).toBeUndefined();
    return undefined;
  }
  const [, year, second] = /^"year";q=(\d+);w=\d+, "second";q=(\d+);w=\d+$/.exec(policy) ?? [];
  const generation = Number(year) - quota;
  const seen = { second: Number(second), limit: Number(headers["x-ratelimit-limit"]), status };
  if (status === 200) {
    expect(seen).toEqual({ second: burst + generation, limit: quota + generation, status: 200 });
    return generation;
  }
  expect({ ...seen, body, generation: headers["x-generation"], again: headers["x-again"] }).toEqual({
    second: burst + generation,
    limit: quota + generation,
    status: 400 + (generation % 100),
    body: `generation ${generation}`,
    generation: `${generation}`,
    again: `${generation}`,
  });
  return generation;
}

/** One keepalive connection, which stays with one worker until nginx ends it. */
class Connection extends Agent {
  opened = 0;
  constructor() {
    super({ keepAlive: true, maxSockets: 1 });
  }
  override createConnection(...parameters: Parameters<Agent["createConnection"]>) {
    this.opened += 1;
    return super.createConnection(...parameters);
  }
}

const residentBytes = (pid: number) => 1024 * residentKb(pid);
const handles = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

let system: System;
beforeAll(async () => {
  system = await System.start({ workers: 4 });
});
afterAll(() => system?.stop());

describe("a policy that is edited 400 times under load, with four workers", () => {
  it("shows no request two revisions and no connection an older one, fails no request, and keeps its counters", async () => {
    await system.put(edited(0, "enforce"));
    expect((await ask(`${system.gateway.url}/edited`, { headers: spent })).status).toBe(200);
    let over = false;
    let admitted = 0;
    const seen = new Set<number>();
    const load = async (client: number) => {
      const agent = new Connection();
      let connection = 0;
      let newest = 0;
      for (let i = client; !over; i++) {
        const isSpent = i % 3 === 0;
        const answer = await ask(`${system.gateway.url}/edited`, {
          agent,
          headers: isSpent ? spent : { "x-client": "one" },
        });
        const isObserved = answer.headers["ratelimit-policy"] === undefined;
        expect(answer.status === 200).toBe(!isSpent || isObserved);
        if (!isSpent) admitted += 1;
        const generation = generationOf(answer);
        if (agent.opened !== connection) newest = 0;
        connection = agent.opened;
        if (generation !== undefined) {
          expect(generation).toBeGreaterThanOrEqual(newest);
          newest = generation;
          seen.add(generation);
        }
        await sleep(4);
      }
      agent.destroy();
    };
    const loads = Promise.all(Array.from({ length: 8 }, (_, client) => load(client)));
    // The promise is awaited below; without this handler, an earlier failure would be an unhandled rejection.
    loads.catch(() => {});

    const { workers } = nginxProcesses(system.gateway);
    expect(workers).toHaveLength(4);
    const processes = [system.controlPlanePid, ...workers];
    let before: { pid: number; bytes: number; handles: number }[] = [];
    try {
      for (let generation = 1; generation < edits; generation++) {
        const document = edited(generation, modeOf(generation));
        const { status, body } = await system.api("PUT", "/apps/default/policies/edited", document);
        if (status !== 200) throw new Error(`generation ${generation}: ${status} ${body}`);
        if (generation === 120) {
          before = processes.map((pid) => ({ pid, bytes: residentBytes(pid), handles: handles(pid) }));
        }
      }
      await system.put(edited(edits, "enforce"));
      // The last edit is in force in every worker, so every request from here on is answered by it.
      const fresh = await Promise.all(Array.from({ length: 100 }, () => ask(`${system.gateway.url}/edited`)));
      expect(new Set(fresh.map(generationOf))).toEqual(new Set([edits]));
    } finally {
      over = true;
    }
    await loads;
    expect(seen.size).toBeGreaterThan(100);

    const last = await ask(`${system.gateway.url}/edited`, { headers: { "x-client": "one" } });
    expect(last.headers["x-ratelimit-limit"]).toBe(`${quota + edits}`);
    expect(Number(last.headers["x-ratelimit-remaining"])).toBe(quota + edits - admitted - 1);

    expect(nginxProcesses(system.gateway).workers).toEqual(workers);
    for (const { pid, bytes, handles: handlesBefore } of before) {
      expect(residentBytes(pid) - bytes).toBeLessThan(64 * 1024 * 1024);
      // nginx keeps up to 64 connections to the service, besides those of clients.
      expect(handles(pid) - handlesBefore).toBeLessThan(pid === system.controlPlanePid ? 10 : 100);
    }
  });
});
