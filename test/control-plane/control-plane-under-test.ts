// A real control plane in a directory of its own, on a free port, with an HTTP client for it.

import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll } from "vitest";
import { buildControlPlane, type Surroundings } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import { memoryDir } from "../fixtures/memory-dir.ts";
import { onFinished } from "../fixtures/side-by-side.ts";

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
export function temporaryDir(): Promise<string> {
  return makeDir(onFinished);
}

async function makeDir(cleanUp: CleanUp): Promise<string> {
  const dir = await mkdtemp(join(memoryDir, "sluice-control-"));
  cleanUp(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** Takes what is to be done at the end, last things first. */
type CleanUp = (step: () => Promise<void>) => void;

/** Starts a control plane that stops after the test at the latest. It has tokens unless the environment says otherwise. */
export function startControlPlane(
  environment: Record<string, string> = {},
  surroundings: Surroundings = {},
): Promise<Running> {
  return start(environment, surroundings, onFinished);
}

/** Starts one control plane for all tests of a file or a group: they either change nothing, or have names of their own. */
export function sharedControlPlane(
  environment: Record<string, string> = {},
  surroundings: Surroundings = {},
): () => Running {
  const steps: (() => Promise<void>)[] = [];
  let running: Running;
  beforeAll(async () => {
    running = await start(environment, surroundings, (step) => void steps.unshift(step));
  });
  afterAll(async () => {
    for (const step of steps) await step();
  });
  return () => running;
}

/** Control planes are built one after the other: many at once would keep those that run from their connections for seconds. */
let built: Promise<unknown> = Promise.resolve();

async function start(
  environment: Record<string, string>,
  surroundings: Surroundings,
  cleanUp: CleanUp,
): Promise<Running> {
  const dataDir = environment["SLUICE_DATA_DIR"] ?? (await makeDir(cleanUp));
  const configuration = readConfiguration({
    SLUICE_DATA_DIR: dataDir,
    SLUICE_CONTROL_PORT: "0",
    SLUICE_ADMIN_TOKEN: adminToken,
    SLUICE_GATEWAY_TOKEN: gatewayToken,
    SLUICE_LOG_LEVEL: "silent",
    ...environment,
  });
  const building = built.then(() => buildControlPlane(configuration, surroundings));
  built = building.catch(() => undefined);
  const { app, firstAdminToken } = await building;
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= Promise.resolve(app.close());
    return stopped;
  };
  cleanUp(stop);
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
