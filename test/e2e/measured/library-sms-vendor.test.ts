// The story of the library's template sms-vendor: two gateways, and callers who offer twice what the vendor takes.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { check, post } from "../../fixtures/clients/check-api-client.ts";
import { Load } from "../../fixtures/clients/load.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import { factsOf, Vendor } from "../../fixtures/documents/sms-vendor.ts";
import { readRedisClock } from "../../fixtures/servers/redis-clock.ts";
import { System } from "../../fixtures/servers/system.ts";

let vendor: Vendor;
let system: System;
beforeAll(async () => {
  vendor = await Vendor.start();
  system = await System.start({ gateways: 2, redis: true, env: { SLUICE_UPSTREAM: vendor.url } });
});
afterAll(async () => {
  await system?.stop();
  vendor?.stop();
});

const offeredPerSecond = 800;

it("the vendor gets no more than 400 messages in any second of the 800 that are offered, and loses none", async () => {
  await system.put({ name: "sms", template: "sms-vendor", match: { paths: ["/sms"] } });
  const clock = await readRedisClock(system.redis?.url as string);
  const load = new Load(
    system.gateways.map(({ url }) => `${url}/sms`),
    offeredPerSecond,
    ["none"],
  );
  load.start();
  await sleep(4_000);
  await load.stop();
  const limit = { algorithm: "leaky-bucket", quota: 400, window: "1s", burst: 800 };
  const facts = factsOf({ limit }, load.served, vendor.seenAtMs("/sms"), clock, 80);
  expect(facts.filter(({ ok }) => !ok)).toEqual([]);
  // Some waited for longer than a second, and some were refused.
  expect(load.served.some(({ status }) => status === 429)).toBe(true);
  expect(load.served.some((one) => one.status === 200 && one.answeredAtMs - one.sentAtMs > 1_000)).toBe(true);
});

it("callers of another app take units of the same limit, and apps that are not named hear of no such policy", async () => {
  const tokens = await Promise.all(
    ["billing", "crm"].map(async (app) => {
      await system.api("PUT", `/apps/${app}`, { realm: {} });
      const { body } = await system.api("POST", "/tokens?wait=30s", { name: `${app}-sends`, app, role: "caller" });
      return { app, token: JSON.parse(body).token as string };
    }),
  );
  const [billing, crm] = tokens as [(typeof tokens)[0], (typeof tokens)[0]];
  const match = { paths: ["/shared-sms"] };
  await system.put({ name: "shared-sms", template: "sms-vendor", match, sharedWith: ["billing"] });
  const [first, second] = system.gateways as [System["gateway"], System["gateway"]];
  const asked = [{ policy: "default/shared-sms", cost: 600 }];
  expect((await check(first.privateUrl, billing, asked)).allowed).toBe(true);
  const beganMs = performance.now();
  expect((await ask(`${second.url}/shared-sms`)).status).toBe(200);
  // 600 messages leave in 1.5 s. A little of it had passed when the request came.
  expect(performance.now() - beganMs).toBeGreaterThan(1_000);
  const refused = await post(first.privateUrl, crm, JSON.stringify({ checks: asked }));
  expect(refused.status).toBe(404);
});
