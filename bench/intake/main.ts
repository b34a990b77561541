// npm run bench -- intake: how long workers keep requests waiting while they take snapshots and deltas.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { say } from "../../launch/step.mjs";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { type Stream, startRequests } from "../light-requests.ts";
import { describeMachine } from "../machine.ts";
import { type MeasuredGateway, type Memory, type Stalls, startGateway } from "../measured-gateway.ts";
import type { Processes } from "../processes.ts";
import { table, writeJson } from "../report.ts";
import { median, percentile } from "../statistics.ts";
import { type Connected, type Documents, deltasAfter, listen, type Message, snapshotOf } from "./control-plane.ts";
import type { IntakeOptions } from "./options.ts";

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

/** Snapshots that are kept ready in memory take at most so much. */
const mostReadyMB = 400;
const fewestPushes = 3;

interface Measured {
  readonly policies: number;
  readonly megabytes: number;
  readonly deltaBytes: number | undefined;
  /** How often each kind was pushed. */
  readonly pushes: number;
  readonly longestSliceMs: number | undefined;
  readonly memory: Readonly<Record<"empty" | "loaded" | "after", Memory>>;
  readonly phases: readonly Phase[];
}

export async function intake(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { policies, workers, pushes, jsonFile, ...options }: IntakeOptions,
): Promise<void> {
  const { wrk: _, ...machine } = describeMachine(nginx.path);
  const measured: Measured[] = [];
  for (const count of policies) {
    const one = await measure(processes, nginx, options.luaDir ?? luaDir, { policies: count, workers, pushes });
    measured.push(one);
    process.stdout.write(`\n${tableOf(one.phases)}\n\n`);
    say(`longest slice by the gateway's own stopwatch: ${one.longestSliceMs?.toFixed(1) ?? "–"} ms`);
    for (const [when, { ownMB, residentMB, peakMB }] of Object.entries(one.memory)) {
      const shared = residentMB - ownMB;
      const what = `${ownMB.toFixed(0)} MB of their own, and ${shared.toFixed(0)} MB of shared memory`;
      say(`memory of all workers, ${when}: ${what}; at most ${peakMB.toFixed(0)} MB together`);
    }
  }
  writeJson(jsonFile, { date: new Date().toISOString(), machine, workers, measured });
  say(`results are in ${jsonFile}`);
}

async function measure(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { policies, workers, pushes }: { policies: number; workers: number; pushes: number },
): Promise<Measured> {
  const [controlPort = 0] = await freePorts(1);
  const connection = listen(controlPort);
  let revision = 1;
  const first = await snapshotOf(
    revision,
    documents(policies, () => 10),
  );
  const megabytes = first.bytes.length / 1e6;
  const gateway = await startGateway(processes, nginx, {
    luaDir,
    workers,
    controlUrl: `http://127.0.0.1:${controlPort}`,
    token: "bench",
    findsStalls: true,
    dataDir: join(processes.directory, `intake-${policies}`),
    // Two snapshots and what lies between them.
    stateMegabytes: Math.max(32, Math.ceil(megabytes * 3)),
  });
  const control = await connection;
  const empty = gateway.memory();
  await control.push(first);
  const loaded = gateway.memory();
  const next = async (quotaOf: (place: number) => number) => {
    revision += 1;
    // Yields, so that this process can send the pings that the gateway expects.
    await sleep(1);
    return snapshotOf(revision, documents(policies, quotaOf));
  };
  // All are made before anything is measured, since this process also times the requests.
  const times = Math.min(pushes, Math.max(fewestPushes, Math.floor(mostReadyMB / 2 / megabytes)));
  const others: Message[] = [];
  const edited: Message[] = [];
  for (let i = 0; i < times; i++) others.push(await next(() => 11 + i));
  for (let i = 0; i < times; i++) edited.push(await next((place) => (place === i ? 1000 + i : 10 + times)));
  const changed = Array.from({ length: times }, (_, i) => {
    return documents(1, () => 2000 + i, Math.floor((i * policies) / times))[0] as Documents[number];
  });
  const last = documents(policies, (place) => (place === times - 1 ? 1000 + times - 1 : 10 + times));
  const deltas = await deltasAfter(revision, last, changed);
  const [delta] = deltas;
  say(`${policies} policies, ${megabytes.toFixed(1)} MB, ${workers} workers, ${times} pushes of each kind`);
  if (times < pushes) say(`${pushes} were asked for, but snapshots of this size would take too much memory`);

  const targets = Array.from({ length: 100 }, (_, i) => ({ host: `h${i}.example`, path: `/sluice/${i % 10}` }));
  const stream = startRequests(gateway.url, targets, everyMs);
  const phases = [
    await phase("nothing pushed", gateway, stream, () => sleep(restMs).then(() => [])),
    await phase("every policy changed", gateway, stream, () => pushAll(control, others)),
    await phase("one policy changed, by a snapshot", gateway, stream, () => pushAll(control, edited)),
  ];
  if (control.protocol > 1) {
    phases.push(await phase("one policy changed, by a delta", gateway, stream, () => pushAll(control, deltas)));
  } else say("this gateway takes no deltas");
  stream.stop();
  const [longestSlice] = await gateway.metric("sluice_snapshot_slice_max_seconds");
  const memory = { empty, loaded, after: gateway.memory() };
  control.close();
  await gateway.stop();
  return {
    policies,
    megabytes,
    deltaBytes: control.protocol > 1 ? delta?.bytes.length : undefined,
    pushes: times,
    longestSliceMs: longestSlice === undefined ? undefined : longestSlice * 1000,
    memory,
    phases,
  };
}

/** Each host has ten paths. */
function documents(count: number, quotaOf: (place: number) => number, from = 0): Documents {
  return Array.from({ length: count }, (_, place) => {
    const i = from + place;
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

async function pushAll(control: Connected, messages: readonly Message[]): Promise<number[]> {
  const took: number[] = [];
  for (const message of messages) {
    took.push(await control.push(message));
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
  const at = (share: number) => percentile(latencies, share);
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
