// A gateway goes on limiting by what it last knew when something around it, or of itself, is gone. All tests share a system, so the
// last of them are those that take it apart.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { connectedTo } from "../fixtures/clients/sockets.ts";
import { nginxProcesses, System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ workers: 2 });
});
afterAll(() => system?.stop());

const fixedWindow = (name: string, quota: number) => ({
  name,
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

const reported = async (name: string) => (await ask(`${system.gateway.url}/${name}`)).headers;
const limitReported = async (name: string) => (await reported(name))["x-ratelimit-limit"];
const lagOf = async () => JSON.parse((await system.api("GET", "/gateways")).body).gateways[0].lag;

it("receives the next change after the worker with the push socket was killed", async () => {
  await system.put(fixedWindow("killed", 3));
  const controlPort = Number(new URL(system.controlUrl).port);
  const before = nginxProcesses(system.gateway).workers;
  const [owner, ...others] = connectedTo(controlPort, before);
  expect(others).toEqual([]);
  process.kill(owner as number, "SIGKILL");
  const put = await system.api("PUT", "/apps/default/policies/killed", fixedWindow("killed", 11));
  expect(put.status).toBe(200);
  await until("the new limit is told", async () => (await limitReported("killed")) === "11");
  // Every worker has the change, not just one.
  for (let i = 0; i < 20; i++) expect(await limitReported("killed")).toBe("11");
});

it("keeps policies and counters over a reload", async () => {
  await system.put(fixedWindow("reloaded", 3));
  expect((await reported("reloaded"))["x-ratelimit-remaining"]).toBe("2");
  const before = nginxProcesses(system.gateway);
  process.kill(before.master, "SIGHUP");
  await until("new workers", () => {
    const { workers } = nginxProcesses(system.gateway);
    return workers.length === 2 && !workers.some((pid) => before.workers.includes(pid));
  });
  expect((await reported("reloaded"))["x-ratelimit-remaining"]).toBe("1");
  // The former owner of the push socket ended with the old workers.
  await system.untilConnected();
  await system.put(fixedWindow("reloaded", 9));
  expect(await limitReported("reloaded")).toBe("9");
});

// test/gateway/push/receive_spec.lua tests a worker that hangs for longer than a gateway waits.
it("shows a hanging worker as lag, and the change as applied when the worker goes on", async () => {
  const controlPort = Number(new URL(system.controlUrl).port);
  const { workers } = nginxProcesses(system.gateway);
  const [owner] = connectedTo(controlPort, workers);
  const other = workers.find((pid) => pid !== owner) as number;
  process.kill(other, "SIGSTOP");
  try {
    const put = await system.api("PUT", "/apps/default/policies/hanging?wait=1s", fixedWindow("hanging", 6));
    expect(JSON.parse(put.body).applied).toEqual({ gateways: 1, acked: 0, refused: 0 });
    expect(await lagOf()).toBe(1);
  } finally {
    process.kill(other, "SIGCONT");
  }
  await until("the gateway has caught up", async () => (await lagOf()) === 0);
});

it("refuses a snapshot that does not validate, serves by the old one, and reports it to the operator", async () => {
  await system.put(fixedWindow("daily", 3));
  // No control plane accepts such a policy, so the test writes it into the database, with its entry in the history.
  const database = new DatabaseSync(join(system.directory, "sluice.db"));
  database.exec("UPDATE policies SET document = replace(document, '366d', '5 minutes') WHERE name = 'daily'");
  const columns = database.prepare("PRAGMA table_info(revisions)").all() as { name: string }[];
  const names = columns.map(({ name }) => name).filter((name) => name !== "number");
  const newest = "SELECT max(number) FROM revisions WHERE policy = 'daily'";
  const values = names.map((name) => (name === "action" ? "'update-policy'" : name)).join(", ");
  database.exec(`
    BEGIN IMMEDIATE;
    INSERT INTO revisions (number, ${names.join(", ")})
      SELECT (SELECT revision + 1 FROM meta), ${values} FROM revisions WHERE number = (${newest});
    UPDATE meta SET revision = revision + 1;
    COMMIT;
  `);
  database.close();
  const put = await system.api("PUT", "/apps/default/policies/other?wait=30s", fixedWindow("other", 1));
  const { refusals, ...counts } = JSON.parse(put.body).applied;
  expect(counts).toEqual({ gateways: 1, acked: 0, refused: 1 });
  expect(refusals[0].errors[0].path).toContain("policies[");

  expect(await limitReported("daily")).toBe("3");
  expect(await limitReported("other")).toBeUndefined();
  const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
  expect(gateways[0]).toMatchObject({
    id: "gateway-1",
    connected: true,
    lag: 2,
    refused: {
      errors: [{ path: expect.stringMatching(/^policies\[\d+\]\.document\.limits\[0\]\.window$/), got: '"5 minutes"' }],
    },
  });

  await system.put(fixedWindow("daily", 5));
  expect(await limitReported("daily")).toBe("5");
  const after = JSON.parse((await system.api("GET", "/gateways")).body);
  expect(after.gateways[0]).toMatchObject({ lag: 0, refused: null });
});

it("still limits with the control plane killed, also after nginx was restarted, but not by a snapshot that was cut short, and logs the loss and the return", async () => {
  const { gateway } = system;
  const log = () => readFileSync(join(gateway.directory, "error.log"), "utf8");
  const again = /\[error\].*push: connected to the control plane at ws:\S+/;
  const returns = () =>
    log()
      .split("\n")
      .filter((line) => again.test(line)).length;
  await system.put(fixedWindow("lost", 3));
  const returnsBefore = returns();
  await system.killControlPlane();
  await until("the loss is logged", () =>
    /\[error\].*push: (connection to \S+ lost|the control plane at \S+ closed|cannot reach)/.test(log()),
  );
  expect(await limitReported("lost")).toBe("3");
  await gateway.program.stop();
  await system.startGatewayAlone(gateway);
  // The shared memory was lost with nginx, and so were the counters; the policy was read from disk.
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await ask(`${gateway.url}/lost`)).status);
  expect(statuses).toEqual([200, 200, 200, 429]);

  await gateway.program.stop();
  const file = join(gateway.directory, "workers", "policies.log");
  const text = readFileSync(file, "utf8");
  // The log begins with everything, in one block.
  writeFileSync(file, text.slice(0, text.indexOf("\n=") / 2));
  await system.startGatewayAlone(gateway);
  const { status, headers } = await ask(`${gateway.url}/lost`);
  expect([status, headers["x-ratelimit-limit"]]).toEqual([200, undefined]);
  expect(log()).toContain("is damaged");
  expect(returns()).toBe(returnsBefore);

  await system.startControlPlane();
  await until("the snapshot is pushed again", async () => (await limitReported("lost")) === "3");
  await system.put(fixedWindow("lost", 7));
  expect(await limitReported("lost")).toBe("7");
  expect(returns()).toBe(returnsBefore + 1);
});

it("keeps two gateways with one name from disconnecting each other in turn", async () => {
  const twin = await system.startTwin(system.gateway);
  await until("one of them says what is wrong", () =>
    [system.gateway, twin].some(({ directory }) =>
      readFileSync(join(directory, "error.log"), "utf8").includes("another gateway has the same id gateway-1"),
    ),
  );
  // Without a long pause, they would connect six times in this time.
  const connections = new Set<string>();
  const beganMs = performance.now();
  for (let i = 0; i < 15; i++) {
    const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
    connections.add(gateways[0].connectedAt);
    await sleep(100);
  }
  expect(connections.size).toBeLessThanOrEqual(2 + Math.floor((performance.now() - beganMs) / 20_000));
});

// The other one has taken over its name, so this one's worker is in a pause of 20 s.
it("leaves no process behind, and no port taken, after SIGINT, and ends at once while it does not try to connect", async () => {
  const { master, workers } = nginxProcesses(system.gateway);
  const startedAtMs = performance.now();
  await system.gateway.program.stop("SIGINT");
  expect(performance.now() - startedAtMs).toBeLessThan(15_000);
  for (const pid of [master, ...workers]) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  await expect(ask(system.gateway.url)).rejects.toThrow("ECONNREFUSED");
});
