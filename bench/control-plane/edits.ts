// Measures how long an edit of one policy takes, from the request to the last worker of the last gateway, and what it costs.
import { setTimeout as sleep } from "node:timers/promises";
import { say } from "../../launch/step.mjs";
import { cpuUs } from "../cpu-time.ts";
import type { Stream } from "../light-requests.ts";
import type { MeasuredGateway, Memory } from "../measured-gateway.ts";
import { percentile } from "../statistics.ts";
import type { Crowd } from "./crowd.ts";
import { monotonicMs } from "./crowd-process.ts";
import { edited, editedDocument, firstQuota } from "./fill.ts";
import type { Probe } from "./probe.ts";
import { bytesToDisk, type Site } from "./site.ts";

/** Spread, so that edits do not keep step with the timers of workers. */
const leastBetweenMs = 15;
const mostBetweenMs = 35;
/** Shorter than the patience of the client. */
export const waitFor = "15s";
const tellEveryMs = 10_000;
const fewestEdits = 10;
const settleMs = 1_500;
const idleMs = 3_000;

export interface Durations {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly mostMs: number;
}

/** Every duration begins with the sending of the PUT. */
export interface EditTimes {
  /** Until its answer, of a PUT that does not wait. */
  readonly put: Durations;
  /**
   * Until its answer, of a PUT with ?wait: the control plane knows that every gateway has applied the change. Infinite if not all had
   * within the wait. Absent if there are simulated gateways.
   */
  readonly acknowledged?: Durations;
  /** Until an answer of the last worker of the real gateway showed the new limit. */
  readonly enforced: Durations;
  /** Until the last simulated gateway has acknowledged; absent without any. */
  readonly crowd?: Durations;
  readonly requests: Requests;
  /** CPU that an edit took of each, in ms. */
  readonly cpuMs: { readonly controlPlane: number; readonly simulated: number };
  readonly controlPlanePeakMB: number;
  readonly sent: {
    readonly snapshots: number;
    readonly deltas: number;
    readonly misfits: number;
    readonly cuts: number;
  };
}

