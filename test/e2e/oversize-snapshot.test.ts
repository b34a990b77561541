// A snapshot that does not fit the shared memory that the operator configured is refused, and nothing of the old one is lost.

import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { childrenOf, gatewayToken, System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

let system: System;
let gateway: LoneGateway;
beforeAll(async () => {
  system = await System.start({ gateways: 0 });
  gateway = await LoneGateway.start({
    policies: [],
    env: { SLUICE_CONTROL_URL: system.controlUrl, SLUICE_GATEWAY_TOKEN: gatewayToken, SLUICE_GATEWAY_ID: "small" },
    edit: (config) => {
      expect(config).toMatch(/ sluice_state \d+m;/);
      return config.replace(/ sluice_state \d+m;/, " sluice_state 1m;");
    },
  });
  await until("the gateway is connected", async () =>
    (await ask(`${gateway.url}/sluice/healthz`)).body.includes('"connected":true'),
  );
});
afterAll(async () => {
  await gateway?.stop();
  await system?.stop();
});

it("is refused with the reason, while the old one serves, also in new workers", async () => {
  await system.put({
    name: "small",
    match: { paths: ["/small"] },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
  });
  const large = (name: string) => ({
    name,
    match: { paths: Array.from({ length: 60 }, (_, i) => `/${name}${i}/${"x".repeat(1000)}`) },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }],
  });
  let refused = 0;
  let last = 0;
  for (; last < 20 && refused === 0; last++) {
    const put = await system.api("PUT", `/apps/default/policies/large${last}?wait=30s`, large(`large${last}`));
    const { applied } = JSON.parse(put.body);
    refused = applied.refused;
    if (refused > 0) expect(applied.refusals[0].errors[0].expected).toContain("make it larger in nginx.conf");
  }
  expect(refused).toBe(1);
  const alarms = async () => JSON.parse((await ask(`${system.controlUrl}/readyz`)).body).alarms;
  // /readyz remembers what it has counted for a tenth of a second.
  const refusal = JSON.stringify([{ alarm: "snapshot-refused", gateways: 1 }]);
  await until("the refusal is an alarm", async () => JSON.stringify(await alarms()) === refusal);
  const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
  expect(gateways[0].refused.errors[0].expected).toContain("make it larger in nginx.conf");

  const statuses = async () => [(await ask(`${gateway.url}/small`)).status, (await ask(`${gateway.url}/small`)).status];
  expect(await statuses()).toEqual([404, 429]);
  for (const pid of childrenOf(gateway.pid)) process.kill(pid, "SIGKILL");
  await until("a new worker answers", () =>
    ask(`${gateway.url}/sluice/healthz`).then(
      () => true,
      () => false,
    ),
  );
  expect(await statuses()).toEqual([429, 429]);
  await system.api("DELETE", `/apps/default/policies/large${last - 1}?wait=30s`);
  await until("the alarm is over", async () => (await alarms()).length === 0);
});
