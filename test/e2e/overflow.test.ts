// A spray has taken nginx' own memory, so several keys share a counter. What happens to such a counter and to its lock is in
// test/gateway/stores/node/overflow_spec.lua.

import { Agent } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { keysFrom, spray } from "../fixtures/clients/key-spray.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { untilPasses } from "../fixtures/until.ts";

const dictBytes = 512 * 1024;
const cellsInDict = dictBytes / 128;
const quota = 10;
const kinds = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

const perKey = (name: string, algorithm: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-key"],
  limits: [{ algorithm, quota, window: "1d" }],
});

let gateway: LoneGateway;
const agent = new Agent({ keepAlive: true });
const askFor = (path: string, key: string, headers: Record<string, string> = {}) =>
  ask(`${gateway.url}/${path}`, { agent, headers: { "x-key": key, ...headers } });
const statusOf = async (path: string, key: string, headers: Record<string, string> = {}) =>
  (await askFor(path, key, headers)).status;
const admittedOf = async (path: string, key: string) => {
  let admitted = 0;
  while (admitted < 2 * quota && (await statusOf(path, key)) !== 429) admitted += 1;
  return admitted;
};
/** Sends keys that this policy has no memory for any more, few of which share a counter. */
const fill = (path: string, count: number) => spray(`${gateway.url}/${path}`, keysFrom("k", count));

beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      ...kinds.map((kind) => perKey(kind, kind)),
      ...kinds.map((kind) => perKey(`grown-${kind}`, kind)),
      { ...perKey("bytes", "token-bucket"), cost: { from: "response-bytes" } },
      {
        name: "never",
        match: { headers: { "x-also": ["yes"] } },
        priority: -1,
        limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }],
      },
      ...Array.from({ length: 20 }, (_, i) => perKey(`filler-${i}`, "fixed-window")),
    ],
    edit: (config) =>
      config.replace("sluice_counters 64m", `sluice_counters ${dictBytes / 1024}k`).replace(
        "location / {",
        `location /bytes { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.print("twelve bytes") } }
           location / { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
           location /unused {`,
      ),
  });
  for (const kind of kinds) for (const key of keysFrom("early", 20)) await statusOf(`grown-${kind}`, key);
  await statusOf("anything", "a", { "x-also": "yes" });
  // The first takes seven eighths of the memory, and each other half of what is left.
  for (const kind of kinds) await fill(kind, kind === kinds[0] ? cellsInDict : cellsInDict / 4);
  await fill("bytes", cellsInDict / 4);
});
afterAll(async () => {
  agent.destroy();
  await gateway?.stop();
});

/** @returns how many requests were admitted by a counter that several keys share */
async function overflowed(): Promise<number> {
  const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
  return Number(/^sluice_overflow_decisions_total\{result="allowed"\} (\d+)$/m.exec(body)?.[1]);
}

it("refunds what a request took of a shared counter when a later policy refuses it", async () => {
  for (const kind of kinds) {
    const before = await overflowed();
    for (const key of keysFrom("refunded", 4)) {
      const left = Number((await askFor(kind, key)).headers["x-ratelimit-remaining"]);
      for (let i = 0; i < 5; i++) expect(await statusOf(kind, key, { "x-also": "yes" })).toBe(429);
      expect(await admittedOf(kind, key), `${kind} ${key}`).toBe(left);
    }
    // Each of its four keys is counted there.
    await untilPasses(async () => expect(await overflowed()).toBeGreaterThan(before + 4 * 5));
  }
});

it("charges a response to a shared counter, and refuses the next request until the debt is paid", async () => {
  let admitted = 0;
  for (const key of keysFrom("download", 30)) {
    if ((await statusOf("bytes", key)) === 200) admitted += 1;
    expect(await statusOf("bytes", key)).toBe(429);
  }
  expect(admitted).toBeGreaterThan(10);
});

it("admits no more than the quota when the memory is full to the last byte, and keeps the counts of existing counters", async () => {
  for (let i = 0; i < 20; i++) await fill(`filler-${i}`, cellsInDict / 8);
  expect(await gateway.metric("sluice_counters_free_bytes")).toBe(0);
  const all = kinds.flatMap((kind) =>
    [...keysFrom("early", 20)].map(async (key) => {
      expect(await admittedOf(`grown-${kind}`, key), `${kind} ${key}`).toBe(quota - 1);
      const late = key.replace("early", "late");
      expect(await admittedOf(kind, late), `${kind} ${late}`).toBeLessThanOrEqual(quota);
    }),
  );
  await Promise.all(all);
  expect(await gateway.metric("sluice_evictions_total")).toBe(0);
  expect(gateway.log).not.toContain("undecided");
});

it("leaves memory to newcomers of other policies when sliding logs grow", async () => {
  const smallBytes = 256 * 1024;
  const small = await LoneGateway.start({
    policies: [
      { ...perKey("logs", "sliding-log"), limits: [{ algorithm: "sliding-log", quota: 3000, window: "1d" }] },
      perKey("others", "fixed-window"),
    ],
    edit: (config) =>
      config.replace("sluice_counters 64m", `sluice_counters ${smallBytes / 1024}k`).replace(
        "location / {",
        `location / { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
           location /unused {`,
      ),
  });
  try {
    // At 8 bytes each, these entries take more than all of the memory.
    const entries = 1.5 * (smallBytes / 8);
    const keys = Array.from({ length: entries }, (_, i) => `log-${i % 40}`);
    await spray(`${small.url}/logs`, keys);
    const newcomers = [...keysFrom("newcomer", 100)].map((key) =>
      ask(`${small.url}/others`, { agent, headers: { "x-key": key } }),
    );
    const remaining = (await Promise.all(newcomers)).map(({ headers }) => headers["x-ratelimit-remaining"]);
    expect(new Set(remaining)).toEqual(new Set([`${quota - 1}`]));
    expect(await small.metric("sluice_uncounted_refusals_total")).toBe(0);
    expect(await small.metric("sluice_counters_free_bytes")).toBeGreaterThan(0);
  } finally {
    await small.stop();
  }
});
