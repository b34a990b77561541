// Finds the shortest trace on which two runtimes differ, and describes it in words.

import fc from "fast-check";
import type { Runtime } from "./runtimes.ts";
import {
  algorithms,
  ask,
  edit,
  numbersOfEvent,
  numbersOfLimit,
  numbersReported,
  peek,
  refund,
  renew,
} from "./trace.ts";

interface TraceLimit {
  readonly algorithm: number;
  readonly quota: number;
  readonly windowMs: number;
  /** The burst of a bucket, or the number of blocks of a sliding-window. */
  readonly size: number;
  /** Only those of a shaped-bucket matter. */
  readonly initial: number;
  readonly warmUpMs: number;
}

type TraceEvent = readonly [kind: number, a: number, b: number, c: number];

interface Story {
  readonly startUs: number;
  readonly limits: readonly TraceLimit[];
  readonly events: readonly TraceEvent[];
}

const slidingWindow = algorithms.indexOf("sliding-window");
const maxUnits = 2 ** 31;
const longestWindowMs = 366 * 86_400_000;
const earliestUs = 1_500_000_000_000_000;
/** A candidate takes some ms, because two runtimes play it. */
const longestMs = 60_000;

export interface Difference {
  /** The shortest trace that shows the difference. */
  readonly trace: readonly number[];
  /** What each runtime reports on it. */
  readonly words: string;
}

/** @param trace a long trace on which they differ */
export async function shortestDifference(node: Runtime, other: Runtime, trace: readonly number[]): Promise<Difference> {
  const first = await firstDifference(node, other, trace);
  if (first === undefined) {
    return { trace, words: `${other.name} differs from node, but no longer when asked again: ${trace}` };
  }
  let shortest = storyOf(trace);
  shortest = { ...shortest, events: shortest.events.slice(0, first + 1) };
  const deadline = Date.now() + longestMs;
  const differs = async (story: Story) =>
    Date.now() < deadline && isLegal(story) && (await firstDifference(node, other, traceOf(story))) !== undefined;
  shortest = await inRoundNumbers(await withoutNeedless(shortest, differs), differs);
  const property = fc.asyncProperty(stories(shortest), async (story) => {
    if (!(await differs(story))) return;
    shortest = story;
    throw new Error("they differ");
  });
  await fc.check(property, { examples: [[shortest]], numRuns: 1 });
  return { trace: traceOf(shortest), words: await reportedNumbers(node, other, shortest) };
}

/**
 * Leaves out events, halves of the list first and single ones last. The others keep their moments, and the asks that they
 * refund: fast-check would leave out one at a time, so that everything after it came sooner and meant another ask.
 */
async function withoutNeedless(story: Story, differs: (story: Story) => Promise<boolean>): Promise<Story> {
  let shortest = story;
  for (let size = Math.ceil(story.events.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = shortest.events.length - size; at >= 0; ) {
      const shorter = without(shortest, at, size);
      if (await differs(shorter)) shortest = shorter;
      at = Math.min(at - 1, shortest.events.length - size);
    }
  }
  return shortest;
}

/** Makes windows a round length, from 1 ms up, and all steps as much shorter: fast-check would shrink one number at a time. */
async function inRoundNumbers(story: Story, differs: (story: Story) => Promise<boolean>): Promise<Story> {
  const shortestMs = Math.min(...story.limits.map(({ windowMs }) => windowMs));
  for (let ms = 1; ms < shortestMs; ms *= 10) {
    const scale = (number: number) => Math.round((number * ms) / shortestMs);
    const limits = story.limits.map((limit) => {
      const blocks = limit.algorithm === slidingWindow ? limit.size : 1;
      return { ...limit, windowMs: Math.ceil(scale(limit.windowMs) / blocks) * blocks };
    });
    const events = story.events.map(([kind, a, b, c]): TraceEvent => [kind, kind === edit ? a : scale(a) + 0, b, c]);
    for (const startUs of [earliestUs, story.startUs]) {
      const rounder = { startUs, limits, events };
      if (await differs(rounder)) return rounder;
    }
  }
  return story;
}

