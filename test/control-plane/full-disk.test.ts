// Runs the control plane on a disk without a free byte.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { WebSocket } from "ws";
import { freePort } from "../fixtures/free-ports.ts";
import { Program } from "../fixtures/program.ts";
import { SmallDisk } from "../fixtures/small-disk.ts";
import { adminToken, gatewayToken, onePerSecond } from "./control-plane-under-test.ts";

const main = fileURLToPath(new URL("../../control-plane/src/main.ts", import.meta.url));
const full = "the disk of the database is full";

let disk: SmallDisk;
let port: number;
let running: Program | undefined;

beforeEach(async () => {
  disk = await SmallDisk.make(2_048);
  port = await freePort();
});
afterEach(async () => {
  await running?.stop("SIGKILL");
  running = undefined;
  await disk.remove();
});

async function start(env: Record<string, string> = {}): Promise<Program> {
  const [command = "", ...args] = [...disk.prefix, process.execPath, main];
  running = await Program.start({
    command,
    args,
    env: {
      SLUICE_CONTROL_PORT: `${port}`,
      SLUICE_DATA_DIR: disk.path,
      SLUICE_ADMIN_TOKEN: adminToken,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      ...env,
    },
    readyWhen: /^sluice: control plane on/m,
  });
  return running;
}

async function call(method: string, path: string, body?: unknown, token = adminToken) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const put = (name: string) => call("PUT", `/api/v1/apps/default/policies/${name}`, onePerSecond);

/** Connects as a gateway. @returns the first message that holds a snapshot */
function pushed(): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/api/v1/push`, {
      headers: { authorization: `Bearer ${gatewayToken}` },
    });
    socket.on("open", () =>
      socket.send(JSON.stringify({ type: "hello", gateway: "g1", version: "1", workers: 1, epoch: "", revision: 0 })),
    );
    socket.on("message", (data) => {
      if (!String(data).includes('"snapshot"')) return;
      resolve(String(data));
      socket.close();
    });
    socket.on("error", reject);
  });
}

describe("a full disk", { timeout: 60_000 }, () => {
  it.each([
    ["it was killed", "SIGKILL"],
    ["it was stopped, and SQLite's files beside the database are gone", "SIGTERM"],
  ] as const)(
    "lets the control plane start again after %s: it serves, pushes, refuses changes until there is room, and says so once",
    async (_, signal) => {
      await start();
      expect((await put("books")).status).toBe(201);
      await running?.stop(signal);
      disk.fill();

      await start();
      const policies = await call("GET", "/api/v1/apps/default/policies");
      expect([policies.status, policies.body["policies"]]).toMatchObject([200, [{ name: "books" }]]);
      expect(await pushed()).toContain("books");
      for (const name of ["one", "two", "three"]) {
        expect(await put(name)).toMatchObject({ status: 507, body: { code: "storage-full" } });
      }
      expect(await call("GET", "/readyz")).toMatchObject({ status: 200, body: { status: "ok", storage: "full" } });
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      expect(metrics).toMatch(/^sluice_control_database_writable 0$/m);
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      expect(running?.output.split(full)).toHaveLength(2);

      disk.makeRoom();
      await vi.waitFor(async () => expect((await call("GET", "/readyz")).body["storage"]).toBe("ok"), 10_000);
      expect((await put("again")).status).toBe(201);
      expect(running?.output).toContain("changes are stored again");
    },
  );

  it("refuses changes while it works, and loses none that it has answered", async () => {
    await start();
    let stored = 0;
    disk.fill();
    for (let i = 0; i < 40; i++) {
      const { status, body } = await put(`p${i}`);
      if (status === 201) stored += 1;
      else expect([status, body["code"]]).toEqual([507, "storage-full"]);
    }
    expect(stored).toBeLessThan(40);
    await running?.stop("SIGKILL");
    await start();
    const { body } = await call("GET", "/api/v1/apps/default/policies?limit=100");
    expect(body["policies"]).toHaveLength(stored);
  });

  it("admits the tokens known before, and takes tokens of the environment once there is room", async () => {
    const changed = "another-admin-token-0123456789";
    await start();
    await running?.stop("SIGKILL");
    disk.fill();
    await start({ SLUICE_ADMIN_TOKEN: changed });
    expect((await call("GET", "/api/v1/apps")).status).toBe(200);
    expect((await call("GET", "/api/v1/apps", undefined, changed)).status).toBe(401);
    expect(running?.output).toContain("the tokens of the environment cannot be stored yet");
    disk.makeRoom();
    await vi.waitFor(
      async () => expect((await call("GET", "/api/v1/apps", undefined, changed)).status).toBe(200),
      10_000,
    );
    expect((await call("GET", "/api/v1/apps")).status).toBe(401);
  });

  it("at the very first start gives a message of one line, and leaves nothing that breaks the next start", async () => {
    disk.fill();
    const message = await start({ SLUICE_GATEWAY_TOKEN: "" }).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(message).toMatch(/^sluice: .*the disk is full|whose disk is full/m);
    expect(message).not.toMatch(/^ {4}at /m);
    disk.makeRoom();
    await start({ SLUICE_GATEWAY_TOKEN: "" });
    expect((await put("books")).status).toBe(201);
    expect(readFileSync(disk.file("gateway-token"), "utf8")).toMatch(/^sluice_gw_\S{40,}\n$/);
  });
});
