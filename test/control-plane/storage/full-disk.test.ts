// Runs the control plane on a disk without a free byte.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect } from "vitest";
import { WebSocket } from "ws";
import { adminToken, gatewayToken, onePerSecond } from "../../fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { Program } from "../../fixtures/servers/program.ts";
import { SmallDisk } from "../../fixtures/servers/small-disk.ts";
import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

const main = fileURLToPath(new URL("../../../control-plane/src/main.ts", import.meta.url));
const full = "the disk of the database is full";

/** A control plane on a disk of its own. */
class Site {
  readonly disk: SmallDisk;
  readonly port: number;
  running: Program | undefined;

  private constructor(disk: SmallDisk, port: number) {
    this.disk = disk;
    this.port = port;
  }

  /** Makes one that goes with its test. */
  static async make(): Promise<Site> {
    const site = new Site(await SmallDisk.make(2_048), await freePort());
    onFinished(async () => {
      await site.running?.stop("SIGKILL");
      await site.disk.remove();
    });
    return site;
  }

  async start(env: Record<string, string> = {}): Promise<void> {
    const [command = "", ...args] = [...this.disk.prefix, process.execPath, main];
    this.running = await Program.start({
      command,
      args,
      env: {
        SLUICE_CONTROL_PORT: `${this.port}`,
        SLUICE_DATA_DIR: this.disk.path,
        SLUICE_ADMIN_TOKEN: adminToken,
        SLUICE_GATEWAY_TOKEN: gatewayToken,
        ...env,
      },
      readyWhen: /^sluice: control plane on/m,
    });
  }

  async call(method: string, path: string, body?: unknown, token = adminToken) {
    const response = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  put(name: string) {
    return this.call("PUT", `/api/v1/apps/default/policies/${name}`, onePerSecond);
  }
}

/** Connects as a gateway. @returns the first message that holds a snapshot */
function pushed({ port }: Site): Promise<string> {
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

describe("a full disk", () => {
  beside.each([
    ["it was killed", "SIGKILL"],
    ["it was stopped, and SQLite's files beside the database are gone", "SIGTERM"],
  ] as [string, NodeJS.Signals][])(
    "lets the control plane start again after %s: it serves, pushes, refuses changes until there is room, and says so once",
    async (_, signal) => {
      const site = await Site.make();
      await site.start();
      expect((await site.put("books")).status).toBe(201);
      await site.running?.stop(signal);
      site.disk.fill();

      await site.start();
      const policies = await site.call("GET", "/api/v1/apps/default/policies");
      expect([policies.status, policies.body["policies"]]).toMatchObject([200, [{ name: "books" }]]);
      expect(await pushed(site)).toContain("books");
      for (const name of ["one", "two", "three"]) {
        expect(await site.put(name)).toMatchObject({ status: 507, body: { code: "storage-full" } });
      }
      expect(await site.call("GET", "/readyz")).toMatchObject({ status: 200, body: { status: "ok", storage: "full" } });
      const metrics = await (await fetch(`http://127.0.0.1:${site.port}/metrics`)).text();
      expect(metrics).toMatch(/^sluice_control_database_writable 0$/m);
      // It looks for room several times. A busy machine only looks less often.
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      expect(site.running?.output.split(full)).toHaveLength(2);

      site.disk.makeRoom();
      await untilPasses(async () => expect((await site.call("GET", "/readyz")).body["storage"]).toBe("ok"));
      expect((await site.put("again")).status).toBe(201);
      expect(site.running?.output).toContain("changes are stored again");
    },
  );

  beside("refuses changes while it works, and loses none that it has answered", async () => {
    const site = await Site.make();
    await site.start();
    let stored = 0;
    site.disk.fill();
    for (let i = 0; i < 40; i++) {
      const { status, body } = await site.put(`p${i}`);
      if (status === 201) stored += 1;
      else expect([status, body["code"]]).toEqual([507, "storage-full"]);
    }
    expect(stored).toBeLessThan(40);
    await site.running?.stop("SIGKILL");
    await site.start();
    const { body } = await site.call("GET", "/api/v1/apps/default/policies?limit=100");
    expect(body["policies"]).toHaveLength(stored);
  });

  beside("admits the tokens known before, and takes tokens of the environment once there is room", async () => {
    const site = await Site.make();
    const changed = "another-admin-token-0123456789";
    await site.start();
    await site.running?.stop("SIGKILL");
    site.disk.fill();
    await site.start({ SLUICE_ADMIN_TOKEN: changed });
    expect((await site.call("GET", "/api/v1/apps")).status).toBe(200);
    expect((await site.call("GET", "/api/v1/apps", undefined, changed)).status).toBe(401);
    expect(site.running?.output).toContain("the tokens of the environment cannot be stored yet");
    site.disk.makeRoom();
    await untilPasses(async () =>
      expect((await site.call("GET", "/api/v1/apps", undefined, changed)).status).toBe(200),
    );
    expect((await site.call("GET", "/api/v1/apps")).status).toBe(401);
  });

  beside(
    "at the very first start gives a message of one line, and leaves nothing that breaks the next start",
    async () => {
      const site = await Site.make();
      site.disk.fill();
      const message = await site.start({ SLUICE_GATEWAY_TOKEN: "" }).then(
        () => "it started",
        (error: Error) => error.message,
      );
      expect(message).toMatch(/^sluice: .*the disk is full|whose disk is full/m);
      expect(message).not.toMatch(/^ {4}at /m);
      site.disk.makeRoom();
      await site.start({ SLUICE_GATEWAY_TOKEN: "" });
      expect((await site.put("books")).status).toBe(201);
      expect(readFileSync(site.disk.file("gateway-token"), "utf8")).toMatch(/^sluice_gw_\S{40,}\n$/);
    },
  );
});
