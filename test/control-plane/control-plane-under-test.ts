// A real control plane in a directory of its own, on a free port, with an HTTP client for it.

import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { onTestFinished } from "vitest";
import { buildControlPlane, type Surroundings } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import { memoryDir } from "../fixtures/memory-dir.ts";

export const adminToken = "test-admin-token-0123456789";
export const gatewayToken = "test-gateway-token-0123456789";

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what each test asserts
  body: any;
}

export interface CallOptions {
  body?: unknown;
  /** A body that is sent as it is. */
  text?: string;
  type?: string;
  token?: string | undefined;
  headers?: Record<string, string>;
}

export interface Running {
  app: FastifyInstance;
  url: string;
  dataDir: string;
  firstAdminToken: string | undefined;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  stop(): Promise<void>;
}

/** Makes a directory that is deleted after the test. */
export async function temporaryDir(): Promise<string> {
  const dir = await mkdtemp(join(memoryDir, "sluice-control-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** Starts a control plane that stops after the test at the latest. It has tokens unless the environment says otherwise. */
export async function startControlPlane(
  environment: Record<string, string> = {},
  surroundings: Surroundings = {},
): Promise<Running> {
  const dataDir = environment["SLUICE_DATA_DIR"] ?? (await temporaryDir());
  const configuration = readConfiguration({
    SLUICE_DATA_DIR: dataDir,
    SLUICE_CONTROL_PORT: "0",
    SLUICE_ADMIN_TOKEN: adminToken,
    SLUICE_GATEWAY_TOKEN: gatewayToken,
    SLUICE_LOG_LEVEL: "silent",
    ...environment,
  });
  const { app, firstAdminToken } = await buildControlPlane(configuration, surroundings);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= Promise.resolve(app.close());
    return stopped;
  };
  onTestFinished(stop);
  const url = await app.listen({ host: "127.0.0.1", port: configuration.port });
  const call = (method: string, path: string, options: CallOptions = {}) => send(url, method, path, options);
  return { app, url, dataDir, firstAdminToken, call, stop };
}

/** Sends one request to a control plane that may run elsewhere. */
export async function send(url: string, method: string, path: string, options: CallOptions): Promise<Answer> {
  const headers = new Headers(options.headers);
  const token = "token" in options ? options.token : adminToken;
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  const body = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) headers.set("content-type", options.type ?? "application/json");
  const target = path.startsWith("/") ? `/api/v1${path}` : `/${path}`;
  const response = await fetch(new URL(target, url), { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json") === true;
  return { status: response.status, headers: response.headers, body: isJson && text !== "" ? JSON.parse(text) : text };
}

export const onePerSecond = { limits: [{ algorithm: "fixed-window", quota: 1, window: "1s" }] };

export function perSecond(quota: number) {
  return { limits: [{ algorithm: "fixed-window", quota, window: "1s" }] };
}
