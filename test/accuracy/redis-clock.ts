// Redis' clock beside that of this process: windows begin and end by Redis'.

import { Redis } from "ioredis";

const asks = 50;

export interface RedisClock {
  /** What Redis' clock is ahead of `performance.now()`. */
  readonly aheadMs: number;
  /** By how much it may be more or less. */
  readonly doubtMs: number;
}

/** Asks for the time again and again; the quickest answer tells it best. */
export async function readRedisClock(url: string): Promise<RedisClock> {
  const client = new Redis(url);
  try {
    let best = { aheadMs: 0, doubtMs: Number.POSITIVE_INFINITY };
    for (let ask = 0; ask < asks; ask++) {
      const sentAtMs = performance.now();
      const [seconds, us] = await client.time();
      const answeredAtMs = performance.now();
      const doubtMs = (answeredAtMs - sentAtMs) / 2;
      if (doubtMs >= best.doubtMs) continue;
      best = { aheadMs: Number(seconds) * 1000 + Number(us) / 1000 - (sentAtMs + answeredAtMs) / 2, doubtMs };
    }
    return best;
  } finally {
    client.disconnect();
  }
}

/** One clock for the time between two readings, whose doubt holds both. */
export function between(before: RedisClock, after: RedisClock): RedisClock {
  const from = Math.min(before.aheadMs - before.doubtMs, after.aheadMs - after.doubtMs);
  const to = Math.max(before.aheadMs + before.doubtMs, after.aheadMs + after.doubtMs);
  return { aheadMs: (from + to) / 2, doubtMs: (to - from) / 2 };
}
