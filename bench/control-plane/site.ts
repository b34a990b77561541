// A control plane as operators run it, in a process of its own, and an admin who changes policies by its API.
import { mkdirSync, readFileSync } from "node:fs";
import { Agent } from "node:http";
import { join } from "node:path";
import { projectDir } from "../../launch/settings.ts";
import { ask } from "../../test/fixtures/clients/requests.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { type Memory, memoryOf, seriesOf } from "../measured-gateway.ts";
import { untilAnswers } from "../nginx.ts";
import type { Processes, Running } from "../processes.ts";
import { app } from "./fill.ts";

const adminToken = "bench-admin-token-0123456789";
export const gatewayToken = "bench-gateway-token-0123456789";

/** A control plane with 100,000 policies reads them before it listens. */
const patienceMs = 60_000;

export interface Put {
  readonly revision: number;
  /** From sending the request to the last byte of the answer. */
  readonly tookMs: number;
  /** Present if the request waited: whether every connected gateway had applied the change. */
  readonly appliedByAll?: boolean;
}

/** @param directory of its files; a control plane that is started there again has the database of the one before */
export function siteEnvironment(directory: string, port: number, databaseUrl: string | undefined): NodeJS.ProcessEnv {
  mkdirSync(directory, { recursive: true });
  return {
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    SLUICE_DATA_DIR: directory,
    SLUICE_CONTROL_PORT: `${port}`,
    SLUICE_ADMIN_TOKEN: adminToken,
    SLUICE_GATEWAY_TOKEN: gatewayToken,
    SLUICE_LOG_LEVEL: "silent",
    SLUICE_API_RATE: "off",
    SLUICE_API_RATE_PER_ADDRESS: "off",
    SLUICE_FAILED_SIGN_IN_RATE: "off",
    // More than operators' default, for 100,000 policies.
    SLUICE_MAX_POLICIES: "1000000",
    SLUICE_MAX_SNAPSHOT_BYTES: "67108864",
    ...(databaseUrl === undefined ? {} : { SLUICE_DATABASE_URL: databaseUrl }),
  };
}

export class Site {
  readonly url: string;
  readonly #running: Running;
  readonly #agent = new Agent({ keepAlive: true });
  /** From the start of the process until it said that it is ready. */
  readonly readyMs: number;

  private constructor(url: string, running: Running, readyMs: number) {
    this.url = url;
    this.#running = running;
    this.readyMs = readyMs;
  }

  static async start(processes: Processes, directory: string, databaseUrl: string | undefined): Promise<Site> {
    const [port = 0] = await freePorts(1);
    const url = `http://127.0.0.1:${port}`;
    const beganAt = performance.now();
    const running = processes.start({
      name: "control plane",
      command: process.execPath,
      args: [join(projectDir, "control-plane/src/main.ts")],
      env: siteEnvironment(directory, port, databaseUrl),
    });
    await Promise.race([untilAnswers(`${url}/readyz`, patienceMs), running.ended]);
    return new Site(url, running, performance.now() - beganAt);
  }

  get pid(): number {
    return this.#running.pid;
  }

  memory(): Memory {
    return memoryOf([this.pid]);
  }

  /** What its JavaScript uses, garbage included. */
  async heapMB(): Promise<number> {
    const { body } = await ask(`${this.url}/metrics`);
    return (seriesOf(body, "nodejs_heap_size_used_bytes")[0] ?? Number.NaN) / 2 ** 20;
  }

  /** @param wait how long the answer may wait for all gateways, as ?wait has it @throws Error unless the change is stored */
  async put(name: string, document: object, wait?: string): Promise<Put> {
    const path = `/apps/${app}/policies/${name}${wait === undefined ? "" : `?wait=${wait}`}`;
    return this.#send(path, JSON.stringify(document), "application/json");
  }

  /** The media type of many policies at once, one on each line; undefined if the control plane has no such route. */
  async typeOfMany(): Promise<string | undefined> {
    const { body } = await ask(`${this.url}/openapi.json`);
    const route = JSON.parse(body).paths[`/api/v1/apps/{app}/policies`];
    const types = Object.keys(route?.put?.requestBody?.content ?? {});
    return types.find((type) => /jsonl|ndjson|json-?lines|json-seq/.test(type));
  }

  async putMany(documents: readonly object[], type: string, wait: string): Promise<Put> {
    const lines = documents.map((document) => `${JSON.stringify(document)}\n`).join("");
    return this.#send(`/apps/${app}/policies?wait=${wait}`, lines, type);
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    await this.#running.stop();
  }

  async #send(path: string, body: string, type: string): Promise<Put> {
    const headers = { authorization: `Bearer ${adminToken}`, "content-type": type };
    const beganAt = performance.now();
    const answer = await ask(`${this.url}/api/v1${path}`, { method: "PUT", headers, body, agent: this.#agent });
    const tookMs = performance.now() - beganAt;
    if (answer.status !== 200 && answer.status !== 201) {
      throw new Error(`PUT ${path}: expected 200 or 201, got ${answer.status} ${answer.body.slice(0, 300)}`);
    }
    const { revision, applied } = JSON.parse(answer.body);
    if (applied === undefined) return { revision, tookMs };
    return { revision, tookMs, appliedByAll: applied.acked === applied.gateways };
  }
}

/** Bytes that a process has caused to be written to disks, from /proc; 0 where its files are in memory. */
export function bytesToDisk(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const written = /^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1];
    return sum + Number(written);
  }, 0);
}
