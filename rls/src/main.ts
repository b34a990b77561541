// Envoy's rate limit service as a process: it reads the environment, starts, prints its address, and stops on a signal when the calls that
// it has are answered.

import { SluiceClient } from "../../clients/typescript/src/index.ts";
import { Decisions } from "./decisions.ts";
import { Reports } from "./reports.ts";
import { RateLimitServer } from "./server.ts";
import { readSettings, type Settings, SettingsError } from "./settings.ts";
import { UnknownPolicies } from "./unknown-policies.ts";

/** For answers that are on their way when the last deadline is over. */
const graceMs = 1000;

try {
  await run(readSettings(process.env));
} catch (error) {
  console.error(`sluice: ${error instanceof SettingsError ? error.message : describe(error)}`);
  process.exit(1);
}

async function run(settings: Settings): Promise<void> {
  const { host, port, gateway, token, deadlineMs, onFailure, withHeaders, maxPending, map } = settings;
  const now = () => performance.now();
  const reports = new Reports((line) => process.stderr.write(line), now);
  const client = new SluiceClient({ url: gateway, token, deadlineMs });
  const unknown = new UnknownPolicies(now);
  const decisions = new Decisions({ client, map, onFailure, withHeaders, unknown, reports });
  const server = new RateLimitServer({ host, port, decisions, maxPending, reports });

  let isStopping = false;
  const stop = (signal?: NodeJS.Signals) => {
    // A second signal means that the operator does not want to wait any longer.
    if (isStopping) process.exit(signal === "SIGINT" ? 130 : 143);
    isStopping = true;
    void server.stop(deadlineMs + graceMs).then(async () => {
      await client.close();
      process.exit(0);
    });
  };
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  // Another process started this one. Once that process is gone, nobody would ever stop this one.
  if (process.channel !== undefined && process.channel !== null) process.on("disconnect", () => stop());

  const bound = await server.listen().catch((error: Error) => {
    throw new SettingsError([`SLUICE_RLS_PORT: expected a free port of ${host}, got ${port}: ${error.message}`]);
  });
  const shown = host.includes(":") ? `[${host}]` : host;
  console.log(`sluice: rate limit service for Envoy on ${shown}:${bound}, asking ${gateway}`);
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
