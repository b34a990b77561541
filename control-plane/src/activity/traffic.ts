// Decisions by name and time: by second for an hour, by minute for a day. Numbers of one name lie in chunks of sixty, which are made
// when there is something to count, so that memory is taken by what happened and not by how many policies there are. If more happened
// than there is room for, the oldest chunks give way: what goes on now is always counted. Reports about long times lie beside them.

import { type LongReport, LongReports, shareOf, upTo } from "./long-reports.ts";

/** What is counted, in the order of their numbers in a chunk. */
export const trafficCounts = ["admitted", "refused", "shadowRefused", "delayed", "degraded"] as const;
export type TrafficCounts = Readonly<Record<(typeof trafficCounts)[number], number>>;

export type Step = "second" | "minute";

/** The traffic of one second or minute, which began at `atMs`. */
export interface TrafficPoint extends TrafficCounts {
  readonly atMs: number;
}

const stepNames = ["second", "minute"] as const;
const steps = {
  second: { ms: 1_000, keptMs: 3_600_000 },
  minute: { ms: 60_000, keptMs: 86_400_000 },
} as const satisfies Record<Step, unknown>;

const pointsOfChunk = 60;
/** What happens is counted in the middle of the report that it is in. A report about a longer time is spread over it. */
const longestMomentMs = 2_000;
/** A report about a longer time is spread when it is read: it would fill a chunk for each hour of its time, and for each minute. */
const longestSpreadMs = 60_000;
/** More does not fit into a number of a chunk. */
const mostCounted = 2 ** 32 - 1;

/** By the number of the chunk, counted from 1970. */
type Chunks = Map<number, Uint32Array>;

interface Kept {
  readonly name: string;
  readonly chunk: number;
}

interface Series {
  readonly chunks: Map<string, Chunks>;
  /** By the number of a chunk: the names that have it. */
  readonly names: Map<number, Set<string>>;
  /** In the order in which they were made, so that the oldest come first. */
  readonly kept: Set<Kept>;
  /** The end of the last of what gave way to others, or was lost otherwise. */
  lostUntilMs: number;
  /** What was before is forgotten. */
  keptFromMs: number;
}

export class Traffic {
  readonly #series: Readonly<Record<Step, Series>> = { second: newSeries(), minute: newSeries() };
  readonly #long: LongReports;
  readonly #mostChunks: number;

  /** @param mostChunks of seconds, and of minutes; each takes 1.2 KB. Half as many names may have long reports */
  constructor(mostChunks: number) {
    this.#mostChunks = mostChunks;
    this.#long = new LongReports(Math.ceil(mostChunks / 2));
  }

  /** Whether nothing that happened since then had to give way to what happened later, or was lost otherwise. */
  isComplete(step: Step, sinceMs: number): boolean {
    return sinceMs >= this.#series[step].lostUntilMs;
  }

  noteLost(untilMs: number): void {
    for (const step of stepNames) {
      const series = this.#series[step];
      series.lostUntilMs = Math.max(series.lostUntilMs, untilMs);
    }
  }

  /** Adds what was decided from `fromMs` to `toMs`. @param name of a policy, or of an app */
  add(name: string, fromMs: number, toMs: number, counts: TrafficCounts): void {
    if (toMs - fromMs > longestSpreadMs) {
      this.#addLong(name, { fromMs, toMs, counts: trafficCounts.map((what) => counts[what]) });
      return;
    }
    const middleMs = (fromMs + toMs) / 2;
    const isMoment = toMs - fromMs <= longestMomentMs;
    for (const step of stepNames) {
      if (isMoment) this.#spread(step, name, middleMs, middleMs, counts);
      else this.#spread(step, name, fromMs, toMs, counts);
    }
  }

  /** Adds the counts of a whole minute without saying in which seconds. */
  addMinute(name: string, atMs: number, counts: TrafficCounts): void {
    this.#spread("minute", name, atMs, atMs, counts);
  }

