// The clock for everything that lasts: pauses, deadlines, ages. Nobody sets it, so that no step of the machine's clock makes a pause last
// an hour, and all workers of a machine read the same. It also measures times shorter than a millisecond, which nginx's cached clock cannot.

import { sleepMs } from "./clock.ts";

interface Timespec {
  /** A 64-bit value, which tonumber makes a Lua number. */
  readonly seconds: unknown;
  readonly nanoseconds: unknown;
}

const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  "new"(this: void, type: string): Timespec;
  readonly C: { sluice_clock_gettime(this: void, clock: number, time: Timespec): number };
};

// The system's function gets a name of its own here: resty.core may have declared it with another signature.
ffi.cdef(`
  int sluice_clock_gettime(int clock, void *time) asm("clock_gettime");
`);

const realtime = 0;
const monotonic = 1;
/** Linux's number. Another system refuses it, and the time stays what it was. */
const threadCpu = 3;
const time = ffi.new("struct { long seconds; long nanoseconds; }");

/** Seconds since an unspecified moment, by a clock that nobody sets. */
export function stopwatchSeconds(): number {
  ffi.C.sluice_clock_gettime(monotonic, time);
  return (tonumber(time.seconds) as number) + (tonumber(time.nanoseconds) as number) / 1e9;
}

/** Seconds since the epoch by the machine's clock, read now and not cached. */
export function wallSeconds(): number {
  ffi.C.sluice_clock_gettime(realtime, time);
  return (tonumber(time.seconds) as number) + (tonumber(time.nanoseconds) as number) / 1e9;
}

/** The CPU that this worker has used, in seconds. */
export function ownCpuSeconds(): number {
  ffi.C.sluice_clock_gettime(threadCpu, time);
  return (tonumber(time.seconds) as number) + (tonumber(time.nanoseconds) as number) / 1e9;
}

/** The time of the stopwatch in whole ms. */
export function stopwatchMs(): number {
  return math.floor(stopwatchUs() / 1000);
}

/** The time of the stopwatch in whole µs. */
export function stopwatchUs(): number {
  ffi.C.sluice_clock_gettime(monotonic, time);
  return (tonumber(time.seconds) as number) * 1e6 + math.floor((tonumber(time.nanoseconds) as number) / 1000);
}

/**
 * Yields for at least this long. nginx's timers use whole milliseconds of its cached time, or a kernel clock with steps of 4 ms,
 * and may fire that much too early.
 */
export function sleepAtLeastUs(us: number): void {
  const endUs = stopwatchUs() + us;
  let leftUs = us;
  do {
    // If the cached time were late, the timer would fire too early by that amount.
    ngx.update_time();
    sleepMs(math.ceil(leftUs / 1000));
    leftUs = endUs - stopwatchUs();
  } while (leftUs > 0);
}
