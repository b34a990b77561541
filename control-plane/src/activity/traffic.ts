// Decisions by name and time: by second for an hour, by minute for a day. Numbers of one name lie in chunks of sixty, which are made
// when there is something to count, so that memory is taken by what happened and not by how many policies there are. If more happened
// than there is room for, the oldest chunks give way: what goes on now is always counted.

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
/** A report about a longer time is spread over it. */
const longestMomentMs = 2_000;
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
  /** In the order in which they were made, so that the oldest come first. */
  readonly kept: Set<Kept>;
  /** The end of the last chunk that gave way to others. */
  lostUntilMs: number;
}

export class Traffic {
  readonly #series: Readonly<Record<Step, Series>> = { second: newSeries(), minute: newSeries() };
  readonly #mostChunks: number;

  /** @param mostChunks of seconds, and of minutes; each takes 1.2 KB */
  constructor(mostChunks: number) {
    this.#mostChunks = mostChunks;
  }

  /** Whether nothing that happened since then had to give way to what happened later. */
  isComplete(step: Step, sinceMs: number): boolean {
    return sinceMs >= this.#series[step].lostUntilMs;
  }

  /** Adds what was decided from `fromMs` to `toMs`. @param name of a policy, or of an app */
  add(name: string, fromMs: number, toMs: number, counts: TrafficCounts): void {
    for (const step of stepNames) {
      const middleMs = (fromMs + toMs) / 2;
      if (toMs - fromMs <= longestMomentMs) this.#spread(step, name, middleMs, middleMs, counts, 1);
      else {
        const startMs = Math.max(fromMs, toMs - steps[step].keptMs);
        this.#spread(step, name, startMs, toMs, counts, (toMs - startMs) / (toMs - fromMs));
      }
    }
  }

  /** Adds the counts of a whole minute without saying in which seconds. */
  addMinute(name: string, atMs: number, counts: TrafficCounts): void {
    this.#spread("minute", name, atMs, atMs, counts, 1);
  }

  /** Returns the seconds or minutes from `fromMs` until before `untilMs` in which something was decided, in order. */
  points(name: string, step: Step, fromMs: number, untilMs: number): TrafficPoint[] {
    const { ms } = steps[step];
    const points: TrafficPoint[] = [];
    const chunkMs = ms * pointsOfChunk;
    const chunks = [...(this.#series[step].chunks.get(name) ?? [])]
      .filter(([number]) => (number + 1) * chunkMs > fromMs && number * chunkMs < untilMs)
      .sort(([a], [b]) => a - b);
    for (const [number, counts] of chunks) {
      for (let i = 0; i < pointsOfChunk; i++) {
        const atMs = (number * pointsOfChunk + i) * ms;
        if (atMs < fromMs || atMs >= untilMs) continue;
        const at = i * trafficCounts.length;
        const [admitted = 0, refused = 0, shadowRefused = 0, delayed = 0, degraded = 0] = counts.subarray(
          at,
          at + trafficCounts.length,
        );
        if (admitted + refused + shadowRefused + delayed + degraded === 0) continue;
        points.push({ atMs, admitted, refused, shadowRefused, delayed, degraded });
      }
    }
    return points;
  }

  /** Returns the names of which something is kept, and that begin so. */
  names(beginning: string): string[] {
    return [...this.#series.minute.chunks.keys()].filter((name) => name.startsWith(beginning));
  }

  /** Returns what was decided in the minute at `atMs`, by name. */
  minute(atMs: number): [string, TrafficCounts][] {
    const names = [...this.#series.minute.chunks.keys()];
    return names.flatMap((name): [string, TrafficCounts][] => {
      const [point] = this.points(name, "minute", atMs, atMs + 1);
      return point === undefined ? [] : [[name, point]];
    });
  }

  /** Forgets what is older than is kept. */
  forget(nowMs: number): void {
    for (const step of stepNames) {
      const { ms, keptMs } = steps[step];
      const oldest = Math.floor((nowMs - keptMs) / ms / pointsOfChunk);
      for (const kept of this.#series[step].kept) if (kept.chunk < oldest) this.#drop(step, kept);
    }
  }

  /** Adds a part of the counts, evenly to all seconds or minutes from `fromMs` until before `toMs`. */
  #spread(step: Step, name: string, fromMs: number, toMs: number, counts: TrafficCounts, part: number): void {
    const { ms } = steps[step];
    const first = Math.floor(fromMs / ms);
    const places = Math.max(1, Math.ceil(toMs / ms) - first);
    // Thousands of reports about an hour may come at once, after an outage: a chunk is looked up once for all of its places.
    let number = Number.NaN;
    let chunk: Uint32Array = new Uint32Array();
    for (let i = 0; i < trafficCounts.length; i++) {
      const total = Math.round(counts[trafficCounts[i] as keyof TrafficCounts] * part);
      const filled = Math.min(total, places);
      let added = 0;
      for (let n = 1; n <= filled; n++) {
        const place = first + Math.ceil((n * places) / filled) - 1;
        const upTo = Math.floor((total * n) / filled);
        const at = place % pointsOfChunk;
        if ((place - at) / pointsOfChunk !== number) {
          number = (place - at) / pointsOfChunk;
          chunk = this.#chunkOf(step, name, number);
        }
        const index = at * trafficCounts.length + i;
        chunk[index] = Math.min(mostCounted, (chunk[index] as number) + upTo - added);
        added = upTo;
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
    chunks?.delete(kept.chunk);
    if (chunks?.size === 0) series.chunks.delete(kept.name);
  }
}

function newSeries(): Series {
  return { chunks: new Map(), kept: new Set(), lostUntilMs: 0 };
}
