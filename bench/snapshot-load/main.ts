// npm run bench -- snapshot-load: how long workers keep requests waiting while they load snapshots.
import { setTimeout as sleep } from "node:timers/promises";
import type { SnapshotFrame } from "../../control-plane/src/push/snapshot-frame.ts";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { say } from "../../launch/step.mjs";
import { freePorts } from "../free-ports.ts";
import { describeMachine } from "../machine.ts";
import type { Processes } from "../processes.ts";
import { table, writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import { type Connected, type Documents, frameOf, listen } from "./control-plane.ts";
import { type MeasuredGateway, type Stalls, startGateway } from "./gateway.ts";
import type { SnapshotLoadOptions } from "./options.ts";
import { type Stream, startRequests } from "./requests.ts";

const everyMs = 4;
const restMs = 5000;
const betweenMs = 100;

interface Phase extends Stalls {
  readonly name: string;
  /** From the first byte sent to the ack of all workers; empty if nothing was pushed. */
  readonly loadMs: readonly number[];
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly mostMs: number;
}

export async function snapshotLoad(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { policies, workers, pushes, jsonFile, ...options }: SnapshotLoadOptions,
): Promise<void> {
  const [controlPort = 0] = await freePorts(1);
  const connection = listen(controlPort);
  const gateway = await startGateway(processes, nginx, options.luaDir ?? luaDir, workers, controlPort);
  const control = await connection;

  let revision = 1;
  const first = await frameOf(
    revision,
    documents(policies, () => 10),
  );
  const empty = gateway.memory();
  await control.push(first);
  const loaded = gateway.memory();
  const next = async (quotaOf: (place: number) => number) => {
    revision += 1;
    // Yields, so that this process can send the pings that the gateway expects.
    await sleep(1);
    return frameOf(revision, documents(policies, quotaOf));
  };
  // All are made before anything is measured, since this process also times the requests.
  const others: SnapshotFrame[] = [];
  const edited: SnapshotFrame[] = [];
  for (let i = 0; i < pushes; i++) others.push(await next(() => 11 + i));
  for (let i = 0; i < pushes; i++) edited.push(await next((place) => (place === i ? 1000 + i : 10 + pushes)));
  const megabytes = first.bytes.length / 1e6;
  say(`${policies} policies, ${megabytes.toFixed(1)} MB, ${workers} workers, ${pushes} snapshots of each kind`);

  const targets = Array.from({ length: 100 }, (_, i) => ({ host: `h${i}.example`, path: `/sluice/${i % 10}` }));
  const stream = startRequests(gateway.url, targets, everyMs);
  const phases = [
    await phase("no snapshot", gateway, stream, () => sleep(restMs).then(() => [])),
    await phase("every policy changed", gateway, stream, () => pushAll(control, others)),
    await phase("one policy changed", gateway, stream, () => pushAll(control, edited)),
  ];
  stream.stop();
  const longestSliceMs = await gateway.longestSliceMs();
  const { wrk: _, ...machine } = describeMachine(nginx.path);
  const memory = { empty, loaded, after: gateway.memory() };
  writeJson(jsonFile, {
    date: new Date().toISOString(),
    machine,
    policies,
    megabytes,
    workers,
    longestSliceMs,
    memory,
    phases,
  });
  process.stdout.write(`\n${tableOf(phases)}\n\n`);
  say(`longest slice by the gateway's own stopwatch: ${longestSliceMs?.toFixed(1) ?? "–"} ms`);
  for (const [when, { residentMB, peakMB }] of Object.entries(memory)) {
    say(`memory of all workers, ${when}: ${residentMB.toFixed(0)} MB, at most ${peakMB.toFixed(0)} MB`);
  }
  say(`results are in ${jsonFile}`);
}

/** Each host has ten paths. */
function documents(count: number, quotaOf: (place: number) => number): Documents {
  return Array.from({ length: count }, (_, i) => {
    const name = `p${i}`;
    const document = {
      name,
      description: "As long as policies are that somebody has written by hand and explained a little.",
      match: { hosts: [`h${Math.floor(i / 10)}.example`], paths: [`/sluice/${i % 10}`, `/sluice/${i % 10}/*`] },
      key: ["ip"],
      limits: [
        { name: "burst", algorithm: "token-bucket", quota: quotaOf(i), window: "1s", burst: 100_000 },
        { name: "daily", algorithm: "fixed-window", quota: 1_000_000_000, window: "1d" },
      ],
    };
    return { name, document: JSON.stringify(document) };
  });
}

async function pushAll(control: Connected, frames: readonly SnapshotFrame[]): Promise<number[]> {
  const took: number[] = [];
  for (const frame of frames) {
    took.push(await control.push(frame));
    await sleep(betweenMs);
  }
  return took;
}

async function phase(
  name: string,
  gateway: MeasuredGateway,
  stream: Stream,
  run: () => Promise<number[]>,
): Promise<Phase> {
  await sleep(restMs / 5);
  stream.take();
  await gateway.stalls();
  const loadMs = await run();
  const stalls = await gateway.stalls();
  const latencies = stream.take();
  const at = (share: number) =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? Number.NaN;
  return { name, ...stalls, loadMs, p50Ms: at(0.5), p99Ms: at(0.99), mostMs: at(1) };
}

function tableOf(phases: readonly Phase[]): string {
  const ms = (value: number) => value.toFixed(1);
  return table(
    [
      "",
      "load ms",
      "at most",
      "busy at a time, at most ms",
      "late at most ms",
      "late by > 5 ms",
      "request p50 ms",
      "p99",
      "at most",
    ],
    phases.map(({ name, loadMs, ...row }) => [
      name,
      loadMs.length === 0 ? "–" : ms(median(loadMs)),
      loadMs.length === 0 ? "–" : ms(Math.max(...loadMs)),
      ms(row.busyMs),
      ms(row.lateMs),
      `${row.over} of ${row.looks}`,
      ms(row.p50Ms),
      ms(row.p99Ms),
      ms(row.mostMs),
    ]),
  ).join("\n");
}
