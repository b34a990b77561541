// LuaJIT's compiler, where its own defaults do not suit a decision.

declare namespace jit {
  function off(this: void, compiled: (this: void, ...args: never[]) => void): void;
  namespace opt {
    function start(this: void, ...settings: string[]): void;
  }
}

declare function setmetatable<T>(this: void, table: T, metatable: object): T;

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
 * it begins anew, as LuaJIT itself does and OpenResty's with 8,000 only: a worker's memory has an end. A steady load has some 500.
 */
export function suitDecisions(): void {
  jit.opt.start("maxirconst=2000", "loopunroll=200", "hotexit=200", "maxtrace=1000");
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
