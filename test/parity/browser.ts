// The code that the browser runs: the bundled limiter and the traces.

import { memoryPlayer } from "./memory-player.ts";
import { play, randomTrace } from "./trace.ts";

const player = memoryPlayer();

/** @returns a line per counter, as play.ts prints them */
export function digests(seed: number, family: number, first: number, counters: number, asks: number): string {
  const lines: string[] = [];
  for (let counter = first; counter < first + counters; counter++) {
    const { digest, asked, allowed } = play(player, randomTrace(seed, family, counter, asks), undefined);
    lines.push(`${digest} ${asked} ${allowed}`);
  }
  return lines.join("\n");
}

export function replay(trace: readonly number[]): number[][] {
  const reported: number[][] = [];
  play(player, trace, reported);
  return reported;
}