function without({ events, ...rest }: Story, at: number, count: number): Story {
  const isLeftOut = (i: number) => i >= at && i < at + count;
  const kept: TraceEvent[] = [];
  let missedUs = 0;
  for (const [i, [kind, a, b, c]] of events.entries()) {
    if (kind === edit) {
      if (!isLeftOut(i)) kept.push([kind, a, b, c]);
    } else if (isLeftOut(i)) {
      missedUs += a;
    } else {
      let back = b;
      if (kind === refund || kind === renew) {
        const asks = [...events.keys()].filter((k) => k < i && events[k]?.[0] === ask).slice(-b);
        back = Math.max(1, asks.filter((k) => !isLeftOut(k)).length);
      }
      kept.push([kind, a + missedUs, back, c]);
      missedUs = 0;
    }
  }
  return { ...rest, events: kept };
}

/** Everything that shrinking may turn the story into: fewer events, smaller numbers. */
function stories({ limits }: Story): fc.Arbitrary<Story> {
  const units = fc.integer({ min: 1, max: maxUnits });
  const afterUs = fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER });
  const back = fc.integer({ min: 1, max: 200 });
  const nothing = fc.constant(0);
  const event = fc.oneof(
    fc.tuple(fc.constant(ask), afterUs, units, nothing),
    fc.tuple(fc.constant(peek), afterUs, units, nothing),
    fc.tuple(fc.constant(refund), afterUs, back, nothing),
    fc.tuple(fc.constant(renew), afterUs, back, nothing),
    fc.tuple(fc.constant(edit), fc.integer({ min: 0, max: limits.length - 1 }), units, units),
  );
  const limit = fc.record({
    algorithm: fc.constantFrom(...new Set(limits.map(({ algorithm }) => algorithm))),
    quota: units,
    windowMs: fc.integer({ min: 1, max: longestWindowMs }),
    size: units,
    initial: fc.integer({ min: 0, max: maxUnits }),
    warmUpMs: fc.oneof(nothing, fc.integer({ min: 1_000, max: 86_400_000 })),
  });
  return fc.record({
    startUs: fc.integer({ min: earliestUs, max: Number.MAX_SAFE_INTEGER }),
    limits: fc.array(limit, { minLength: 1, maxLength: 4 }),
    events: fc.array(event, { maxLength: 2_000 }),
  });
}

/** Returns whether the story is like a random trace: blocks of whole ms or ten of them, no step of 2^31 windows (`randomTrace`). */
function isLegal({ limits, events }: Story): boolean {
  const shortestUs = Math.min(...limits.map(({ windowMs }) => windowMs)) * 1_000;
  return (
    limits.every(
      ({ algorithm, windowMs, size }) => algorithm !== slidingWindow || size === 10 || windowMs % size === 0,
    ) && events.every(([kind, afterUs]) => kind === edit || Math.abs(afterUs) < shortestUs * 2 ** 30)
  );
}

function storyOf(trace: readonly number[]): Story {
  const [startUs = 0, count = 0] = trace;
  const eventsAt = 2 + count * numbersOfLimit;
  const limits = rowsOf(trace.slice(2, eventsAt), numbersOfLimit).map(
    ([algorithm = 0, quota = 1, windowUs = 0, size = 1, initial = 0, warmUpUs = 0]) => ({
      algorithm,
      quota,
      windowMs: windowUs / 1_000,
      size: algorithm === slidingWindow ? windowUs / size : size,
      initial,
      warmUpMs: warmUpUs / 1_000,
    }),
  );
  // Adding 0 removes -0, which fast-check never makes.
  const events = rowsOf(trace.slice(eventsAt), numbersOfEvent).map(
    (row) => row.map((number) => number + 0) as unknown as TraceEvent,
  );
  return { startUs, limits, events };
}

function rowsOf(numbers: readonly number[], length: number): number[][] {
  const rows: number[][] = [];
  for (let at = 0; at < numbers.length; at += length) rows.push(numbers.slice(at, at + length));
  return rows;
}

function traceOf({ startUs, limits, events }: Story): number[] {
  const numbers = limits.flatMap(({ algorithm, quota, windowMs, size, initial, warmUpMs }) => [
    algorithm,
    quota,
    windowMs * 1_000,
    algorithm === slidingWindow ? (windowMs * 1_000) / size : size,
    initial,
    warmUpMs * 1_000,
  ]);
  return [startUs, limits.length, ...numbers, ...events.flat()];
}

