// Checks the modes of files that a gateway writes when nginx runs in the background: nginx then clears its umask, and a file
// that is created without a mode of its own may be written by everybody.

import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { errorLogOf, writeGatewayFiles } from "../../launch/nginx-config.ts";
import { readSettings } from "../../launch/settings.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { nginxUnderTest } from "../fixtures/servers/nginx-under-test.ts";
import { until } from "../fixtures/until.ts";

/** Starts an nginx in the background that is gone after the test. @param prepare receives the directory of the workers */
async function startDaemon(
  controlPort: number,
  prepare: (workersDirectory: string, directory: string) => void = () => {},
): Promise<string> {
  const [port, privatePort] = (await freePorts(2)) as [number, number];
  const dataDir = mkdtempSync(join(tmpdir(), "sluice-daemon-"));
  const env = {
    ...process.env,
    SLUICE_DATA_DIR: dataDir,
    SLUICE_GATEWAY_PORT: `${port}`,
    SLUICE_GATEWAY_PRIVATE_PORT: `${privatePort}`,
    SLUICE_WORKERS: "2",
    SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}`,
  };
  const nginx = nginxUnderTest();
  const { config, snapshotDir } = writeGatewayFiles(readSettings(env), nginx);
  const directory = join(dataDir, `gateway-${port}`);
  prepare(snapshotDir, directory);
  const command = ["-p", `${directory}/`, "-e", "error.log", "-c", config];
  const started = spawnSync("/bin/sh", ["-c", 'umask 0; exec "$0" "$@"', nginx.path, ...command], {
    env: { ...env, SLUICE_GATEWAY_DIR: snapshotDir },
    encoding: "utf8",
  });
  expect(started.status, started.stderr).toBe(0);
  onTestFinished(async () => {
    const master = Number(readFileSync(join(directory, "nginx.pid"), "utf8"));
    process.kill(master, "SIGTERM");
    await until("nginx has ended", () => !isRunning(master));
    rmSync(dataDir, { recursive: true, force: true });
  });
  await until("the gateway answers", () =>
    ask(`http://127.0.0.1:${privatePort}/sluice/healthz`).then(
      () => true,
      () => false,
    ),
  );
  return snapshotDir;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function modesIn(directory: string): Record<string, string> {
  const modes: Record<string, string> = {};
  for (const name of readdirSync(directory)) {
    const mode = statSync(join(directory, name), { throwIfNoEntry: false })?.mode;
    // A temporary file may be gone again.
    if (mode !== undefined) modes[name] = (mode & 0o777).toString(8);
  }
  return modes;
}

it("lets nobody else read or write the snapshot and the number of gateways, at no moment, whatever the umask", async () => {
  const [controlPort = 0] = await freePorts(1);
  const control = new ControlPlaneDouble(controlPort);
  onTestFinished(() => control.stop());
  const directory = await startDaemon(controlPort);
  const policies = Array.from({ length: 3000 }, (_, i) => ({
    app: "default",
    document: { name: `p${i}`, limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }] },
  }));
  const seen = new Set<string>();
  let isPushed = false;
  const pushed = control.push(policies, [], 3).finally(() => {
    isPushed = true;
  });
  const isStored = () => "policies.log" in modesIn(directory) && "live-gateways" in modesIn(directory);
  while (!isPushed || !isStored()) {
    for (const mode of Object.values(modesIn(directory))) seen.add(mode);
    await setImmediate();
  }
  await pushed;
  // A change is written to the end of the same file; one that is gone is made again, with the same mode.
  const log = join(directory, "policies.log");
  const bytes = statSync(log).size;
  await control.push(policies.slice(1), [], 3);
  expect(statSync(log).size).toBeGreaterThan(bytes);
  expect(statSync(log).size).toBeLessThan(bytes + 1_000);
  rmSync(log);
  await control.push(policies, [], 3);
  await until("the log is whole again", () => statSync(log, { throwIfNoEntry: false })?.size === bytes);
  expect(modesIn(directory)).toEqual({ "live-gateways": "600", "policies.log": "600" });
  expect([...seen]).toEqual(["600"]);
  expect(modesIn(join(directory, ".."))).toMatchObject({ "error.log": "600" });
});

it("closes files that an earlier version left open to others as soon as it starts", async () => {
  const [closedPort = 0] = await freePorts(1);
  const directory = await startDaemon(closedPort, (workers) => {
    const { uid, gid } = statSync(workers);
    for (const [name, text] of Object.entries({
      "policies.log": "{}",
      "snapshot.json": "{}",
      "live-gateways": "2\n",
    })) {
      writeFileSync(join(workers, name), text);
      chownSync(join(workers, name), uid, gid);
      chmodSync(join(workers, name), 0o666);
    }
  });
  const closed = { "live-gateways": "600", "policies.log": "600", "snapshot.json": "600" };
  await until("both are closed", () => JSON.stringify(modesIn(directory)) === JSON.stringify(closed));
});

it("closes the error log to everybody else before nginx writes to it, also one that an earlier version left open", async () => {
  const [closedPort = 0] = await freePorts(1);
  const directory = await startDaemon(closedPort);
  const log = join(directory, "../error.log");
  expect((statSync(log).mode & 0o777).toString(8)).toBe("600");
  expect(readFileSync(log, "utf8")).not.toBe("");

  const dataDir = mkdtempSync(join(tmpdir(), "sluice-log-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const settings = readSettings({ SLUICE_DATA_DIR: dataDir });
  writeGatewayFiles(settings, nginxUnderTest());
  chmodSync(errorLogOf(settings), 0o644);
  writeGatewayFiles(settings, nginxUnderTest());
  expect((statSync(errorLogOf(settings)).mode & 0o777).toString(8)).toBe("600");
});
