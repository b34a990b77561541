// A gateway goes on limiting by what it last knew when something around it, or of itself, is gone.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ask } from "../fixtures/requests.ts";
import { connectedTo } from "../fixtures/sockets.ts";
import { nginxProcesses, System, until } from "../fixtures/system.ts";

let system: System;
beforeEach(async () => {
  system = await System.start({ workers: 2 });
  await system.put(fixedWindow(3));
});
afterEach(() => system?.stop());

const fixedWindow = (quota: number) => ({
  name: "daily",
  match: { paths: ["/daily"] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

const limitReported = async () => (await ask(`${system.gateway.url}/daily`)).headers["x-ratelimit-limit"];

it("still limits with the control plane killed, also after nginx was restarted", async () => {
  await system.killControlPlane();
  expect(await limitReported()).toBe("3");
  await system.gateway.program.stop();
  await system.startGatewayAgain(system.gateway);
  // The shared memory was lost with nginx, and so were the counters; the policy was read from disk.
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await ask(`${system.gateway.url}/daily`)).status);
  expect(statuses).toEqual([200, 200, 200, 429]);
  await system.startControlPlane();
  await system.untilConnected(10_000);
  await system.put(fixedWindow(7));
  expect(await limitReported()).toBe("7");
});

it("keeps policies and counters over a reload", async () => {
  expect((await ask(`${system.gateway.url}/daily`)).headers["x-ratelimit-remaining"]).toBe("2");
  const before = nginxProcesses(system.gateway);
  process.kill(before.master, "SIGHUP");
  await until("new workers", 5000, () => {
    const { workers } = nginxProcesses(system.gateway);
    return workers.length === 2 && !workers.some((pid) => before.workers.includes(pid));
  });
  expect((await ask(`${system.gateway.url}/daily`)).headers["x-ratelimit-remaining"]).toBe("1");
  // The former owner of the push socket ended with the old workers.
  await system.untilConnected(5000);
  await system.put(fixedWindow(9));
  expect(await limitReported()).toBe("9");
});

it("receives the next change within 2 s after the worker with the push socket was killed", async () => {
  const controlPort = Number(new URL(system.controlUrl).port);
  const [owner, ...others] = connectedTo(controlPort, nginxProcesses(system.gateway).workers);
  expect(others).toEqual([]);
  process.kill(owner as number, "SIGKILL");
  const killedAtMs = performance.now();
  const put = await system.api("PUT", "/apps/default/policies/daily", fixedWindow(11));
  expect(put.status).toBe(200);
  await until("the new limit is told", 2000, async () => (await limitReported()) === "11");
  expect(performance.now() - killedAtMs).toBeLessThan(2000);
  // Every worker has the change, not just one.
  for (let i = 0; i < 20; i++) expect(await limitReported()).toBe("11");
});

it("refuses a snapshot that does not validate, serves by the old one, and reports it to the operator", async () => {
  // No control plane accepts such a policy, so the test writes it into the database.
  const database = new DatabaseSync(join(system.directory, "sluice.db"));
  database.exec("UPDATE policies SET document = replace(document, '366d', '5 minutes') WHERE name = 'daily'");
  database.close();
  const other = { name: "other", match: { paths: ["/other"] }, limits: fixedWindow(1).limits };
  const put = await system.api("PUT", "/apps/default/policies/other?wait=5s", other);
  const { refusals, ...counts } = JSON.parse(put.body).applied;
  expect(counts).toEqual({ gateways: 1, acked: 0, refused: 1 });
  expect(refusals[0].errors[0].path).toContain("policies[");

  expect(await limitReported()).toBe("3");
  expect((await ask(`${system.gateway.url}/other`)).headers["x-ratelimit-limit"]).toBeUndefined();
  const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
  expect(gateways[0]).toMatchObject({
    id: "gateway-1",
    connected: true,
    lag: 1,
    refused: { errors: [{ path: "policies[0].document.limits[0].window", got: '"5 minutes"' }] },
  });

  await system.put(fixedWindow(5));
  expect(await limitReported()).toBe("5");
  const after = JSON.parse((await system.api("GET", "/gateways")).body);
  expect(after.gateways[0]).toMatchObject({ lag: 0, refused: null });
});

it("shows a hanging worker as lag, and the change as applied when the worker goes on", async () => {
  const controlPort = Number(new URL(system.controlUrl).port);
  const { workers } = nginxProcesses(system.gateway);
  const [owner] = connectedTo(controlPort, workers);
  const other = workers.find((pid) => pid !== owner) as number;
  process.kill(other, "SIGSTOP");
  try {
    const put = await system.api("PUT", "/apps/default/policies/daily?wait=11s", fixedWindow(6));
    expect(JSON.parse(put.body).applied).toEqual({ gateways: 1, acked: 0, refused: 0 });
  } finally {
    process.kill(other, "SIGCONT");
  }
  await until("the gateway has caught up", 5000, async () => {
    const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
    return gateways[0].lag === 0;
  });
});

it("keeps two gateways with one name from disconnecting each other in turn", async () => {
  const twin = await system.startTwin(system.gateway);
  await until("one of them says what is wrong", 5000, () =>
    [system.gateway, twin].some(({ directory }) =>
      readFileSync(join(directory, "error.log"), "utf8").includes("another gateway has the same id gateway-1"),
    ),
  );
  const connections = new Set<string>();
  for (let i = 0; i < 30; i++) {
    const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
    connections.add(gateways[0].connectedAt);
    await sleep(100);
  }
  expect(connections.size).toBeLessThanOrEqual(2);
});

it("starts without policies, not with damaged ones, if the stored snapshot was cut short", async () => {
  await system.gateway.program.stop();
  await system.killControlPlane();
  const file = join(system.gateway.directory, "workers", "snapshot.json");
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.slice(0, text.length / 2));
  await system.startGatewayAgain(system.gateway);
  expect(await ask(`${system.gateway.url}/daily`)).toMatchObject({ status: 200 });
  expect(readFileSync(join(system.gateway.directory, "error.log"), "utf8")).toContain("is damaged");
  await system.startControlPlane();
  await until("the snapshot is pushed again", 10_000, async () => (await limitReported()) === "3");
});

it("leaves no process behind, and no port taken, after SIGINT", async () => {
  const { master, workers } = nginxProcesses(system.gateway);
  await system.gateway.program.stop("SIGINT");
  for (const pid of [master, ...workers]) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  await expect(ask(system.gateway.url)).rejects.toThrow("ECONNREFUSED");
});
