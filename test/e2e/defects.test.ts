// A defect of Sluice harms no request, and does not stay unnoticed: the metrics, the health and the control plane hear of it, and the key
// whose counter it concerned is free for the next request. In nginx itself; test/gateway/runtime/defects_spec.lua has more cases.

import { afterEach, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

let gateway: LoneGateway | undefined;
let controlPlane: ControlPlaneDouble | undefined;
afterEach(async () => {
  await gateway?.stop();
  await controlPlane?.stop();
});

/** Lets the read of a counter fail while a request with the header x-defect is decided: the request holds the counter's lock. */
const defect = `init_by_lua_block {
  local methods = getmetatable(ngx.shared.sluice_counters).__index
  local get = methods.get
  methods.get = function(...)
    if ngx.get_phase() == "access" and ngx.var.http_x_defect then error("a defect") end
    return get(...)
  end
`;

const policies = [
  {
    name: "bucket",
    match: { paths: ["/sluice/healthz"] },
    limits: [{ algorithm: "token-bucket", quota: 9, window: "1d" }],
  },
];

const errorsAt = async (place: string) => {
  const { body } = await ask(`${gateway?.privateUrl}/sluice/metrics`);
  return Number(new RegExp(`^sluice_errors_total\\{place="${place}"\\} (\\d+)$`, "m").exec(body)?.[1]);
};

it("the request passes, the key is not locked, and metrics, health and control plane say so", async () => {
  const [port] = (await freePorts(1)) as [number];
  controlPlane = new ControlPlaneDouble(port);
  gateway = await LoneGateway.start({
    policies,
    workers: 2,
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` },
    edit: (config) =>
      config.replace("init_by_lua_block {", defect).replace(/location = \/sluice\/healthz \{/, "location = /health {"),
  });
  const path = `${gateway.url}/sluice/healthz`;
  expect((await ask(path)).headers["x-ratelimit-remaining"]).toBe("8");
  expect(await errorsAt("access")).toBe(0);
  expect((await controlPlane.status()).errors).toBeUndefined();

  const undecided = await ask(path, { headers: { "x-defect": "1" } });
  expect(undecided.status).toBe(200);
  expect(undecided.headers["x-ratelimit-remaining"]).toBeUndefined();
  const next = await ask(path);
  expect(next.headers["x-ratelimit-remaining"]).toBe("7");

  expect(await errorsAt("access")).toBe(1);
  const health = await ask(`${gateway.privateUrl}/sluice/healthz`);
  expect(health.status).toBe(200);
  expect(JSON.parse(health.body)).toMatchObject({ status: "Sluice failed lately: access", errors: { access: 1 } });
  expect(gateway.log).toContain("a request passed without a decision, because Sluice failed: ");
  const { status } = controlPlane;
  await until("the control plane hears of it", async () => (await status.call(controlPlane)).errors?.["access"] === 1);
});

it("a worker that could not begin is unhealthy", async () => {
  // The dict of metrics has its methods from the same table; this breaks the first that initWorker needs.
  const broken = `init_worker_by_lua_block {
    local methods = getmetatable(ngx.shared.sluice_counters).__index
    local capacity = methods.capacity
    methods.capacity = function(dict, ...)
      if ngx.get_phase() == "init_worker" then error("a defect") end
      return capacity(dict, ...)
    end
  `;
  gateway = await LoneGateway.start({
    edit: (config) => config.replace("init_worker_by_lua_block {", broken),
  });
  const { status, body } = await ask(`${gateway.privateUrl}/sluice/healthz`);
  expect([status, JSON.parse(body)]).toMatchObject([
    503,
    { status: "sluice.initWorker() failed", errors: { "init-worker": 1 } },
  ]);
  expect(await errorsAt("init-worker")).toBe(1);
  expect(gateway.log).toContain("a worker begins without some of its tasks, because Sluice failed: ");
});
