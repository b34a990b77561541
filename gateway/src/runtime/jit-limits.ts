// LuaJIT gives up a trace of more than 500 constants. A decision with entries, from the dict's get to its set, has some more:
// what leads there would be interpreted, for as long as the worker lives.

declare namespace jit.opt {
  function start(this: void, ...settings: string[]): void;
}

/** For all Lua of this nginx, at its start. */
export function allowLongTraces(): void {
  jit.opt.start("maxirconst=2000");
}
