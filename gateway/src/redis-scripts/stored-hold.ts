// A caller's hold in Redis: a string beside the counters, which expires when the last of its slots do.
//
//   32 bytes            of which policy and key, how many slots, and for how long the hold is
//   16 bytes            until when it is held unless it is renewed (µs since the epoch, in 16 digits); zeros: for as long as its slots live
//   32 bytes each limit which limit (16 bytes), and the moment that its slots were taken or last renewed in (µs since the epoch, in 16 digits)

import { concurrency } from "../../../limiter/src/algorithms/concurrency.ts";
import { refund } from "../../../limiter/src/algorithms/rate.ts";
import { counterAt, loadCounter, redisRing, saveCounter } from "./counter.ts";

declare const redis: {
  call(this: void, command: "GET", key: string): string | false;
  call(this: void, command: "SET", key: string, value: string, px: "PX", ms: string): void;
};

const markBytes = 32;
const limitBytes = 16;
const momentBytes = 16;
const momentsAt = markBytes + momentBytes;
const termsPerLimit = 3;

/** @returns undefined: nothing is held under this key, or something else */
export function loadHold(key: string, mark: string): string | undefined {
  const stored = redis.call("GET", key);
  return stored === false || string.sub(stored, 1, markBytes) !== mark ? undefined : stored;
}

/** @returns undefined: the hold has no slots of this limit, which came later */
export function heldAtUs(stored: string, limit: string): number | undefined {
  let moment: number | undefined;
  for (let at = momentsAt; at < stored.length; at += limitBytes + momentBytes) {
    if (string.sub(stored, at + 1, at + limitBytes) === limit) {
      moment = tonumber(string.sub(stored, at + limitBytes + 1, at + limitBytes + momentBytes)) as number;
    }
  }
  return moment;
}

export function heldText(limit: string, us: number): string {
  return limit + string.format("%016.0f", us);
}

/** @param ttlUs 0: for as long as its slots live */
export function untilText(nowUs: number, ttlUs: number): string {
  return string.format("%016.0f", ttlUs > 0 ? nowUs + ttlUs : 0);
}

/** Returns whether the hold has ended before its slots do. */
export function isOver(stored: string, nowUs: number): boolean {
  const untilUs = tonumber(string.sub(stored, markBytes + 1, momentsAt)) as number;
  return untilUs > 0 && nowUs >= untilUs;
}

/**
 * Forgets the hold, and frees the slots that the text says.
 *
 * @param argv from the second: slots, two more, for each limit its mark, quota and time to live
 */
export function freeSlots(keys: string[], argv: string[], text: string, nowUs: number): void {
  forgetHold(keys[0] as string);
  const slots = tonumber(argv[1]) as number;
  for (let i = 1; i < keys.length; i++) {
    const heldUs = heldAtUs(text, argv[i * termsPerLimit + 1] as string);
    if (heldUs !== undefined) {
      const quota = tonumber(argv[i * termsPerLimit + 2]) as number;
      const limit = concurrency(quota, tonumber(argv[i * termsPerLimit + 3]) as number);
      const state = counterAt(keys[i] as string);
      loadCounter(limit, state, nowUs);
      if (state.atUs > 0) {
        refund(limit, state, redisRing, nowUs, heldUs, slots);
        saveCounter(limit, state, nowUs);
      }
    }
  }
}

export function saveHold(key: string, text: string, lifeMs: string): void {
  redis.call("SET", key, text, "PX", lifeMs);
}

/** Gateways may have no right to delete keys: an empty one expires at once, and holds nothing until then. */
function forgetHold(key: string): void {
  redis.call("SET", key, "", "PX", "1");
}