/** Through the real gateway: while nothing happened, and during the edits. */
export interface Requests {
  readonly restP50Ms: number;
  readonly restP99Ms: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Parts {
  readonly site: Site;
  readonly probe: Probe;
  readonly crowd: Crowd | undefined;
  readonly stream: Stream;
}

/** Counts the edits of a bench: each has a limit that no edit before it had. */
let editsSoFar = 0;

export function nextEdit(): { readonly quota: number; readonly document: object } {
  editsSoFar += 1;
  const quota = firstQuota + editsSoFar;
  return { quota, document: editedDocument(quota) };
}

export async function measureEdits(
  { site, probe, crowd, stream }: Parts,
  most: number,
  seconds: number,
): Promise<EditTimes> {
  const rest = stream.take();
  const put: number[] = [];
  const acknowledged: number[] = [];
  const enforced: number[] = [];
  const byCrowd: number[] = [];
  const sent = { snapshots: 0, deltas: 0, misfits: 0, cuts: 0 };
  const cpuBefore = { controlPlane: cpuUs([site.pid]) / 1000, simulated: crowd?.cpuMs() ?? 0 };
  const beganAtMs = performance.now();
  let toldAtMs = beganAtMs;
  let edits = 0;
  for (; edits < most; edits++) {
    const nowMs = performance.now();
    if (nowMs - beganAtMs > seconds * 1000 && edits >= fewestEdits) {
      say(`${edits} of ${most} edits, because ${seconds} s are over`);
      break;
    }
    if (nowMs - toldAtMs > tellEveryMs) {
      say(`${edits} of ${most} edits`);
      toldAtMs = nowMs;
    }
    // A crowd itself says when it has acknowledged.
    const waits = crowd === undefined && edits % 2 === 1;
    const { quota, document } = nextEdit();
    const sentAtMs = performance.now();
    const sentAtMonotonicMs = monotonicMs();
    const seen = probe.untilEnforced(quota);
    // If the PUT fails, its error counts.
    seen.catch(() => undefined);
    const answer = await site.put(edited, document, waits ? waitFor : undefined);
    if (!waits) put.push(answer.tookMs);
    else acknowledged.push(answer.appliedByAll === true ? answer.tookMs : Number.POSITIVE_INFINITY);
    enforced.push(Math.max(...(await seen)) - sentAtMs);
    if (crowd !== undefined) {
      const { timesMs, ...counts } = await crowd.untilAll(answer.revision);
      byCrowd.push(Math.max(...timesMs) - sentAtMonotonicMs);
      sent.snapshots += counts.snapshots;
      sent.deltas += counts.deltas;
      sent.misfits = counts.misfits;
      sent.cuts = counts.cuts;
    }
    await sleep(leastBetweenMs + Math.random() * (mostBetweenMs - leastBetweenMs));
  }
  const during = stream.take();
  return {
    put: durationsOf(put),
    enforced: durationsOf(enforced),
    ...(crowd === undefined ? { acknowledged: durationsOf(acknowledged) } : { crowd: durationsOf(byCrowd) }),
    requests: {
      restP50Ms: percentile(rest, 0.5),
      restP99Ms: percentile(rest, 0.99),
      p50Ms: percentile(during, 0.5),
      p99Ms: percentile(during, 0.99),
    },
    cpuMs: {
      controlPlane: (cpuUs([site.pid]) / 1000 - cpuBefore.controlPlane) / edits,
      simulated: ((crowd?.cpuMs() ?? 0) - cpuBefore.simulated) / edits,
    },
    controlPlanePeakMB: site.memory().peakMB,
    sent,
  };
}

/** What one edit costs, while nothing else happens: no requests, no probes. */
export interface EditCost {
  /** Of a snapshot or a delta, to one gateway. */
  readonly pushedBytes: number;
  /** As the kernel counts them, for each edit. */
  readonly gatewayDiskBytes: number;
  readonly controlPlaneDiskBytes: number;
  /** Of all workers of the real gateway. */
  readonly workersCpuMs: number;
  readonly controlPlaneCpuMs: number;
}

/** @param observer one simulated gateway, which counts what gateways get */
export async function measureCost(
  { site, gateway, observer }: { site: Site; gateway: MeasuredGateway; observer: Crowd },
  edits: number,
): Promise<EditCost> {
  const workers = gateway.workers();
  // What was under way has ended.
  await sleep(settleMs);
  const read = () => ({
    nowMs: performance.now(),
    workersCpu: cpuUs(workers) / 1000,
    controlPlaneCpu: cpuUs([site.pid]) / 1000,
    gatewayDisk: bytesToDisk(workers),
    controlPlaneDisk: bytesToDisk([site.pid]),
  });
  const idle = read();
  await sleep(idleMs);
  const before = read();
  let pushed = 0;
  for (let i = 0; i < edits; i++) {
    const { revision } = await site.put(edited, nextEdit().document, waitFor);
    pushed += (await observer.untilAll(revision)).bytesEach;
  }
  await sleep(settleMs);
  const after = read();
  /** Less what would have been used without edits. */
  const each = (of: "workersCpu" | "controlPlaneCpu" | "gatewayDisk" | "controlPlaneDisk") => {
    const perMs = (before[of] - idle[of]) / (before.nowMs - idle.nowMs);
    return (after[of] - before[of] - perMs * (after.nowMs - before.nowMs)) / edits;
  };
  return {
    pushedBytes: pushed / edits,
    gatewayDiskBytes: each("gatewayDisk"),
    controlPlaneDiskBytes: each("controlPlaneDisk"),
    workersCpuMs: each("workersCpu"),
    controlPlaneCpuMs: each("controlPlaneCpu"),
  };
}

/** Of one control plane and one gateway with their present policies. */
export interface Occupied {
  readonly controlPlane: Memory;
  readonly controlPlaneHeapMB: number;
  /** Of one worker, on average. */
  readonly workerMB: number;
  /** Without the shared dicts, whose pages count in every worker that has touched them. */
  readonly workerOwnMB: number;
  readonly workerLuaMB: number;
}

export async function occupied(site: Site, gateway: MeasuredGateway): Promise<Occupied> {
  await sleep(settleMs);
  const lua = await gateway.metric("sluice_lua_memory_bytes");
  return {
    controlPlane: site.memory(),
    controlPlaneHeapMB: await site.heapMB(),
    workerMB: gateway.memory().residentMB / gateway.workers().length,
    workerOwnMB: gateway.memory().ownMB / gateway.workers().length,
    workerLuaMB: lua.reduce((sum, bytes) => sum + bytes, 0) / lua.length / 2 ** 20,
  };
}

export function durationsOf(values: readonly number[]): Durations {
  return {
    count: values.length,
    p50Ms: percentile(values, 0.5),
    p99Ms: percentile(values, 0.99),
    mostMs: Math.max(...values),
  };
}
