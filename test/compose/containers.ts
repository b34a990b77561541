// Restarts the gateways of docker-compose.yml, reads their metrics, and reads logs, by the command in COMPOSE.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { SetupError } from "../../launch/step.mjs";
import { ask } from "../fixtures/clients/requests.ts";
import { countsIn, type GatewayCounts, sumOfCounts } from "../fixtures/measures/gateway-counts.ts";
import { until } from "../fixtures/until.ts";

const services = ["gateway-1", "gateway-2"];
const command = process.env["COMPOSE"] || "docker compose";
/** Workers report their counts ten times a second; on a busy machine, later. */
const countedWithinMs = 10_000;

/** The images have Node, and no other HTTP client that could read the metrics. */
const readMetrics =
  'fetch("http://127.0.0.1:8079/sluice/metrics").then(async (r) => process.stdout.write(await r.text()))';

/** Resolves when both answer and the control plane has them both. @throws SetupError with what the command printed */
export async function restartGateways(
  controlUrl: string,
  gatewayUrls: readonly string[],
  token: string,
): Promise<void> {
  try {
    await compose("restart", ...services);
    await untilBack(controlUrl, gatewayUrls, token);
  } catch (error) {
    throw new SetupError(
      `--cold: expected \`${command} restart ${services.join(" ")}\` to bring both gateways back, got: ` +
        `${(error as Error).message.trimEnd()}\nIs \`${command}\` what reaches them (COMPOSE)? What do their logs say?`,
    );
  }
}

async function untilBack(controlUrl: string, gatewayUrls: readonly string[], token: string): Promise<void> {
  for (const url of gatewayUrls) {
    await until(`${url} is healthy and connected`, async () => {
      const health = await ask(`${url}/sluice/healthz`).catch(() => undefined);
      return health?.status === 200 && JSON.parse(health.body).connected === true;
    });
  }
  const headers = { authorization: `Bearer ${token}` };
  await until("the control plane has both gateways", async () => {
    const { body } = await ask(`${controlUrl}/api/v1/gateways`, { headers });
    const { gateways } = JSON.parse(body) as { gateways: readonly { connected: boolean; lag: number }[] };
    return gateways.filter(({ connected, lag }) => connected && lag === 0).length === services.length;
  });
}

/**
 * Reads what both gateways have counted of a policy, once they have reported so many decisions.
 *
 * @returns undefined if their metrics, which are on listeners inside the containers, cannot be reached
 */
export async function countsOfContainers(policy: string, decisions: number): Promise<GatewayCounts | undefined> {
  const giveUpAt = Date.now() + countedWithinMs;
  for (;;) {
    let sum: GatewayCounts;
    try {
      const read = (service: string) => compose("exec", "-T", service, "node", "-e", readMetrics);
      sum = sumOfCounts((await Promise.all(services.map(read))).map((text) => countsIn(text, policy)));
    } catch {
      return undefined;
    }
    if (sum.decisions >= decisions) return sum;
    if (Date.now() > giveUpAt) return undefined;
  }
}

/** @returns the last so many lines of a service of the profile `examples`. @throws SetupError with what the command printed */
export async function logsOf(service: string, lines: number): Promise<string> {
  const args = ["--profile", "examples", "logs", "--no-color", "--no-log-prefix", `--tail=${lines}`, service];
  try {
    return await compose(...args);
  } catch (error) {
    throw new SetupError(`expected the log of ${service}, got: ${(error as Error).message.trimEnd()}`);
  }
}

async function compose(...args: string[]): Promise<string> {
  // The command may have arguments of its own.
  const { stdout } = await promisify(execFile)("sh", ["-c", `${command} "$@"`, "sh", ...args], {
    maxBuffer: 16 * 1024 * 1024,
  });
  return stdout;
}
