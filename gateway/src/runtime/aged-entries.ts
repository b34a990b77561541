// Entries of shared memory that hold for some seconds. nginx itself forgets them by the machine's clock: if that steps back, they would hold
// for as much longer. So each has the time at which it was written by the stopwatch, in its flags. A step forward may end one early.

import { stopwatchSeconds } from "./stopwatch.ts";

/** Flags have 32 bits: enough for six years since the machine started. */
const ticksPerSecond = 10;

/** Like `safe_set`: evicts nothing. */
export function setAged(
  dict: SharedDict,
  key: string,
  value: string | number | boolean,
  lifeSeconds: number,
): undefined {
  dict.safe_set(key, value, lifeSeconds, nowTicks());
}

/** @param lifeSeconds as it was set; it lives for up to a tenth of a second longer */
export function getAged<Value extends string | number | boolean>(
  dict: SharedDict,
  key: string,
  lifeSeconds: number,
): Value | undefined {
  const [value, writtenTicks] = dict.get<Value>(key);
  if (value === undefined || nowTicks() - (writtenTicks ?? 0) > lifeSeconds * ticksPerSecond) return undefined;
  return value;
}

function nowTicks(): number {
  return math.floor(stopwatchSeconds() * ticksPerSecond);
}
