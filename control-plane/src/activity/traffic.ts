// Decisions by policy and time: by second for an hour, by minute for a day. Numbers of one policy lie in chunks of sixty, which are made
// when there is something to count, so that memory is taken by what happened and not by how many policies there are.

/** What is counted of a policy, in the order of their numbers in a chunk. */
export const trafficCounts = ["admitted", "refused", "shadowRefused", "delayed", "degraded"] as const;
export type TrafficCounts = Readonly<Record<(typeof trafficCounts)[number], number>>;

export type Step = "second" | "minute";

/** The traffic of one second or minute, which began at `atMs`. */
export interface TrafficPoint extends TrafficCounts {
  readonly atMs: number;
}

const steps = {
  second: { ms: 1_000, keptMs: 3_600_000 },
  minute: { ms: 60_000, keptMs: 86_400_000 },
} as const satisfies Record<Step, unknown>;

const pointsOfChunk = 60;
/** A chunk takes 1.2 KB: together they take 64 MB at most. */
export const defaultMostChunks = 50_000;
/** A report about a longer time is spread over its seconds. */
const longestMomentMs = 2_000;

/** By the number of the chunk, counted from 1970. */
type Chunks = Map<number, Uint32Array>;

interface Kept {
  readonly chunks: Chunks;
  readonly chunk: number;
}

export class Traffic {
  readonly #series = { second: new Map<string, Chunks>(), minute: new Map<string, Chunks>() };
  /** In the order in which they were made, so that the oldest come first. */
  readonly #kept: Record<Step, Kept[]> = { second: [], minute: [] };
  readonly #mostChunks: number;
  #chunks = 0;
  #isFull = false;

  constructor(mostChunks = defaultMostChunks) {
    this.#mostChunks = mostChunks;
  }

  /** Whether decisions of some policies are missing since the last hour, because there was no memory for them. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Adds what was decided from `fromMs` to `toMs`. @param name of a policy, or of an app */
  add(name: string, fromMs: number, toMs: number, counts: TrafficCounts): void {
    if (toMs - fromMs <= longestMomentMs) {
      this.#addAt(
        name,
        (fromMs + toMs) / 2,
        trafficCounts.map((what) => counts[what]),
      );
      return;
    }
    const startMs = Math.max(fromMs, toMs - steps.second.keptMs);
    const seconds = Math.ceil((toMs - startMs) / 1_000);
    const left = trafficCounts.map((what) => counts[what]);
    for (let i = 0; i < seconds; i++) {
      const share = left.map((count) => Math.round(count / (seconds - i)));
      for (const [place, count] of share.entries()) left[place] = (left[place] as number) - count;
      if (share.some((count) => count > 0)) this.#addAt(name, startMs + i * 1_000, share);
    }
  }

  /** Adds the counts of a whole minute without saying in which seconds. */
  addMinute(name: string, atMs: number, counts: TrafficCounts): void {
    this.#addTo(
      "minute",
      name,
      atMs,
      trafficCounts.map((what) => counts[what]),
    );
  }

  /** Returns the seconds or minutes from `fromMs` until before `untilMs` in which something was decided, in order. */
  points(name: string, step: Step, fromMs: number, untilMs: number): TrafficPoint[] {
    const { ms } = steps[step];
    const points: TrafficPoint[] = [];
    const chunks = this.#series[step].get(name);
    for (const [number, counts] of [...(chunks ?? [])].sort(([a], [b]) => a - b)) {
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

  /** Returns the names of which something was decided in the minute at `atMs`. */
  namesOfMinute(atMs: number): string[] {
    return [...this.#series.minute.keys()].filter((name) => this.points(name, "minute", atMs, atMs + 1).length > 0);
  }

  /** Forgets what is older than is kept. */
  forget(nowMs: number): void {
    for (const step of ["second", "minute"] as const) {
      const { ms, keptMs } = steps[step];
      const oldest = Math.floor((nowMs - keptMs) / ms / pointsOfChunk);
      const kept = this.#kept[step];
      const gone = kept.filter(({ chunk }) => chunk < oldest);
      for (const { chunks, chunk } of gone) if (chunks.delete(chunk)) this.#chunks -= 1;
      if (gone.length > 0) this.#kept[step] = kept.filter(({ chunk }) => chunk >= oldest);
      for (const [name, chunks] of this.#series[step]) if (chunks.size === 0) this.#series[step].delete(name);
    }
    if (this.#chunks < this.#mostChunks) this.#isFull = false;
  }

  #addAt(name: string, atMs: number, counts: readonly number[]): void {
    this.#addTo("second", name, atMs, counts);
    this.#addTo("minute", name, atMs, counts);
  }

  #addTo(step: Step, name: string, atMs: number, counts: readonly number[]): void {
    const place = Math.floor(atMs / steps[step].ms);
    const chunk = this.#chunkOf(step, name, Math.floor(place / pointsOfChunk));
    if (chunk === undefined) return;
    const at = (place % pointsOfChunk) * trafficCounts.length;
    for (const [i, count] of counts.entries()) chunk[at + i] = (chunk[at + i] as number) + count;
  }

  #chunkOf(step: Step, name: string, chunk: number): Uint32Array | undefined {
    const series = this.#series[step];
    const known = series.get(name)?.get(chunk);
    if (known !== undefined) return known;
    if (this.#chunks >= this.#mostChunks) {
      this.#isFull = true;
      return undefined;
    }
    const chunks: Chunks = series.get(name) ?? new Map();
    const made = new Uint32Array(pointsOfChunk * trafficCounts.length);
    series.set(name, chunks.set(chunk, made));
    this.#kept[step].push({ chunks, chunk });
    this.#chunks += 1;
    return made;
  }
}