/** @returns the index of the first event on which they differ, or of the last if the other one fails */
export async function firstDifference(
  node: Runtime,
  other: Runtime,
  trace: readonly number[],
): Promise<number | undefined> {
  const [expected, got] = await Promise.all([node.replay(trace), answersOf(other, trace)]);
  const index = expected.findIndex((numbers, i) => `${numbers}` !== `${got[i]}`);
  return index < 0 ? undefined : got.length === 0 ? expected.length - 1 : index;
}

/** @returns no answers if the runtime fails */
function answersOf(runtime: Runtime, trace: readonly number[], failed?: (error: Error) => void): Promise<number[][]> {
  return runtime.replay(trace).catch((error: Error) => {
    failed?.(error);
    return [];
  });
}

async function reportedNumbers(node: Runtime, other: Runtime, story: Story): Promise<string> {
  const { startUs, limits, events } = story;
  const trace = traceOf(story);
  let failure = "";
  const got = await answersOf(other, trace, ({ message }) => {
    failure = `  ${other.name} fails: ${message.trim()}`;
  });
  const expected = await node.replay(trace);
  const lines = [`${other.name} differs from node. The shortest trace that shows it begins at ${startUs} µs:`];
  for (const { algorithm, quota, windowMs, size, initial, warmUpMs } of limits) {
    const name = algorithms[algorithm] as string;
    const more = name.endsWith("bucket") ? `, burst ${size}` : algorithm === slidingWindow ? `, in ${size} blocks` : "";
    const shape = name === "shaped-bucket" ? `, initial ${initial}, warmUp ${warmUpMs} ms` : "";
    lines.push(`  ${name}: ${quota} per ${windowMs} ms${more}${shape}`);
  }
  for (const [i, event] of events.entries()) {
    const here = expected[i] as number[];
    const there = got[i] ?? [];
    lines.push(`  ${eventInWords(event)}`);
    if (failure !== "") {
      lines.push(`      node:  ${answerInWords(event, here, limits.length)}`);
    } else if (`${here}` === `${there}`) {
      lines.push(`      both:  ${answerInWords(event, here, limits.length)}`);
    } else {
      lines.push(`      node:  ${answerInWords(event, here, limits.length)}`);
      lines.push(`      ${other.name}:  ${answerInWords(event, there, limits.length)}`);
    }
  }
  if (failure !== "") lines.push(failure);
  return lines.join("\n");
}

function eventInWords([kind, a, b, c]: TraceEvent): string {
  if (kind === edit) return `limit ${a + 1} becomes quota ${b}, burst ${c}`;
  const when = `${a < 0 ? "" : "+"}${a} µs`;
  if (kind === ask) return `${when}: ask ${b}`;
  if (kind === peek) return `${when}: peek ${b}`;
  const charged = `what was asked ${b === 1 ? "last" : `${b} asks ago`}`;
  return kind === refund ? `${when}: refund ${charged}` : `${when}: renew ${charged}`;
}

function answerInWords([kind]: TraceEvent, numbers: readonly number[], limits: number): string {
  const words: string[] = [];
  let at = 0;
  if (kind === ask) words.push(numbers[at++] === 1 ? "allowed" : "refused");
  if (kind === ask || kind === peek) {
    for (let i = 0; i < limits; i++) {
      const [own, remaining, retryUs, resetUs, delayUs] = numbers.slice(at, at + numbersReported);
      at += numbersReported;
      const said = kind === ask && limits === 1 ? "" : own === 1 ? "admits, " : "refuses, ";
      const delay = delayUs === 0 ? "" : `, delay ${delayUs}`;
      words.push(`${said}remaining ${remaining}, retry after ${retryUs}, reset after ${resetUs}${delay}`);
    }
  }
  if (kind === renew && numbers.length > at) {
    // A renewal of nothing reports nothing, so that only the stored numbers follow.
    let rest = at;
    for (let i = 0; i < limits && rest < numbers.length; i++) rest += 1 + (numbers[rest] as number);
    if (rest !== numbers.length) words.push(numbers[at++] === -1 ? "lost" : "held");
  }
  for (let i = 0; i < limits; i++) {
    const length = numbers[at] as number;
    const [atUs, count, ...entries] = numbers.slice(at + 1, at + 1 + length);
    at += 1 + length;
    const pairs: string[] = [];
    for (let k = 0; k < entries.length; k += 2) pairs.push(`[${entries[k]}, ${entries[k + 1]}]`);
    words.push(`stored [${atUs}, ${count}]${pairs.length > 0 ? ` after ${pairs.join(" ")}` : ""}`);
  }
  return words.join("; ");
}
