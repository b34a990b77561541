// Secrets must not be in files, process arguments, output of the programs, or answers of the API.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { adminToken, gatewayToken, nginxProcesses, System } from "../fixtures/servers/system.ts";

const redisPassword = "a-redis-password-of-the-tests";
const debugSecret = "a-debug-secret-of-the-tests";
const secrets = [adminToken, gatewayToken, redisPassword, debugSecret];

let system: System;
beforeAll(async () => {
  // Nobody listens there, so failures of Redis are logged.
  const redisUrl = `redis://:${redisPassword}@127.0.0.1:1`;
  system = await System.start({ env: { SLUICE_REDIS_URL: redisUrl, SLUICE_DEBUG_SECRET: debugSecret } });
});
afterAll(() => system?.stop());

it("secrets are not in logs, errors, /gateways, the snapshot file, any other file or process arguments", async () => {
  await system.put({
    name: "fleet",
    scope: "cluster",
    limits: [{ algorithm: "fixed-window", quota: 5, window: "1d" }],
  });
  const { headers } = await ask(`${system.gateway.url}/`, { headers: { "x-sluice-debug": debugSecret } });
  expect(headers["x-sluice-debug"]).toContain("default/fleet");
  const caller = JSON.parse((await system.api("POST", "/tokens", { name: "c", app: "default", role: "caller" })).body);
  const searched = [...secrets, caller.token];

  const files = readdirSync(system.directory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(["policies.log", "error.log", "nginx.conf"]));
  const places: Record<string, string> = {};
  for (const { parentPath, name } of files) places[name] = readFileSync(join(parentPath, name), "latin1");
  expect(places["error.log"]).toContain("Redis did not decide");
  const { master, workers } = nginxProcesses(system.gateway);
  for (const pid of [master, ...workers, system.controlPlanePid, system.gateway.program.pid]) {
    places[`arguments of ${pid}`] = readFileSync(`/proc/${pid}/cmdline`, "latin1");
  }
  places["printed"] = system.gateway.program.output;
  for (const path of ["/gateways", "/tokens", "/revisions", "/apps/default/policies/none", "/no/such"]) {
    places[path] = (await system.api("GET", path)).body;
  }
  for (const [place, content] of Object.entries(places)) {
    for (const secret of searched) expect([place, content.includes(secret)]).toEqual([place, false]);
  }
});
