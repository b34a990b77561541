// Measures how long starts take: of a gateway with policies on its disk, and of all of Sluice by npm start.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { projectDir } from "../../launch/settings.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { type Bench, realGateway, untilLoaded } from "./surroundings.ts";

export interface Starts {
  /** From the start of `npm start` until it says "ready", with an empty data directory; npm's packages and the build are there. */
  readonly firstMs: number;
  /** The same again. */
  readonly laterMs: readonly number[];
}

/** Starts the gateway with nothing at its control plane's address. @returns how long each start took until it had its policies */
export async function gatewayFromDisk(
  bench: Bench,
  dataDir: string,
  policies: number,
  times: number,
): Promise<number[]> {
  const [closedPort = 0] = await freePorts(1);
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    const gateway = await realGateway(bench, `http://127.0.0.1:${closedPort}`, dataDir);
    await untilLoaded(gateway, policies);
    took.push(performance.now() - gateway.startedAtMs);
    await gateway.stop();
  }
  return took;
}

/** @param times how often it is started again after the first start */
export async function npmStarts({ processes }: Bench, times: number): Promise<Starts> {
  const dataDir = join(processes.directory, "npm-start");
  const firstMs = await npmStart(dataDir);
  const laterMs: number[] = [];
  for (let i = 0; i < times; i++) laterMs.push(await npmStart(dataDir));
  return { firstMs, laterMs };
}

async function npmStart(dataDir: string): Promise<number> {
  const [gateway, privatePort, control, upstream] = await freePorts(4);
  const env = {
    ...process.env,
    SLUICE_DATA_DIR: dataDir,
    SLUICE_GATEWAY_PORT: `${gateway}`,
    SLUICE_GATEWAY_PRIVATE_PORT: `${privatePort}`,
    SLUICE_CONTROL_PORT: `${control}`,
    SLUICE_UPSTREAM_PORT: `${upstream}`,
    SLUICE_GATEWAY_ID: "npm-start",
  };
  const beganAt = performance.now();
  // In a group of its own, so that the signal reaches what npm starts.
  const child = spawn("npm", ["start", "--silent"], {
    cwd: projectDir,
    env,
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const end = () => process.kill(-(child.pid as number), "SIGINT");
  process.once("exit", end);
  const ended = once(child, "exit");
  try {
    const lines = createInterface(child.stdout);
    for await (const line of lines) if (line === "sluice: ready") return performance.now() - beganAt;
    throw new Error("npm start ended before it was ready");
  } finally {
    process.off("exit", end);
    if (child.exitCode === null) {
      end();
      child.stdout.resume();
      await ended;
    }
  }
}
