// Bounds what counting decisions costs other requests where there are many policies: no request waits while all series are
// gone through, and when the dict of metrics is full, no series that is in it is lost.

import { afterEach, describe, expect, it } from "vitest";
import { callerOf, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { readPrometheusText } from "../fixtures/measures/prometheus-text.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until, untilPasses } from "../fixtures/until.ts";

/** Each request matches all of them, and each has one more series for either result: the first request is allowed. */
const shadows = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, i) => ({
    name: `${prefix}${i}`,
    mode: "shadow",
    match: { paths: ["/all"] },
    key: [],
    limits: [{ algorithm: "token-bucket", quota: 1, window: "366d", burst: 1 }],
  }));
const shop = { app: "default", token: "a-token-of-the-shop" };

/** The most series that may be gone through without a yield. */
const mostAtOnce = 1000;

/** Logs when more series than that are taken from the dict at once, and how often nginx turned to other work in a scrape. */
const watched = (config: string) =>
  config
    .replace(
      'sluice = require("sluice")',
      `local methods = getmetatable(ngx.shared.sluice_metrics).__index
      local get_keys = methods.get_keys
      all_keys = get_keys
      methods.get_keys = function(dict, most)
        local keys = get_keys(dict, most)
        if #keys > ${mostAtOnce} then ngx.log(ngx.ERR, "took at once: ", #keys) end
        return keys
      end
      -- The sweep of each minute runs each half second here.
      local every = ngx.timer.every
      ngx.timer.every = function(seconds, work) return every(seconds == 60 and 0.5 or seconds, work) end
      turns = 0
      sluice = require("sluice")`,
    )
    .replace(
      "location = /sluice/metrics {",
      `location = /series { content_by_lua_block { ngx.print(#all_keys(ngx.shared.sluice_metrics, 0)) } }
    location = /sluice/metrics {`,
    )
    .replace("sluice.initWorker()", "sluice.initWorker() ngx.timer.every(0.001, function() turns = turns + 1 end)")
    .replace(
      "sluice.metrics()",
      'local before = turns sluice.metrics() ngx.log(ngx.ERR, "turns in a scrape: ", turns - before)',
    );

let gateway: LoneGateway | undefined;
let control: ControlPlaneDouble | undefined;
afterEach(async () => {
  await gateway?.stop();
  await control?.stop();
  gateway = undefined;
  control = undefined;
});

const scrape = async (from: LoneGateway) => readPrometheusText((await ask(`${from.privateUrl}/sluice/metrics`)).body);

async function decided(from: LoneGateway): Promise<{ series: number; decisions: number }> {
  const samples = (await scrape(from))["sluice_decisions_total"]?.samples ?? [];
  return { series: samples.length, decisions: samples.reduce((sum, { value }) => sum + value, 0) };
}

describe("with 4,000 policies", () => {
  const policies = shadows(4000, "p");

  it("lets requests go first in a scrape, in a report to the control plane and while it drops series of removed policies", async () => {
    const [controlPort] = (await freePorts(1)) as [number];
    control = new ControlPlaneDouble(controlPort);
    const started = await LoneGateway.start({
      policies,
      env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}` },
      edit: watched,
    });
    gateway = started;
    for (let i = 0; i < 3; i++) await ask(`${started.url}/all`);
    // Each policy allowed one request, and as a shadow policy would have refused two.
    await untilPasses(async () => expect(await decided(started)).toEqual({ series: 8000, decisions: 12_000 }));
    const totals = { allowed: 4000, "shadow-refused": 8000 };
    expect((await control.status()).counters).toMatchObject(totals);

    await control.push([{ app: "default", document: policies[0] as object }], []);
    const kept = async () => Number((await ask(`${started.privateUrl}/series`)).body);
    await until("nothing is kept of what is gone", async () => (await kept()) < 100);
    expect(await decided(started)).toEqual({ series: 2, decisions: 3 });
    // The totals still have the decisions of removed policies.
    expect((await control.status()).counters).toMatchObject(totals);

    const turns = [...started.log.matchAll(/turns in a scrape: (\d+)/g)].map(([, count]) => Number(count));
    expect(Math.max(...turns)).toBeGreaterThan(3);
    expect(started.log).not.toContain("took at once");
  });
});

describe("with more series than the dict of metrics has room for", () => {
  const policies = shadows(2000, "a-policy-whose-name-is-nearly-as-long-as-a-name-may-be-");
  const bans = [{ id: "1", app: "default", cidr: "127.0.0.20", untilSeconds: 4_000_000_000 }];

  it("drops the new series, says so and counts them, and goes on with all other numbers", async () => {
    const started = await LoneGateway.start({
      policies,
      bans,
      callers: [callerOf(shop)],
      edit: (config) => config.replace(/sluice_metrics \d+m/, "sluice_metrics 512k"),
    });
    gateway = started;
    const { url, privateUrl } = started;
    expect((await post(privateUrl, { ...shop, token: "unknown" }, "{}")).status).toBe(401);
    expect((await ask(`${url}/all`, { from: "127.0.0.20" })).status).toBe(403);
    // The worker has reported this before anything could be crowded out.
    await untilPasses(async () => expect(await started.metric("sluice_banned_requests_total")).toBe(1));

    for (let i = 0; i < 2; i++) await ask(`${url}/all`);
    const dropped = () => started.metric("sluice_unlisted_decisions_total");
    const all = async () => (await decided(started)).decisions + (await dropped());
    await untilPasses(async () => expect(await all()).toBe(4000));
    expect(await dropped()).toBeGreaterThan(1000);
    expect((await decided(started)).series).toBeGreaterThan(1000);
    expect(started.log.match(/lua_shared_dict sluice_metrics/g)).toHaveLength(1);

    // Series that came first are still there, and a series counted for the first time finds room.
    expect(await started.metric("sluice_banned_requests_total")).toBe(1);
    expect((await post(privateUrl, shop, "no json")).status).toBe(400);
    const asked = async () => {
      const samples = (await scrape(started))["sluice_check_requests_total"]?.samples ?? [];
      return ["400", "401"].map((status) => samples.find(({ labels }) => labels["status"] === status)?.value);
    };
    await untilPasses(async () => expect(await asked()).toEqual([1, 1]));
  });
});

it("has room for the longest names of as many policies as a control plane allows, with every result", async () => {
  // These are as many policies as SLUICE_MAX_POLICIES allows, with names of 63 characters.
  const fill = `local name, dict, dropped = string.rep("n", 58), ngx.shared.sluice_metrics, 0
        for policy = 10001, 30000 do
          for _, result in ipairs({ "=", "!", "~", "?" }) do
            local key = name .. "12345" .. result .. name .. policy
            if not dict:safe_add(key, 1) then dropped = dropped + 1 end
          end
        end
        ngx.print(dropped, " ", dict:free_space() >= 262144 and "and more" or "and no more")`;
  const started = await LoneGateway.start({
    policies: [],
    edit: (config) =>
      config.replace(
        "location = /sluice/metrics {",
        `location = /fill { content_by_lua_block {\n${fill}\n} }\n    location = /sluice/metrics {`,
      ),
  });
  gateway = started;
  expect((await ask(`${started.privateUrl}/fill`)).body).toBe("0 and more");
});
