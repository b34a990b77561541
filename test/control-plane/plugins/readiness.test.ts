// Whether /readyz tells the truth.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Agent } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { sql } from "kysely";
import { describe, expect, it, vi } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { adminToken, startControlPlane, temporaryDir } from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

describe("/readyz", () => {
  it("is ready, and says that nothing is missing", async () => {
    const { call } = await startControlPlane();
    expect((await call("GET", "readyz")).body).toEqual({
      status: "ok",
      degraded: [],
      storage: "ok",
      redis: "not-configured",
      gateways: 0,
      alarms: [],
    });
  });

  it("stays ready without Redis, and says so", async () => {
    const { call } = await startControlPlane({ SLUICE_REDIS_URL: "redis://127.0.0.1:1" });
    await untilPasses(async () => {
      const { status, body } = await call("GET", "readyz");
      expect([status, body.degraded]).toEqual([200, ["Redis does not do what counters need."]]);
    });
  });

  it("is not ready if the database was replaced by one with an older schema", async () => {
    const { app, call } = await startControlPlane();
    await sql`delete from kysely_migration where name >= '0007'`.execute(app.database);
    const { status, body } = await call("GET", "readyz");
    expect([status, body.code]).toEqual([503, "not-ready"]);
    expect(body.detail).toMatch(/^The database has the older schema 0006-sources, and not \S+: start/);
  });

  it("is not ready when stored changes cannot be read for ten seconds", async () => {
    const { app, call } = await startControlPlane();
    await sql`alter table bans rename to bans_elsewhere`.execute(app.database);
    await sql`update meta set revision = revision + 1`.execute(app.database);
    void app.publisher.publish();
    await untilPasses(() => expect(app.publisher.behindSinceMs).toBeDefined());
    expect((await call("GET", "readyz")).status).toBe(200);
    const { now } = performance;
    vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 11_000);
    try {
      expect((await call("GET", "readyz")).body.detail).toBe("Stored changes cannot be read for the gateways.");
    } finally {
      vi.restoreAllMocks();
    }
    await sql`alter table bans_elsewhere rename to bans`.execute(app.database);
    await untilPasses(() => expect(app.publisher.behindSinceMs).toBeUndefined());
  });

  it("asks the database twice a second at most, however often it is asked", async () => {
    const { app, call } = await startControlPlane();
    const selects = async () => {
      const { body } = await call("GET", "metrics");
      const line = /^sluice_control_database_statement_duration_seconds_count\{kind="select"\} (\d+)$/m;
      return Number(line.exec(body)?.[1]);
    };
    // Hours of traffic are summed up a second after the start, and then once an hour.
    await untilPasses(() => expect(app.activity.summedUntilMs).toBeGreaterThan(0));
    await call("GET", "readyz");
    const before = await selects();
    const begunAtMs = performance.now();
    await Promise.all(Array.from({ length: 300 }, () => call("GET", "readyz")));
    const mostProbes = 1 + Math.ceil((performance.now() - begunAtMs) / 500);
    expect((await selects()) - before).toBeLessThanOrEqual(mostProbes);
    expect(app.fleet.connectedCount).toBe(0);
  });
});

const main = fileURLToPath(new URL("../../../control-plane/src/main.ts", import.meta.url));

async function startProcess(env: Record<string, string>): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [main], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      SLUICE_CONTROL_PORT: "0",
      SLUICE_ADMIN_TOKEN: adminToken,
      SLUICE_DATA_DIR: await temporaryDir(),
      ...env,
    },
    stdio: ["ignore", "pipe", "ignore"],
  });
  onFinished(() => void child.kill("SIGKILL"));
  let printed = "";
  child.stdout.on("data", (data) => (printed += data));
  const isUp = /http:\/\/127\.0\.0\.1:\d+$/m;
  await untilPasses(() => expect(printed).toMatch(isUp));
  return { child, url: isUp.exec(printed)?.[0] ?? "" };
}

describe("a control plane that stops", () => {
  it("is not ready first, still answers, and then ends", async () => {
    const { child, url } = await startProcess({ SLUICE_STOP_DELAY_SECONDS: "2" });
    const agent = new Agent({ keepAlive: true });
    onFinished(() => agent.destroy());
    expect((await ask(`${url}/readyz`, { agent })).status).toBe(200);
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await untilPasses(async () => {
      const { status, body } = await ask(`${url}/readyz`, { agent });
      expect([status, JSON.parse(body).detail]).toEqual([503, "The control plane is stopping."]);
    });
    expect((await ask(`${url}/api/v1/apps`, { headers: { authorization: `Bearer ${adminToken}` } })).status).toBe(200);
    expect(await exited).toEqual([0, null]);
  });

  it("does not wait for connections on which nothing comes, such as browsers open in advance", async () => {
    const { child, url } = await startProcess({});
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    onFinished(() => socket.destroy());
    await once(socket, "connect");
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
  });

  it("finishes the request that it has, and takes no other", async () => {
    const { child, url } = await startProcess({});
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const body = JSON.stringify({ name: "ci", app: "default", role: "viewer" });
    const head = [
      "POST /api/v1/tokens HTTP/1.1",
      "host: a",
      `authorization: Bearer ${adminToken}`,
      "content-type: application/json",
      `content-length: ${body.length}`,
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n${body.slice(0, 10)}`);
    // The request has begun when the control plane has answered another one after it.
    await ask(`${url}/healthz`);
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await untilPasses(() => expect(ask(`${url}/healthz`)).rejects.toThrow("ECONNREFUSED"));
    socket.write(body.slice(10));
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1.1 201 /);
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    expect(await exited).toEqual([0, null]);
  });
});
