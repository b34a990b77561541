// A spray has taken the memory, so several keys share a counter: it is refunded, charged after a response, or grows.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
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
/** Sends keys that this policy has no memory for any more, few of which share a counter. */
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

it("refunds what a request took of a shared counter when a later policy refuses it", async () => {
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

it("charges a response to a shared counter, and refuses the next request until the debt is paid", async () => {
  let admitted = 0;
  for (const key of keysFrom("download", 30)) {
    if ((await statusOf("bytes", key)) === 200) admitted += 1;
    expect(await statusOf("bytes", key)).toBe(429);
  }
  expect(admitted).toBeGreaterThan(10);
});

it("admits no more than the quota when the memory is full to the last byte, and keeps the counts of existing counters", async () => {
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

it("leaves memory to newcomers of other policies when sliding logs grow", async () => {
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
    // At 8 bytes each, these entries take more than all of the memory.
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

describe("while the lock of a key's shared cells is held elsewhere,", () => {
  /** These play a worker that never frees the shared cells, and one that waits for the key's lock. */
  const locations = `
    location = /hold-pages {
      content_by_lua_block {
        local pages = "shared:s3:{default:" .. ngx.var.arg_policy .. ":"
        for i = 0, 200 do ngx.shared.sluice_locks:set(pages .. i, true, 5) end
      }
    }
    location = /take-next {
      content_by_lua_block {
        local locks = ngx.shared.sluice_locks
        local key
        local untilSeconds = ngx.now() + 3
        repeat
          ngx.sleep(0.001)
          for _, name in ipairs(locks:get_keys(0)) do
            if name:sub(1, 7) ~= "shared:" then key = name end
          end
        until key or ngx.now() > untilSeconds
        repeat ngx.sleep(0.001) until locks:safe_add(key, "another's", 5)
        ngx.sleep(0.5)
        ngx.print(locks:get(key) or "lost")
      }
    }`;
  let shared: LoneGateway;
  beforeAll(async () => {
    shared = await LoneGateway.start({
      policies: [perKey("held", "token-bucket"), perKey("two", "token-bucket")].map((policy) => ({
        ...policy,
        limits: policy.name === "two" ? ["a", "b"].map((name) => ({ ...policy.limits[0], name })) : policy.limits,
      })),
      workers: 2,
      edit: (config) =>
        config
          .replace("sluice_counters 64m", `sluice_counters ${dictBytes / 1024}k`)
          .replace("sluice_overflow 16m", "sluice_overflow 512k")
          .replace(
            "location / {",
            `${locations}
             location / { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.exit(204) } }
             location /unused {`,
          ),
    });
    for (const name of ["held", "two"]) await spray(`${shared.url}/${name}`, keysFrom("k", cellsInDict));
  });
  afterAll(() => shared?.stop());

  it.each(["held", "two"])(
    "a request of %s gives up before its key's lock has lapsed, and takes nobody's",
    async (name) => {
      const answerOf = () => ask(`${shared.url}/${name}`, { headers: { "x-key": "late" } });
      expect((await answerOf()).status).toBe(204);
      const before = await shared.metric("sluice_lock_timeouts_total");
      await ask(`${shared.url}/hold-pages?policy=${name}`);
      const next = ask(`${shared.url}/take-next`);
      const begun = performance.now();
      expect((await answerOf()).status).toBe(204);
      expect(performance.now() - begun).toBeGreaterThan(200);
      expect((await next).body).toBe("another's");
      await expect.poll(() => shared.metric("sluice_lock_timeouts_total"), { timeout: 5000 }).toBe(before + 1);
    },
  );
});
