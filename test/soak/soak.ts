// Runs one soak: the fleet, its load, the faults of the schedule one after the other, and samples of what each process holds.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { say } from "../../launch/step.mjs";
import { configurationKept } from "../faults/scenario.ts";
import { atMost, type Fact } from "../fixtures/measures/fact.ts";
import { assess, type Happened, isQuiet, settleMs } from "./expectations.ts";
import { type Fleet, startFleet } from "./fleet.ts";
import { type Forgetting, injects, needRoot } from "./injecting.ts";
import { Looking } from "./possessions.ts";
import { type Sample, takeSample } from "./samples.ts";
import { type FaultName, type Step, scheduleOf } from "./schedule.ts";
import { editedPolicy, kinds, type Second, Traffic } from "./traffic.ts";

export interface Options {
  readonly minutes: number;
  readonly seed: number;
  /** Whether packets can be dropped, which needs root. */
  readonly asRoot: boolean;
  /** Ends the soak early, without a result. */
  readonly signal: AbortSignal;
}

export interface Result {
  readonly date: string;
  readonly seed: number;
  readonly minutes: number;
  readonly leftOut: readonly FaultName[];
  readonly facts: readonly Fact[];
  /** Connections of clients that broke; their requests were sent once more. */
  readonly broken: number;
  readonly loadMemoryMb: number;
  readonly happened: readonly Happened[];
  readonly samples: readonly Sample[];
  /** Sums over all kinds of limit, by second. */
  readonly seconds: readonly Second[];
}

const digestEveryMs = 1000;
const sampleEveryMs = 3000;
/** Redis or a gateway may be unreachable when a sample is taken. */
const samplesWithinMs = 10_000;
const editEveryMs = 5000;

/** @returns undefined if it was ended early */
export async function soak({ minutes, seed, asRoot, signal }: Options): Promise<Result | undefined> {
  const stack = new AsyncDisposableStack();
  try {
    const fleet = await startFleet(stack, asRoot);
    const looking = new Looking();
    stack.defer(() => looking.stop());
    const traffic = new Traffic(fleet, await configure(fleet), minutes);
    stack.defer(() => traffic.stop());
    const beganMs = performance.now();
    const lengthMs = minutes * 60_000;
    const happened: Happened[] = [];
    const forgotten: Forgetting[] = [];
    const samples: Sample[] = [];
    const leftOut = asRoot ? [] : needRoot;
    const running = {
      fleet,
      looking,
      traffic,
      beganMs,
      happened,
      forgotten,
      samples,
      leftOut,
      count: { workersKilled: 0 },
      fault: false,
    };
    const beside = new AbortController();
    const ends = AbortSignal.any([signal, beside.signal]);
    const background = Promise.all([
      regularly(digestEveryMs, ends, async () => traffic.digest()),
      regularly(sampleEveryMs, ends, () => sample(running)),
      regularly(60_000, ends, async () => sayMinute(running)),
      regularly(editEveryMs, ends, editPolicies(fleet)),
    ]);
    try {
      await play(running, scheduleOf(seed, lengthMs), signal);
      await pause(beganMs + lengthMs - performance.now(), signal);
    } finally {
      beside.abort();
      await background;
    }
    if (signal.aborted) return undefined;
    const facts = [await configurationKept(fleet.system)];
    await traffic.stop();
    const { workersKilled } = running.count;
    facts.unshift(...assess({ minutes, traffic, happened, forgotten, samples, workersKilled }));
    facts.push(logFact(fleet));
    return {
      date: new Date().toISOString(),
      seed,
      minutes,
      leftOut,
      facts,
      broken: traffic.broken,
      loadMemoryMb: Math.round(process.memoryUsage().rss / 2 ** 20),
      happened,
      samples,
      seconds: together(traffic),
    };
  } finally {
    await stack.disposeAsync();
  }
}

interface Running {
  readonly fleet: Fleet;
  readonly looking: Looking;
  readonly traffic: Traffic;
  readonly beganMs: number;
  readonly happened: Happened[];
  readonly forgotten: Forgetting[];
  readonly samples: Sample[];
  readonly leftOut: readonly FaultName[];
  readonly count: { workersKilled: number };
  /** Whether a fault is being injected. */
  fault: boolean;
}

/** @returns a caller's token */
async function configure({ system }: Fleet): Promise<string> {
  for (const { policies } of kinds) for (const policy of policies) await system.put(policy);
  const { body } = await system.api("POST", "/tokens", { name: "soak", app: "default", role: "caller" });
  const { token } = JSON.parse(body) as { token: string };
  await system.put({ name: "last", match: { paths: ["/last"] }, limits: [{ algorithm: "concurrency", quota: 1 }] });
  return token;
}

