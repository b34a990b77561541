// npm run bench -- put-many: how long it takes to store many policies by one request, and how long others wait meanwhile.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { buildControlPlane } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { Turns } from "../../test/fixtures/turns.ts";
import { table, writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import type { Sending, Sent } from "./client.ts";
import type { PutManyOptions } from "./options.ts";
import { roundsOf } from "./rounds.ts";

const token = "bench-admin-token-0123456789";

interface Measured {
  readonly request: string;
  readonly bodyMB: number;
  readonly medianMs: number;
  readonly mostMs: number;
  /** CPU of the control plane's main thread, with the small requests meanwhile. */
  readonly cpuMs: number;
  /** The longest time that the control plane computed in one go. */
  readonly turnMs: number;
  readonly othersMostMs: number;
  readonly peakMB: number;
}

interface Sample extends Sent {
  readonly cpuMs: number;
  readonly turnMs: number;
  readonly peakMB: number;
}

export async function putMany({ policies, times, databaseUrl, jsonFile }: PutManyOptions): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-bench-put-many-"));
  const environment = {
    SLUICE_DATA_DIR: directory,
    SLUICE_CONTROL_PORT: "0",
    SLUICE_ADMIN_TOKEN: token,
    SLUICE_LOG_LEVEL: "silent",
    SLUICE_API_RATE: "off",
    SLUICE_API_RATE_PER_ADDRESS: "off",
    SLUICE_MAX_POLICIES: String(policies),
    SLUICE_MAX_SNAPSHOT_BYTES: "67108864",
    ...(databaseUrl === undefined ? {} : { SLUICE_DATABASE_URL: databaseUrl }),
  };
  const { app } = await buildControlPlane(readConfiguration(environment));
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const client = new Worker(new URL("./client.ts", import.meta.url), { workerData: { url, token, policies } });
  const turns = new Turns();
  try {
    const { stored } = await app.database
      .selectFrom("policies")
      .select(({ fn }) => fn.countAll().as("stored"))
      .executeTakeFirstOrThrow();
    if (Number(stored) > 0)
      throw new SetupError(`--database: expected an empty database, got one with ${stored} policies`);
    const send = (request: Sending) =>
      new Promise<Sent>((resolve) => {
        client.once("message", resolve);
        client.postMessage(request);
      });
    const measured: Measured[] = [];
    const rounds = roundsOf(policies);
    const samples = new Map(rounds.map(({ request }) => [request, [] as Sample[]]));
    for (let i = 0; i < times; i++) {
      for (const { request, counts } of rounds) {
        turns.take();
        let peak = 0;
        const watch = setInterval(() => {
          peak = Math.max(peak, process.memoryUsage.rss());
        }, 20);
        const cpuBefore = process.threadCpuUsage();
        const sent = await send({ request });
        const { user, system } = process.threadCpuUsage(cpuBefore);
        clearInterval(watch);
        // An answer that does not say what was expected would be the measure of something else.
        const answer = JSON.parse(sent.answer);
        for (const [name, count] of Object.entries(counts)) {
          if (answer[name] !== count)
            throw new Error(`${request}: expected ${name} ${count}, got ${sent.answer.slice(0, 300)}`);
        }
        samples.get(request)?.push({
          ...sent,
          cpuMs: (user + system) / 1_000,
          turnMs: turns.take(),
          peakMB: peak / 1e6,
        });
      }
    }
    for (const { request } of rounds) {
      const all = samples.get(request) ?? [];
      const most = (of: (one: (typeof all)[number]) => number) => Math.max(...all.map(of));
      measured.push({
        request,
        bodyMB: most(({ bytes }) => bytes) / 1e6,
        medianMs: median(all.map(({ ms }) => ms)),
        mostMs: most(({ ms }) => ms),
        cpuMs: median(all.map(({ cpuMs }) => cpuMs)),
        turnMs: most(({ turnMs }) => turnMs),
        othersMostMs: most(({ othersMostMs }) => othersMostMs),
        peakMB: most(({ peakMB }) => peakMB),
      });
    }
    const kind = databaseUrl === undefined ? "SQLite" : new URL(databaseUrl).protocol.replace(":", "");
    const [{ model = "unknown" } = {}] = cpus();
    const date = new Date().toISOString();
    writeJson(jsonFile, { date, cpu: model, node: process.version, kind, policies, times, measured });
    process.stdout.write(`\n${tableOf(measured)}\n\n`);
    say(`${kind}, ${policies} policies, each request ${times} times; load ${(loadavg()[0] ?? 0).toFixed(1)}`);
    say(`results are in ${jsonFile}`);
  } finally {
    turns.stop();
    await client.terminate();
    await app.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function tableOf(measured: readonly Measured[]): string {
  return table(
    ["request", "body MB", "median ms", "at most ms", "CPU ms", "longest turn ms", "others at most ms", "peak MB"],
    measured.map(({ request, bodyMB, medianMs, mostMs, cpuMs, turnMs, othersMostMs, peakMB }) => [
      request,
      bodyMB.toFixed(1),
      medianMs.toFixed(0),
      mostMs.toFixed(0),
      cpuMs.toFixed(0),
      turnMs.toFixed(0),
      othersMostMs.toFixed(0),
      peakMB.toFixed(0),
    ]),
  ).join("\n");
}
