// The control plane as a process: it reads the environment, starts, prints its address, and stops on a signal.

import { join } from "node:path";
import { collectDefaultMetrics } from "prom-client";
import { buildControlPlane } from "./app.ts";
import { type Configuration, ConfigurationError, readConfiguration } from "./configuration.ts";
import { runTransfer } from "./transfer-command.ts";

const sumsByOtherNames = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];
/** Shorter than the time that supervisors wait before they kill a process. */
const maxStopMs = 5_000;
const consoleDirectory = join(import.meta.dirname, "../../console/dist");

try {
  const configuration = readConfiguration(process.env);
  if (!(await runTransfer(process.argv.slice(2), configuration))) await run(configuration);
} catch (error) {
  console.error(`sluice: ${describeFailure(error)}`);
  process.exit(1);
}

async function run(configuration: Configuration): Promise<void> {
  const { app, firstAdminToken } = await buildControlPlane(configuration, { consoleDirectory });
  // Printed before anything else can fail: the token cannot be read again.
  if (firstAdminToken !== undefined) console.log(`sluice: admin token (shown once): ${firstAdminToken}`);
  collectDefaultMetrics({ register: app.metrics.registry });
  // These are gauges whose names say that they are counters. Others have the same numbers by type.
  for (const name of sumsByOtherNames) app.metrics.registry.removeSingleMetric(name);

  let stopping = false;
  const stop = (signal?: NodeJS.Signals) => {
    // A second signal means that the operator does not want to wait any longer.
    if (stopping) process.exit(signal === "SIGINT" ? 130 : signal === "SIGTERM" ? 143 : 1);
    stopping = true;
    app.announceStop();
    // Who started this process and is gone waits for nothing.
    setTimeout(close, signal === undefined ? 0 : configuration.stopDelayMs);
  };
  const close = () => {
    setTimeout(() => {
      console.error("sluice: some connections did not end in time; stopped without them");
      process.exit(1);
    }, maxStopMs).unref();
    app.close().then(
      () => process.exit(0),
      (error) => {
        console.error(`sluice: did not stop cleanly: ${describeFailure(error)}`);
        process.exit(1);
      },
    );
  };
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  // Another process started this one. Once that process is gone, nobody would ever stop this one.
  if (process.channel !== undefined && process.channel !== null) process.on("disconnect", () => stop());

  try {
    await app.listen({ host: configuration.host, port: configuration.port });
  } catch (error) {
    await app.close();
    throw listenFailure(error as NodeJS.ErrnoException, configuration);
  }
  const address = app.server.address();
  const port = typeof address === "object" && address !== null ? address.port : configuration.port;
  const host = configuration.host.includes(":") ? `[${configuration.host}]` : configuration.host;
  console.log(`sluice: control plane on http://${host}:${port}`);
}

function listenFailure(error: NodeJS.ErrnoException, { host, port }: Configuration): Error {
  switch (error.code) {
    case "EADDRINUSE":
      return new ConfigurationError("SLUICE_CONTROL_PORT", "a free port", `${port}, which another process listens on`);
    case "EACCES":
      return new ConfigurationError("SLUICE_CONTROL_PORT", "a port that this user may open", String(port));
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return new ConfigurationError("SLUICE_CONTROL_HOST", "an address of this machine", JSON.stringify(host));
    default:
      return error;
  }
}

function describeFailure(error: unknown): string {
  if (error instanceof ConfigurationError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
