// An operator stops Sluice by Ctrl-C, `docker stop` or a supervisor while clients are being served.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { freePorts } from "../fixtures/free-ports.ts";
import { Program } from "../fixtures/program.ts";
import { type Answer, ask } from "../fixtures/requests.ts";
import { adminToken, gatewayToken, System, until } from "../fixtures/system.ts";

const project = resolve(import.meta.dirname, "../..");
const parts = 10;
const whole = Array.from({ length: parts }, (_, i) => `part ${i}\n`).join("");

let directory: string;
let slow: Server;
let slowUrl: string;
let program: Program | undefined;
let gatewayUrl: string;
let controlUrl: string;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "sluice-stopping-"));
  // The service sends its answer part by part, over as many seconds as the URL says.
  slow = createServer(async (incoming, response) => {
    const seconds = Number(incoming.url?.slice(1));
    for (let i = 0; i < parts; i++) {
      response.write(`part ${i}\n`);
      await sleep((seconds * 1000) / parts);
    }
    response.end();
  }).listen(0, "127.0.0.1");
  await once(slow, "listening");
  slowUrl = `http://127.0.0.1:${(slow.address() as { port: number }).port}`;
});
afterEach(async () => {
  await program?.stop("SIGKILL");
  program = undefined;
  slow.closeAllConnections();
  slow.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Starts what `npm start` starts: the bootstrap, which then runs launch/start.ts. */
async function start(env: NodeJS.ProcessEnv = {}): Promise<Program> {
  const [gateway, gatewayPrivate, control, upstream] = (await freePorts(4)) as [number, number, number, number];
  gatewayUrl = `http://127.0.0.1:${gateway}`;
  controlUrl = `http://127.0.0.1:${control}`;
  program = await Program.start({
    command: process.execPath,
    args: [join(project, "launch/bootstrap.mjs"), "launch/start.ts"],
    env: {
      SLUICE_DATA_DIR: directory,
      SLUICE_GATEWAY_PORT: `${gateway}`,
      SLUICE_GATEWAY_PRIVATE_PORT: `${gatewayPrivate}`,
      SLUICE_CONTROL_PORT: `${control}`,
      SLUICE_UPSTREAM_PORT: `${upstream}`,
      SLUICE_ADMIN_TOKEN: adminToken,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      SLUICE_UPSTREAM: slowUrl,
      SLUICE_WORKERS: "1",
      ...env,
    },
    readyWhen: /^sluice: ready$/m,
  });
  return program;
}

async function endOf({ child }: Program): Promise<{ code: number | null; tookMs: number }> {
  const startedAtMs = performance.now();
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return { code: child.exitCode, tookMs: performance.now() - startedAtMs };
}

const outcome = (answer: Promise<Answer>) =>
  answer.then(
    ({ status, body }) => `${status} ${body}`,
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  );

describe("SIGTERM", { timeout: 60_000 }, () => {
  it("lets a response that takes three seconds end whole, while it admits no new request and the rest still runs", async () => {
    const { child, ...started } = await start();
    const answer = outcome(ask(`${gatewayUrl}/3`));
    await sleep(500);
    child.kill("SIGTERM");
    await sleep(500);
    expect(await outcome(ask(`${gatewayUrl}/0`))).toBe("ECONNREFUSED");
    expect((await ask(`${controlUrl}/healthz`)).status).toBe(200);
    expect(await answer).toBe(`200 ${whole}`);
    expect((await endOf(program as Program)).code, started.output).toBe(0);
    await expect(ask(`${controlUrl}/healthz`)).rejects.toThrow("ECONNREFUSED");
  });

  it("lets a response end whole too if only the gateway gets it, as from docker stop", async () => {
    const system = await System.start({ env: { SLUICE_UPSTREAM: slowUrl } });
    try {
      const answer = outcome(ask(`${system.gateway.url}/3`));
      await sleep(500);
      system.gateway.program.child.kill("SIGTERM");
      expect(await answer).toBe(`200 ${whole}`);
      expect((await endOf(system.gateway.program)).code).toBe(0);
    } finally {
      await system.stop();
    }
  });

  it("keeps the upstream for a request whose body is still on its way", async () => {
    const { child } = await start({ SLUICE_UPSTREAM: "" });
    const answer = new Promise<string>((done) => {
      const outgoing = request(
        `${gatewayUrl}/late`,
        { method: "POST", headers: { "content-length": "2" } },
        (response) => {
          let body = "";
          response.on("data", (data) => (body += data)).on("end", () => done(`${response.statusCode} ${body}`));
        },
      );
      outgoing.on("error", (error) => done(error.message));
      outgoing.write("a");
      setTimeout(() => child.kill("SIGTERM"), 500);
      setTimeout(() => outgoing.end("b"), 2_000);
    });
    expect(await answer).toMatch(/^200 .*"path":"\/late"/);
    expect((await endOf(program as Program)).code).toBe(0);
  });

  it("waits for no request longer than SLUICE_DRAIN_SECONDS, and says what it cut", async () => {
    const started = await start({ SLUICE_DRAIN_SECONDS: "1" });
    const answer = outcome(ask(`${gatewayUrl}/30`));
    await sleep(500);
    started.child.kill("SIGTERM");
    const { code, tookMs } = await endOf(started);
    expect([code, await answer]).toEqual([0, "ECONNRESET"]);
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(8_000);
    expect(started.output).toContain("gateway was not done with its requests after 1 s; they are cut");
  });
});

describe("Ctrl-C", { timeout: 60_000 }, () => {
  it("ends everything at once if pressed twice", async () => {
    const started = await start();
    const answer = outcome(ask(`${gatewayUrl}/30`));
    await sleep(500);
    started.child.kill("SIGINT");
    await sleep(800);
    expect(started.child.exitCode).toBe(null);
    started.child.kill("SIGINT");
    const { code, tookMs } = await endOf(started);
    expect(code).toBe(130);
    expect(tookMs).toBeLessThan(2_000);
    expect(await answer).toBe("ECONNRESET");
    for (const url of [gatewayUrl, controlUrl]) {
      // A connection that comes while the socket closes is reset.
      await until("nobody listens", 2_000, async () => (await outcome(ask(url))) === "ECONNREFUSED");
    }
  });

  it("counts once if it comes from the terminal and from npm at the same time", async () => {
    const started = await start();
    const answer = outcome(ask(`${gatewayUrl}/2`));
    await sleep(500);
    started.child.kill("SIGINT");
    await sleep(30);
    started.child.kill("SIGINT");
    expect(await answer).toBe(`200 ${whole}`);
    expect((await endOf(started)).code).toBe(0);
  });
});
