// Prometheus itself reads the metrics of a gateway and of the control plane: its own tool finds nothing wrong with them, and its sums of a story are
// what was sent, by policy, plan and result.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { Program } from "../fixtures/servers/program.ts";
import { adminToken, System } from "../fixtures/servers/system.ts";
import { untilPasses } from "../fixtures/until.ts";

const limit = (quota: number) => [{ algorithm: "fixed-window", quota, window: "366d" }];
const key = ["header:x-user"];
const plans = { free: limit(3), pro: limit(20) };
const fleet = {
  name: "fleet",
  scope: "cluster",
  match: { paths: ["/fleet"] },
  key,
  plans,
  planBy: "header:x-plan",
  defaultPlan: "free",
};
const policies = [
  { name: "plain", match: { paths: ["/plain"] }, key, limits: limit(4) },
  { name: "shadow", mode: "shadow", match: { paths: ["/shadow"] }, key, limits: limit(2) },
  fleet,
  {
    name: "bought",
    match: { paths: ["/bought"] },
    key,
    plans,
    planBy: "consumer",
    defaultPlan: "free",
    overrides: [{ key: ["vip"], limits: limit(5) }],
  },
];

const directory = makeMemoryDir("prometheus");
let system: System;
let prometheus: Program;
let url: string;
beforeAll(async () => {
  system = await System.start({ workers: 2, redis: true });
  await system.untilConnected();
  for (const policy of policies) await system.put(policy);
  expect((await system.api("PUT", "/apps/default/consumers/ann?wait=30s", { plan: "pro" })).status).toBe(201);
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const job = (name: string, path: string, of: string) => ({
    job_name: name,
    metrics_path: path,
    static_configs: [{ targets: [new URL(of).host] }],
    authorization: { credentials: adminToken },
  });
  const configuration = {
    global: { scrape_interval: "500ms" },
    scrape_configs: [
      job("gateway", "/sluice/metrics", system.gateway.privateUrl),
      job("control-plane", "/metrics", system.controlUrl),
    ],
  };
  writeFileSync(join(directory, "prometheus.yml"), JSON.stringify(configuration));
  prometheus = await Program.start({
    command: "prometheus",
    args: [
      `--config.file=${join(directory, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(directory, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    readyWhen: async () => (await ask(`${url}/-/ready`).catch(() => undefined))?.status === 200,
  });
});
afterAll(async () => {
  await prometheus?.stop();
  await system?.stop();
  removeMemoryDir(directory);
});

/** @returns the values of a query, by the values of these labels */
async function sums(query: string, labels: readonly string[]): Promise<Record<string, number>> {
  const { body } = await ask(`${url}/api/v1/query?query=${encodeURIComponent(query)}`);
  const { data } = JSON.parse(body) as {
    data: { result: { metric: Record<string, string>; value: [number, string] }[] };
  };
  const found = data.result.map(({ metric, value }) => [
    labels.map((label) => metric[label] ?? "").join(" "),
    Number(value[1]),
  ]);
  return Object.fromEntries(found);
}

async function send(policy: string, count: number, headers: Record<string, string>): Promise<void> {
  for (let i = 0; i < count; i++) await ask(`${system.gateway.url}/${policy}`, { headers });
}

describe("Prometheus", () => {
  it("sums up what was sent, by policy, plan and result", async () => {
    await send("plain", 6, { "x-user": "ann" });
    await send("shadow", 5, { "x-user": "ann" });
    await send("fleet", 5, { "x-user": "ann" });
    await send("fleet", 7, { "x-user": "bob", "x-plan": "pro" });
    await send("bought", 6, { "x-user": "ann" });
    await send("bought", 4, { "x-user": "bob" });
    await send("bought", 8, { "x-user": "vip" });
    await untilPasses(async () => {
      const labels = ["policy", "plan", "result"];
      expect(await sums(`sum by (${labels}) (sluice_decisions_total)`, labels)).toEqual({
        "plain  allowed": 4,
        "plain  refused": 2,
        "shadow  allowed": 2,
        "shadow  shadow-refused": 3,
        "fleet free allowed": 3,
        "fleet free refused": 2,
        "fleet pro allowed": 7,
        "bought pro allowed": 6,
        "bought free allowed": 3,
        "bought free refused": 1,
        "bought  allowed": 5,
        "bought  refused": 3,
      });
      expect(await sums("up", ["job"])).toEqual({ gateway: 1, "control-plane": 1 });
    });
    expect(await sums("sum by (policy) (sluice_decisions_total)", ["policy"])).toEqual({
      plain: 6,
      shadow: 5,
      fleet: 12,
      bought: 18,
    });
    const refused = ["policy", "limit"];
    await untilPasses(async () => {
      expect(await sums(`sum by (${refused}) (sluice_refused_requests_total)`, refused)).toEqual({
        "plain default": 2,
        "fleet default": 2,
        "bought default": 4,
      });
    });
    expect(await sums("sluice_snapshot_revision", ["worker"])).toEqual({ 0: 4, 1: 4 });
  });

  it("drops the series of a plan that is gone, and counts names that are too long for it without the plan", async () => {
    await system.put({ ...fleet, plans: { free: limit(3) } });
    const long = "p".repeat(63);
    const named = { name: long, match: { paths: [`/${long}`] }, plans: { [long]: limit(1) }, planBy: "header:x-plan" };
    await system.put({ ...named, defaultPlan: long });
    await send(long, 2, {});
    await untilPasses(async () => {
      const labels = ["policy", "plan", "result"];
      const found = await sums(`sum by (${labels}) (sluice_decisions_total{policy=~"fleet|p+"})`, labels);
      expect(found).toEqual({
        "fleet free allowed": 3,
        "fleet free refused": 2,
        [`${long}  allowed`]: 1,
        [`${long}  refused`]: 1,
      });
    });
  });

  it.each([
    ["a gateway", () => `${system.gateway.privateUrl}/sluice/metrics`],
    ["the control plane", () => `${system.controlUrl}/metrics`],
  ])("finds nothing to complain of in the metrics of %s", async (_, at) => {
    const { body } = await ask(at(), { headers: { authorization: `Bearer ${adminToken}` } });
    const { status, stdout, stderr } = spawnSync("promtool", ["check", "metrics"], { input: body, encoding: "utf8" });
    expect([status, stdout, stderr]).toEqual([0, "", ""]);
  });
});
