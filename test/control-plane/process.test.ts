import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { residentKb } from "../fixtures/measures/resident-memory.ts";
import { adminToken, temporaryDir } from "../fixtures/servers/control-plane-under-test.ts";
import { until, untilPasses } from "../fixtures/until.ts";

const main = fileURLToPath(new URL("../../control-plane/src/main.ts", import.meta.url));

interface Started {
  child: ChildProcess;
  printed: { out: string; err: string };
  exited: Promise<number | null>;
}

function start(environment: Record<string, string>, stdio: "ipc" | "ignore" = "ignore"): Started {
  const child = spawn(process.execPath, [main], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      SLUICE_CONTROL_PORT: "0",
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe", stdio],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const printed = { out: "", err: "" };
  child.stdout?.on("data", (data) => (printed.out += data));
  child.stderr?.on("data", (data) => (printed.err += data));
  const exited = once(child, "close").then(([code]) => code as number | null);
  return { child, printed, exited };
}

const isUp = /^sluice: control plane on (http:\/\/127\.0\.0\.1:\d+)$/m;

async function urlOf({ printed }: Started): Promise<string> {
  await untilPasses(() => expect(printed.out).toMatch(isUp));
  return isUp.exec(printed.out)?.[1] ?? "";
}

const residentMb = ({ child }: Started) => residentKb(child.pid as number) / 1024;

function isRefused(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(false));
    socket.once("error", () => resolve(true));
  }).finally(() => socket.destroy());
}

describe("the process", () => {
  it("prints an admin token that works at its first start, and none at the second", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = start({ SLUICE_DATA_DIR });
    const url = await urlOf(first);
    const token = /^sluice: admin token \(shown once\): (sluice_adm_\S+)$/m.exec(first.printed.out)?.[1];
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${url}/api/v1/apps`, { headers })).status).toBe(200);
    first.child.kill("SIGTERM");
    expect(await first.exited).toBe(0);

    const second = start({ SLUICE_DATA_DIR });
    const secondUrl = await urlOf(second);
    expect(second.printed.out).not.toContain("token");
    expect((await fetch(`${secondUrl}/api/v1/apps`, { headers })).status).toBe(200);
    expect(first.printed.err + second.printed.err).toBe("");
    second.child.kill("SIGINT");
    expect(await second.exited).toBe(0);
  });

  it("stays small, and answers others, while a stranger asks for the API's description again and again and reads nothing", async () => {
    const started = start({ SLUICE_DATA_DIR: await temporaryDir() });
    const url = await urlOf(started);
    await (await fetch(`${url}/openapi.json`)).text();
    const before = residentMb(started);
    const flood = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n";
    // Those that are cut come again; those that ask for little stay, with an answer that nobody reads.
    for (let round = 0; round < 30; round++) {
      for (const times of [1_500, 1_500, 1_500, 1_500, 1_500, 1_500, 2, 2, 2, 2]) {
        const socket = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => undefined);
        onTestFinished(() => void socket.destroy());
        socket.write(flood.repeat(times));
      }
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
    }
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const [, cut] = /^sluice_control_connections_cut_total\{reason="pipelining"\} (\d+)$/m.exec(metrics) ?? [];
    expect(Number(cut)).toBeGreaterThan(0);
    // It grew by 3,800 MB. Now 64 MiB of answers may wait, and V8 has not collected all of those that were cut: 30 to 260 MB were seen.
    expect(residentMb(started) - before).toBeLessThan(400);
  });

  it("of a second control plane on the same SQLite file ends with the first one's pid and what to use instead", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const first = start({ SLUICE_DATA_DIR });
    await urlOf(first);
    const second = start({ SLUICE_DATA_DIR });
    expect(await second.exited).toBe(1);
    expect(second.printed.err).toMatch(/^sluice: SLUICE_DATA_DIR: expected a database file that no other .*\n$/);
    expect(second.printed.err).toContain(`which the one with pid ${first.child.pid} has`);
    expect(second.printed.err).toMatch(/another SLUICE_DATA_DIR.*MySQL or PostgreSQL/);
    // The lock is freed when its process ends, however it ends.
    first.child.kill("SIGKILL");
    await first.exited;
    await urlOf(start({ SLUICE_DATA_DIR }));
  });

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("ends at once when %s comes twice", async (signal, code) => {
    const started = start({ SLUICE_DATA_DIR: await temporaryDir(), SLUICE_ADMIN_TOKEN: adminToken });
    const { port } = new URL(await urlOf(started));
    // A request that never ends would delay the stop.
    const socket = connect(Number(port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined);
    const headers = [
      "host: a",
      `authorization: Bearer ${adminToken}`,
      "content-type: application/json",
      "content-length: 9",
    ];
    let received = "";
    socket.on("data", (data) => (received += data.toString()));
    const whole = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    socket.write(`${whole}POST /api/v1/tokens HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n{`);
    // The control plane has read the second request with the first one.
    await until("the first request is answered", () => received.includes("200 OK"));
    started.child.kill(signal);
    await until("nobody listens", () => isRefused(Number(port)));
    started.child.kill(signal);
    expect(await started.exited).toBe(code);
  });

  it("stops when its parent process is gone", async () => {
    const started = start({ SLUICE_DATA_DIR: await temporaryDir() }, "ipc");
    await urlOf(started);
    // This waits for "exit": a parent that disconnects never gets "close".
    const exit = once(started.child, "exit");
    started.child.disconnect();
    expect((await exit)[0]).toBe(0);
  });

  it("names port and variable when the port is taken, having shown the token", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void other.close());
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    const { printed, exited } = start({ SLUICE_DATA_DIR: await temporaryDir(), SLUICE_CONTROL_PORT: String(port) });
    expect(await exited).toBe(1);
    expect(printed.err).toBe(
      `sluice: SLUICE_CONTROL_PORT: expected a free port, got ${port}, which another process listens on\n`,
    );
    expect(printed.out).toContain("sluice_adm_");
  });

  it("exits with one line for a value that cannot be used", async () => {
    const { printed, exited } = start({
      SLUICE_DATA_DIR: await temporaryDir(),
      SLUICE_DATABASE_URL: "oracle://root:pw@db/sluice",
    });
    expect(await exited).toBe(1);
    expect(printed.err).toMatch(/^sluice: SLUICE_DATABASE_URL: expected sqlite:.* got oracle:…\n$/);
  });
});
