// Times what takes less than nginx's cached clock can tell, whose steps are a millisecond.

import { sleepMs } from "./clock.ts";

interface Timespec {
  /** 64 bits: a number of Lua only by tonumber. */
  readonly seconds: unknown;
  readonly nanoseconds: unknown;
}

const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  "new"(this: void, type: string): Timespec;
  readonly C: { sluice_clock_gettime(this: void, clock: number, time: Timespec): number };
};

// A name of ours for the system's function: resty.core may have declared it in its own words.
ffi.cdef(`
  int sluice_clock_gettime(int clock, void *time) asm("clock_gettime");
`);

const realtime = 0;
const monotonic = 1;
const time = ffi.new("struct { long seconds; long nanoseconds; }");

/** Seconds since some moment, by a clock that nobody sets. */
export function stopwatchSeconds(): number {
  ffi.C.sluice_clock_gettime(monotonic, time);
  return (tonumber(time.seconds) as number) + (tonumber(time.nanoseconds) as number) / 1e9;
}

/** Seconds since the epoch, as the machine has them now. */
export function wallSeconds(): number {
  ffi.C.sluice_clock_gettime(realtime, time);
  return (tonumber(time.seconds) as number) + (tonumber(time.nanoseconds) as number) / 1e9;
}

/** What the stopwatch says, in whole µs. */
export function stopwatchUs(): number {
  ffi.C.sluice_clock_gettime(monotonic, time);
  return (tonumber(time.seconds) as number) * 1e6 + math.floor((tonumber(time.nanoseconds) as number) / 1000);
}

/**
 * Yields for so long at least: nginx' timers go by whole ms of its cached time, or by a clock of the kernel's that steps by
 * 4 ms, and end too early by as much.
 */
export function sleepAtLeastUs(us: number): void {
  const endUs = stopwatchUs() + us;
  let leftUs = us;
  do {
    // Of a cached time that is late, the timer would end as much too early.
    ngx.update_time();
    sleepMs(math.ceil(leftUs / 1000));
    leftUs = endUs - stopwatchUs();
  } while (leftUs > 0);
}