async function play(running: Running, steps: readonly Step[], signal: AbortSignal): Promise<void> {
  const { beganMs, happened, leftOut } = running;
  for (const { atMs, lastsMs, faults } of steps) {
    await pause(beganMs + atMs - performance.now(), signal);
    if (signal.aborted) return;
    const injected = faults.filter((fault) => !leftOut.includes(fault));
    if (injected.length === 0) continue;
    const fromMs = performance.now() - beganMs;
    running.fault = true;
    const failures = await injectAll(running, injected, lastsMs);
    running.fault = false;
    const toMs = performance.now() - beganMs;
    happened.push({ fromMs, toMs, faults: injected, failures });
    const failed = failures.length === 0 ? "" : `: NOT INJECTED: ${failures.join("; ")}`;
    say(`${clock(fromMs)} ${injected.join(" + ")}, ${((toMs - fromMs) / 1000).toFixed(1)} s${failed}`);
  }
}

async function injectAll(
  { fleet, traffic, forgotten, count }: Running,
  faults: readonly FaultName[],
  lastsMs: number,
): Promise<string[]> {
  const loads = [...traffic.loads.values()];
  const outcomes = await Promise.allSettled(
    faults.map((fault) => injects[fault]({ fleet, loads, forgotten, count, lastsMs })),
  );
  return outcomes.flatMap((outcome, i) =>
    outcome.status === "rejected" ? [`${faults[i]}: ${(outcome.reason as Error).message.split("\n")[0]}`] : [],
  );
}

/** Takes a sample; one that cannot be taken is left out. */
async function sample({ fleet, looking, beganMs, happened, samples, fault }: Running): Promise<void> {
  const atMs = performance.now() - beganMs;
  const quiet = !fault && atMs > settleMs && isQuiet(happened, atMs, atMs);
  const taken = takeSample(fleet, looking, Math.round(atMs), quiet).catch(() => undefined);
  const sample = await Promise.race([taken, sleep(samplesWithinMs, undefined, { ref: false })]);
  if (sample !== undefined) samples.push(sample);
}

function sayMinute({ traffic, beganMs, samples }: Running): void {
  const last = samples.findLast(({ quiet }) => quiet);
  const memory = Object.entries(last?.roles ?? {}).map(
    ([role, { memoryKb }]) => `${role} ${Math.round(memoryKb / 1024)}`,
  );
  const [sent, failed, unanswered] = (["sent", "failed", "unanswered"] as const).map((field) => traffic.sumOf(field));
  say(
    `${clock(performance.now() - beganMs)} ${sent} requests, ${failed} 5xx, ${unanswered} unanswered, ` +
      `${traffic.broken} sent twice; MB: ${memory.join(", ")}`,
  );
}

/** Changes descriptions and adds policies, whatever else happens; the control plane may be unreachable. */
function editPolicies({ system }: Fleet): () => Promise<void> {
  let edits = 0;
  return async () => {
    const { name, ...document } = editedPolicy(edits++);
    await system.api("PUT", `/apps/default/policies/${name}`, document).catch(() => undefined);
  };
}

async function regularly(everyMs: number, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  for (;;) {
    await pause(everyMs, signal);
    if (signal.aborted) return;
    await act();
  }
}

/** Waits, and ends at once when the signal is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/** Counts unexpected errors of Lua or nginx. Workers that we kill appear in other lines. */
function logFact({ system }: Fleet): Fact {
  const unexpected = /lua entry thread aborted|stack traceback|failed to run|\[(?:emerg|crit)\]/;
  const lines = system.gateways.flatMap(({ directory }) =>
    readFileSync(join(directory, "error.log"), "utf8")
      .split("\n")
      .filter((line) => unexpected.test(line)),
  );
  if (lines.length > 0) say(`in a gateway's log: ${lines[0]}`);
  return atMost("errors of Lua or nginx in gateways' logs", 0, lines.length);
}

function together(traffic: Traffic): Second[] {
  const all: Second[] = [];
  for (const kind of kinds) {
    for (const [i, second] of traffic.secondsOf(kind).entries()) {
      const sum = all[i];
      if (sum === undefined) all.push({ ...second });
      else for (const field of Object.keys(second) as (keyof Second)[]) sum[field] += second[field];
    }
  }
  return all;
}

function clock(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${`${seconds % 60}`.padStart(2, "0")}`;
}
