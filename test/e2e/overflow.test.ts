// Counters that several keys share, because a spray has taken the memory: what is given back, settled later, or grows.

import { afterAll, beforeAll, expect, it } from "vitest";
import { keysFrom, spray } from "../fixtures/key-spray.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { ask } from "../fixtures/requests.ts";

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
const statusOf = async (path: string, key: string, headers: Record<string, string> = {}) =>
  (await ask(`${gateway.url}/${path}`, { headers: { "x-key": key, ...headers } })).status;
const admittedOf = async (path: string, key: string) => {
  let admitted = 0;
  while (admitted < 2 * quota && (await statusOf(path, key)) !== 429) admitted += 1;
  return admitted;
};
/** Keys that this policy has no memory for any more, and of which few share a counter. */
const fill = (path: string) => spray(`${gateway.url}/${path}`, keysFrom("k", cellsInDict));

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
  for (const kind of kinds) await fill(kind);
  await fill("bytes");
});
afterAll(() => gateway?.stop());

it("gives back what a request took of a shared counter when a later policy refuses it", async () => {
  for (const kind of kinds) {
    for (const key of keysFrom("refunded", 30)) {
      const before = Number(
        (await ask(`${gateway.url}/${kind}`, { headers: { "x-key": key } })).headers["x-ratelimit-remaining"],
      );
      for (let i = 0; i < 5; i++) expect(await statusOf(kind, key, { "x-also": "yes" })).toBe(429);
      expect(await admittedOf(kind, key), `${kind} ${key}`).toBe(before);
    }
  }
});

it("charges what a response took to a shared counter, and refuses the next until it is paid", async () => {
  let admitted = 0;
  for (const key of keysFrom("download", 30)) {
    if ((await statusOf("bytes", key)) === 200) admitted += 1;
    expect(await statusOf("bytes", key)).toBe(429);
  }
  expect(admitted).toBeGreaterThan(10);
});

it("admits no more than the quota where the memory is full to the last byte, and keeps what counters had", async () => {
  for (let i = 0; i < 20; i++) await fill(`filler-${i}`);
  expect(await gateway.metric("sluice_counters_free_bytes")).toBe(0);
  for (const kind of kinds) {
    for (const key of keysFrom("early", 20))
      expect(await admittedOf(`grown-${kind}`, key), `${kind} ${key}`).toBe(quota - 1);
    for (const key of keysFrom("late", 20))
      expect(await admittedOf(kind, key), `${kind} ${key}`).toBeLessThanOrEqual(quota);
  }
  expect(await gateway.metric("sluice_counter_evictions_total")).toBe(0);
  expect(gateway.log).not.toContain("undecided");
});

it("leaves memory to newcomers of other policies where it is logs that grow", async () => {
  const small = await LoneGateway.start({
    policies: [
      { ...perKey("logs", "sliding-log"), limits: [{ algorithm: "sliding-log", quota: 3000, window: "1d" }] },
      perKey("others", "fixed-window"),
    ],
    edit: (config) =>
      config.replace("sluice_counters 64m", `sluice_counters ${dictBytes / 1024}k`).replace(
        "location / {",
        `location / { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
           location /unused {`,
      ),
  });
  try {
    // Of 8 bytes an entry, more than all of the memory.
    const entries = 1.5 * (dictBytes / 8);
    const keys = Array.from({ length: entries }, (_, i) => `log-${i % 40}`);
    await spray(`${small.url}/logs`, keys);
    const remaining: (string | undefined)[] = [];
    for (const key of keysFrom("newcomer", 100)) {
      const { headers } = await ask(`${small.url}/others`, { headers: { "x-key": key } });
      remaining.push(headers["x-ratelimit-remaining"]);
    }
    expect(new Set(remaining)).toEqual(new Set([`${quota - 1}`]));
    expect(await small.metric("sluice_uncounted_refusals_total")).toBe(0);
    expect(await small.metric("sluice_counters_free_bytes")).toBeGreaterThan(0);
  } finally {
    await small.stop();
  }
});
