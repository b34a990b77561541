// A backup of the database is restored: the gateway has revisions that the database has lost, shows their proof, and then
// takes what was restored.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ gateways: 1 });
});
afterAll(() => system?.stop());

const policy = (quota: number) => ({
  name: "books",
  match: { paths: ["/books"] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});
const gatewayUrl = () => system.gateways[0]?.url ?? "";
const limitReported = async () => (await ask(`${gatewayUrl()}/books`)).headers["x-ratelimit-limit"];
const history = async () => JSON.parse((await system.api("GET", "/revisions")).body).revisions;

it("a restored database takes effect at the gateway by itself, once, and so do later changes", async () => {
  const file = join(system.directory, "sluice.db");
  await system.put(policy(11));
  await system.stopControlPlane();
  copyFileSync(file, `${file}.backup`);
  await system.startControlPlane();
  await system.put(policy(12));
  await system.put(policy(13));
  await until("the newest is in force", async () => (await limitReported()) === "13");
  await system.stopControlPlane();
  copyFileSync(`${file}.backup`, file);
  await system.startControlPlane();

  await until("what was restored is in force", async () => (await limitReported()) === "11");
  expect((await history()).map(({ action }: { action: string }) => action)).toEqual(["new-epoch", "create-policy"]);
  await system.put(policy(14));
  await until("what was put is in force", async () => (await limitReported()) === "14");
  expect(JSON.parse((await ask(`${system.controlUrl}/readyz`)).body).alarms).toEqual([]);
});