  /** Returns the seconds or minutes from `fromMs` until before `untilMs` in which something was decided, in order. */
  points(name: string, step: Step, fromMs: number, untilMs: number): TrafficPoint[] {
    const { ms } = steps[step];
    const sums = new Map<number, number[]>();
    for (const [first, counts] of this.#chunksOf(name, step, fromMs, untilMs)) {
      for (let i = 0; i < pointsOfChunk; i++) {
        const atMs = (first + i) * ms;
        if (atMs < fromMs || atMs >= untilMs) continue;
        const at = i * trafficCounts.length;
        sums.set(first + i, [...counts.subarray(at, at + trafficCounts.length)]);
      }
    }
    for (const { first, places, counts, from, until } of this.#longOf(name, step, fromMs, untilMs)) {
      for (let place = from; place < until; place++) {
        const sum = sums.get(place) ?? [];
        sums.set(
          place,
          counts.map((total, i) => (sum[i] ?? 0) + shareOf(total, place - first, places)),
        );
      }
    }
    return [...sums]
      .filter(([, counts]) => counts.some((count) => count > 0))
      .sort(([a], [b]) => a - b)
      .map(([place, counts]) => ({ atMs: place * ms, ...namedCounts(counts) }));
  }

  /** Returns the sums of what `points` returns, which cost less. */
  sum(name: string, step: Step, fromMs: number, untilMs: number): TrafficCounts {
    const { ms } = steps[step];
    const sums: number[] = Array(trafficCounts.length).fill(0);
    const add = (i: number, count: number) => {
      sums[i] = (sums[i] as number) + count;
    };
    for (const [first, counts] of this.#chunksOf(name, step, fromMs, untilMs)) {
      const from = Math.max(0, Math.ceil(fromMs / ms) - first);
      const until = Math.min(pointsOfChunk, Math.ceil(untilMs / ms) - first);
      for (let at = from * trafficCounts.length; at < until * trafficCounts.length; at++) {
        add(at % trafficCounts.length, counts[at] as number);
      }
    }
    for (const { first, places, counts, from, until } of this.#longOf(name, step, fromMs, untilMs)) {
      for (const [i, total] of counts.entries()) {
        add(i, upTo(total, until - first, places) - upTo(total, from - first, places));
      }
    }
    return namedCounts(sums);
  }

