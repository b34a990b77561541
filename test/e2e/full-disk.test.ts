// Everything was killed, and `npm start` runs again on a disk without a free byte: all of Sluice is on that disk.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { Program } from "../fixtures/servers/program.ts";
import { SmallDisk } from "../fixtures/servers/small-disk.ts";
import { adminToken, childrenOf } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const project = resolve(import.meta.dirname, "../..");
let disk: SmallDisk;
let program: Program | undefined;
let ports: readonly [number, number, number, number];

beforeEach(async () => {
  disk = await SmallDisk.make(4_096);
  ports = (await freePorts(4)) as [number, number, number, number];
});
afterEach(async () => {
  await program?.stop();
  await disk.remove();
});

const pageBytes = 4096;

async function start(): Promise<Program> {
  const [command = "", ...args] = [...disk.prefix, process.execPath, join(project, "launch/start.ts")];
  const [gateway, gatewayPrivate, control, upstream] = ports;
  program = await Program.start({
    command,
    args,
    env: {
      SLUICE_DATA_DIR: disk.path,
      SLUICE_GATEWAY_PORT: `${gateway}`,
      SLUICE_GATEWAY_PRIVATE_PORT: `${gatewayPrivate}`,
      SLUICE_CONTROL_PORT: `${control}`,
      SLUICE_UPSTREAM_PORT: `${upstream}`,
      SLUICE_ADMIN_TOKEN: adminToken,
      SLUICE_WORKERS: "1",
    },
    readyWhen: /^sluice: ready$/m,
  });
  return program;
}

/** nginx cannot start without a page for its pid file. The database or a log may take what is left first: then more is left. */
async function startOnFullDisk(): Promise<Program> {
  for (let attempt = 1; ; attempt++) {
    disk.fill(attempt * pageBytes);
    try {
      const started = await start();
      disk.fill();
      return started;
    } catch (error) {
      if (attempt === 10 || !/nginx\.pid" failed \(28/.test(String(error))) throw error;
    }
  }
}

function killWithAllItStarted(pid: number): void {
  const children = childrenOf(pid);
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    // It may have ended by itself when what had started it was killed.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
  for (const child of children) killWithAllItStarted(child);
}

const put = (quota: number) =>
  ask(`http://127.0.0.1:${ports[2]}/api/v1/apps/default/policies/hello?wait=30s`, {
    method: "PUT",
    headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
    body: JSON.stringify({
      match: { paths: ["/hello"] },
      limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
    }),
  });

const limitReported = async () => (await ask(`http://127.0.0.1:${ports[0]}/hello`)).headers["x-ratelimit-limit"];

it("starts, limits, says what fails, and takes changes once there is room, without another start", async () => {
  const first = await start();
  expect((await put(3)).status).toBe(201);
  expect(await limitReported()).toBe("3");
  const stored = disk.file(`gateway-${ports[0]}/workers/policies.log`);
  await until(
    "the gateway has stored it",
    () => existsSync(stored) && readFileSync(stored, "utf8").includes('"quota":3'),
  );
  killWithAllItStarted(first.pid);
  await until("the ports are free", () =>
    ask(`http://127.0.0.1:${ports[2]}/healthz`).then(
      () => false,
      () => true,
    ),
  );

  const second = await startOnFullDisk();
  expect(await limitReported()).toBe("3");
  const refused = await put(5);
  expect([refused.status, JSON.parse(refused.body).code]).toEqual([507, "storage-full"]);
  const ready = await ask(`http://127.0.0.1:${ports[2]}/readyz`);
  expect(JSON.parse(ready.body)).toMatchObject({ status: "ok", storage: "full", gateways: 1 });
  expect(second.output).toContain("the disk of the database is full");

  disk.makeRoom();
  await until("there is room", async () => (await put(5)).status === 200);
  expect(await limitReported()).toBe("5");
});
