// LuaJIT's compiler, where its own defaults do not suit a decision.

declare namespace jit {
  function off(this: void, compiled: (this: void, ...args: never[]) => void): void;
  function attach(this: void, listener: (this: void, what: string) => void, event: "trace"): void;
  namespace opt {
    function start(this: void, ...settings: string[]): void;
  }
}

declare function setmetatable<T>(this: void, table: T, metatable: object): T;

let roomForTraces = 1000;
/** As many as OpenResty's LuaJIT keeps by default. */
const mostTraces = 8000;
/** Within a minute. */
const manyBeginnings = 3;
/** How often LuaJIT has thrown all traces away since the last look at the clock. */
let beginnings = 0;
let lookedAtSeconds = 0;

/** Read with the argument as the key, it calls a function. */
export type TraceBorder<Argument extends AnyNotNil> = LuaTable<Argument, undefined>;

/**
 * For all Lua of this nginx, at its start.
 *
 * What a decision calls from the dict's get to its set is to be one trace, and two bounds of LuaJIT are too low for that:
 * 500 constants, and 15 tail calls, which count as turns of a loop that is unrolled. Where a trace is given up, what leads
 * there is interpreted for good.
 *
 * Traces of such length have thousands of exits, and LuaJIT compiles what follows one that was taken ten times: a worker grew by
 * a MB a minute for hours, of what faults and refusals call once a second. 200 is as far as it counts. And with 1,000 traces
 * it begins anew, as LuaJIT itself does and OpenResty's with 8,000 only: a worker's memory has an end. A steady load has some
 * 500. Where the nginx has so much other Lua that more are in use, see `makeRoomForTraces`.
 */
export function suitDecisions(): void {
  jit.opt.start("maxirconst=2000", "loopunroll=200", "hotexit=200", `maxtrace=${roomForTraces}`);
  jit.attach((what) => {
    if (what === "flush") beginnings += 1;
  }, "trace");
}

/**
 * For each second. Whoever uses more traces than there is room for begins anew again and again, and runs at a tenth of its speed.
 * In a worker that has taken all the room once in hours, nothing changes.
 */
export function makeRoomForTraces(): void {
  const nowSeconds = ngx.now();
  if (nowSeconds >= lookedAtSeconds + 60) {
    lookedAtSeconds = nowSeconds;
    beginnings = 0;
  }
  if (beginnings < manyBeginnings || roomForTraces >= mostTraces) return;
  beginnings = 0;
  roomForTraces = math.min(2 * roomForTraces, mostTraces);
  jit.opt.start(`maxtrace=${roomForTraces}`);
}

/**
 * The frame between a pcall and what is to be compiled. LuaJIT gives up a trace that would return to a pcall's frame, and, where
 * it continues another one, to any of a function. Where the frame below is a metamethod's, it ends the trace there.
 */
export function traceBorder<Argument extends AnyNotNil>(
  call: (this: void, argument: Argument) => undefined,
): TraceBorder<Argument> {
  return setmetatable(new LuaTable(), { __index: (_: unknown, argument: Argument) => call(argument) });
}

/** The function stays interpreted, and what it calls begins traces of its own. */
export function neverCompile(interpreted: (this: void, ...args: never[]) => void): void {
  jit.off(interpreted);
}