  /** Returns the names of which something is kept, and that begin so. */
  names(beginning: string): string[] {
    const all = new Set([...this.#series.minute.chunks.keys(), ...this.#long.names()]);
    return [...all].filter((name) => name.startsWith(beginning));
  }

  /** Returns the names of which something may have happened in the minute. */
  namesInMinute(atMs: number): Set<string> {
    const { ms } = steps.minute;
    const ofChunk = this.#series.minute.names.get(Math.floor(atMs / ms / pointsOfChunk)) ?? [];
    return new Set([...ofChunk, ...this.#long.names()]);
  }

  /** Forgets what is older than is kept, but no minutes from `minutesFromMs` on. */
  forget(nowMs: number, minutesFromMs = nowMs): void {
    for (const step of stepNames) {
      const { ms } = steps[step];
      const series = this.#series[step];
      const untilMs = Math.min(keptSinceMs(step, nowMs), step === "minute" ? minutesFromMs : nowMs);
      const oldest = Math.floor(untilMs / ms / pointsOfChunk);
      for (const kept of series.kept) if (kept.chunk < oldest) this.#drop(step, kept);
      series.keptFromMs = oldest * pointsOfChunk * ms;
    }
    this.#long.forget(this.#series.minute.keptFromMs);
  }

  #addLong(name: string, report: LongReport): void {
    for (const { toMs } of this.#long.add(name, report)) this.noteLost(toMs);
  }

  /** Yields the chunks of this time, in no order: the number of the first second or minute in one, and its counts. */
  *#chunksOf(name: string, step: Step, fromMs: number, untilMs: number): Generator<[number, Uint32Array]> {
    const chunkMs = steps[step].ms * pointsOfChunk;
    for (const [number, counts] of this.#series[step].chunks.get(name) ?? []) {
      if ((number + 1) * chunkMs > fromMs && number * chunkMs < untilMs) yield [number * pointsOfChunk, counts];
    }
  }

  /** Yields the long reports about this time: over how many seconds or minutes they are spread, and which of them are of this time. */
  *#longOf(name: string, step: Step, fromMs: number, untilMs: number) {
    const { ms, keptMs } = steps[step];
    const sinceMs = Math.max(fromMs, this.#series[step].keptFromMs);
    for (const report of this.#long.of(name)) {
      const startMs = Math.max(report.fromMs, report.toMs - keptMs);
      const first = Math.floor(startMs / ms);
      const places = Math.ceil(report.toMs / ms) - first;
      const from = Math.max(first, Math.ceil(sinceMs / ms));
      const until = Math.min(first + places, Math.ceil(untilMs / ms));
      if (from >= until) continue;
      const part = (report.toMs - startMs) / (report.toMs - report.fromMs);
      yield { first, places, counts: report.counts.map((count) => Math.round(count * part)), from, until };
    }
  }

  /** Adds the counts evenly to all seconds or minutes from `fromMs` until before `toMs`. */
  #spread(step: Step, name: string, fromMs: number, toMs: number, counts: TrafficCounts): void {
    const { ms } = steps[step];
    const first = Math.floor(fromMs / ms);
    const places = Math.max(1, Math.ceil(toMs / ms) - first);
    const totals = trafficCounts.map((what) => counts[what]);
    // A chunk is looked up once for all of its places.
    let number = Number.NaN;
    let chunk: Uint32Array = new Uint32Array();
    for (let n = 0; n < places; n++) {
      const at = (first + n) % pointsOfChunk;
      for (let i = 0; i < totals.length; i++) {
        const share = shareOf(totals[i] as number, n, places);
        if (share === 0) continue;
        if ((first + n - at) / pointsOfChunk !== number) {
          number = (first + n - at) / pointsOfChunk;
          chunk = this.#chunkOf(step, name, number);
        }
        const index = at * trafficCounts.length + i;
        chunk[index] = Math.min(mostCounted, (chunk[index] as number) + share);
      }
    }
  }

  #chunkOf(step: Step, name: string, chunk: number): Uint32Array {
    const series = this.#series[step];
    const known = series.chunks.get(name)?.get(chunk);
    if (known !== undefined) return known;
    this.#makeRoom(step);
    const chunks: Chunks = series.chunks.get(name) ?? new Map();
    const made = new Uint32Array(pointsOfChunk * trafficCounts.length);
    series.chunks.set(name, chunks.set(chunk, made));
    series.kept.add({ name, chunk });
    series.names.set(chunk, (series.names.get(chunk) ?? new Set()).add(name));
    return made;
  }

  #makeRoom(step: Step): void {
    const series = this.#series[step];
    if (series.kept.size < this.#mostChunks) return;
    for (const oldest of series.kept) {
      series.lostUntilMs = Math.max(series.lostUntilMs, (oldest.chunk + 1) * pointsOfChunk * steps[step].ms);
      this.#drop(step, oldest);
      return;
    }
  }

  #drop(step: Step, kept: Kept): void {
    const series = this.#series[step];
    const chunks = series.chunks.get(kept.name);
    series.kept.delete(kept);
    const names = series.names.get(kept.chunk);
    names?.delete(kept.name);
    if (names?.size === 0) series.names.delete(kept.chunk);
    chunks?.delete(kept.chunk);
    if (chunks?.size === 0) series.chunks.delete(kept.name);
  }
}

/** Returns when the counts of an app begin that was created then: earlier ones belong to a deleted app of the same name. */
export function countedSinceMs(createdAtMs: number, step: Step): number {
  return beginningOf(step, createdAtMs - longestMomentMs);
}

export function beginningOf(step: Step, atMs: number): number {
  return atMs - (atMs % steps[step].ms);
}

/** Returns the time of which seconds or minutes are kept. */
export function keptSinceMs(step: Step, nowMs: number): number {
  return nowMs - steps[step].keptMs;
}

function newSeries(): Series {
  return { chunks: new Map(), names: new Map(), kept: new Set(), lostUntilMs: 0, keptFromMs: 0 };
}

export function namedCounts([
  admitted = 0,
  refused = 0,
  shadowRefused = 0,
  delayed = 0,
  degraded = 0,
]: readonly number[]): TrafficCounts {
  return { admitted, refused, shadowRefused, delayed, degraded };
}
