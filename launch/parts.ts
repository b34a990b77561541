// The parts as this launcher runs them: program, arguments and environment of each.
import { join } from "node:path";
import type { Nginx } from "./nginx-binary.ts";
import { errorLogOf, writeGatewayFiles } from "./nginx-config.ts";
import type { WantedPort } from "./ports.ts";
import type { Part } from "./processes.ts";
import { projectDir, type Settings } from "./settings.ts";

/** What nginx.conf passes on to the workers, except for what the launcher sets itself. */
const settingsOfTheGateway: readonly string[] = [
  "SLUICE_DEBUG_SECRET",
  "SLUICE_HEADERS",
  "SLUICE_MAX_CHECKS",
  "SLUICE_MAX_WAITING",
  "SLUICE_OVERLOAD_QUEUE",
  "SLUICE_OVERLOAD_REDIS_P99_MS",
  "SLUICE_REDIS_DEADLINE_MS",
  "SLUICE_REQUIRE_SNAPSHOT",
];
/** Settings of Sluice, of traces and of database clients: passwords and tokens are among them. */
const setting = /^(SLUICE|OTEL|PG|MYSQL)/;

/** @returns the environment of a part that reads these settings: those of the other parts, with their secrets, are not in it */
function environmentFor(settings: readonly string[]): NodeJS.ProcessEnv {
  const passed = Object.entries(process.env).filter(([name]) => !setting.test(name) || settings.includes(name));
  return Object.fromEntries(passed);
}

/**
 * V8 lets garbage grow with the memory of the machine. A third of what is in use, and 8 MB for what is new, cost little time, and a flood of
 * requests takes 200 MB less.
 */
export const controlPlaneArgs: readonly string[] = [
  "--max-semi-space-size=8",
  "--heap-growing-percent=30",
  join(projectDir, "control-plane/src/main.ts"),
];

/**
 * The GNU C library keeps freed buffers in an arena for each thread, and never returns large ones once their sizes have varied: a flood of
 * requests takes 100 MB more. Here all threads share one arena, and a buffer of 64 KB or more goes back to the system when it is freed.
 */
export const controlPlaneMemory: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: "1",
  MALLOC_MMAP_THRESHOLD_: "65536",
  MALLOC_TRIM_THRESHOLD_: "131072",
};

/** @param gatewayToken that gateways must show; undefined lets the control plane keep its own in the data dir */
export function controlPlane(settings: Settings, gatewayToken: string | undefined): Part {
  return {
    name: "control plane",
    command: process.execPath,
    args: controlPlaneArgs,
    env: {
      ...controlPlaneMemory,
      ...process.env,
      SLUICE_CONTROL_HOST: settings.controlHost,
      SLUICE_CONTROL_PORT: String(settings.controlPort),
      SLUICE_DATA_DIR: settings.dataDir,
      ...(gatewayToken === undefined ? {} : { SLUICE_GATEWAY_TOKEN: gatewayToken }),
    },
  };
}

/**
 * Also writes the configuration. Secrets are passed in the environment, because the file can be read, printed and copied.
 */
export function gateway(settings: Settings, nginx: Nginx, gatewayToken: string): Part {
  const { config, snapshotDir } = writeGatewayFiles(settings, nginx);
  const logFile = errorLogOf(settings);
  return {
    name: "gateway",
    command: nginx.path,
    // -e is needed because nginx, before it has read its configuration, would log to a system directory that only root can
    // write.
    args: ["-p", `${settings.gatewayDir}/`, "-e", logFile, "-c", config, "-g", "daemon off;"],
    env: {
      ...environmentFor(settingsOfTheGateway),
      SLUICE_GATEWAY_DIR: snapshotDir,
      SLUICE_GATEWAY_ID: settings.gatewayId,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      SLUICE_CONTROL_URL: settings.controlUrl,
      SLUICE_REDIS_URL: settings.redisUrl ?? "",
    },
    logFile,
    // On TERM, nginx would cut off requests in progress.
    drain: { signal: "SIGQUIT", withinMs: settings.drainSeconds * 1000 },
  };
}

export function demoUpstream(settings: Settings): Part {
  return {
    name: "demo upstream",
    command: process.execPath,
    args: [join(projectDir, "launch/demo-upstream.ts")],
    env: { ...environmentFor([]), SLUICE_UPSTREAM_PORT: String(settings.upstreamPort) },
  };
}

/** It reads the variables that begin with SLUICE_RLS_ itself, and refuses those that it does not know. */
export function rateLimitService(settings: Settings): Part {
  return {
    name: "rate limit service",
    command: process.execPath,
    args: [join(projectDir, "rls/src/main.ts")],
    env: environmentFor(Object.keys(process.env).filter((name) => name.startsWith("SLUICE_RLS_"))),
    drain: { signal: "SIGTERM", withinMs: settings.drainSeconds * 1000 },
  };
}

export function gatewayPorts({ role, checkTls, ...settings }: Settings): WantedPort[] {
  const { gatewayHost, gatewayPort, gatewayPrivateHost, gatewayPrivatePort } = settings;
  const ports = [{ variable: "SLUICE_GATEWAY_PRIVATE_PORT", host: gatewayPrivateHost, port: gatewayPrivatePort }];
  if (role === "gateway") ports.unshift({ variable: "SLUICE_GATEWAY_PORT", host: gatewayHost, port: gatewayPort });
  if (checkTls !== undefined) ports.push({ variable: "SLUICE_CHECK_TLS_PORT", ...checkTls });
  return ports;
}

export const controlPorts = (settings: Settings) => [
  { variable: "SLUICE_CONTROL_PORT", host: settings.controlHost, port: settings.controlPort },
];

export const upstreamPorts = (settings: Settings) => [
  { variable: "SLUICE_UPSTREAM_PORT", host: settings.upstreamHost, port: settings.upstreamPort },
];
