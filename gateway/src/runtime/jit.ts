// Settings of LuaJIT's compiler where the defaults do not suit a decision.

import { stopwatchSeconds } from "./stopwatch.ts";

declare namespace jit {
  function off(this: void, compiled: (this: void, ...args: never[]) => void): void;
  function attach(this: void, listener: (this: void, what: string) => void, event: "trace"): void;
  namespace opt {
    function start(this: void, ...settings: string[]): void;
  }
}

declare function setmetatable<T>(this: void, table: T, metatable: object): T;

let roomForTraces = 1000;
/** The default limit of OpenResty's LuaJIT. */
const mostTraces = 8000;
/** In one minute. */
const manyFlushes = 3;
/** How often LuaJIT has flushed all traces in the current minute. */
let flushes = 0;
let lookedAtSeconds = 0;

/** A read with the argument as the key calls a function. */
export type TraceBorder<Argument extends AnyNotNil> = LuaTable<Argument, undefined>;

/**
 * Changes settings for all Lua code of this nginx. Called in init_by_lua if the operator wants this.
 *
 * All code that a decision runs from the dict's get to its set has to fit into one trace. Two limits of LuaJIT are too low for
 * that: 500 constants, and 15 tail calls, which count as iterations of an unrolled loop. If LuaJIT aborts a trace, the code that
 * leads to it stays interpreted for good.
 *
 * Traces of this length have thousands of exits, and LuaJIT compiles a side trace for each exit that was taken ten times. Exits
 * that faults and refusals take once a second made a worker grow by a MB a minute for hours. So the threshold is 200, the highest
 * count that LuaJIT supports. At 1,000 traces LuaJIT flushes all of them; this is LuaJIT's own default, while OpenResty's is
 * 8,000. So a worker's memory is bounded. A steady load has some 500 traces. For an nginx with so much other Lua code that more
 * are in use, see `makeRoomForTraces`.
 */
export function suitDecisions(): void {
  jit.opt.start("maxirconst=2000", "loopunroll=200", "hotexit=200", `maxtrace=${roomForTraces}`);
  jit.attach((what) => {
    if (what === "flush") flushes += 1;
  }, "trace");
}

/**
 * Called every second. If more traces are in use than the limit allows, LuaJIT flushes them again and again, and the worker runs
 * at a tenth of its speed. A worker that reaches the limit once in hours keeps it.
 */
export function makeRoomForTraces(): void {
  const nowSeconds = stopwatchSeconds();
  if (nowSeconds >= lookedAtSeconds + 60) {
    lookedAtSeconds = nowSeconds;
    flushes = 0;
  }
  if (flushes < manyFlushes || roomForTraces >= mostTraces) return;
  flushes = 0;
  roomForTraces = math.min(2 * roomForTraces, mostTraces);
  jit.opt.start(`maxtrace=${roomForTraces}`);
}

/**
 * Provides the stack frame between a pcall and the code to be compiled. LuaJIT aborts a trace that would return to a pcall's
 * frame, and a side trace that would return to the frame of any function. If the frame below belongs to a metamethod, LuaJIT ends
 * the trace there instead.
 */
export function traceBorder<Argument extends AnyNotNil>(
  call: (this: void, argument: Argument) => undefined,
): TraceBorder<Argument> {
  return setmetatable(new LuaTable(), { __index: (_: unknown, argument: Argument) => call(argument) });
}

/** The function stays interpreted, and the functions that it calls start traces of their own. */
export function neverCompile(interpreted: (this: void, ...args: never[]) => void): void {
  jit.off(interpreted);
}
