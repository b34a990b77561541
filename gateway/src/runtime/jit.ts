// LuaJIT's compiler, where its own defaults do not suit a decision.

declare namespace jit {
  function off(this: void, compiled: (this: void, ...args: never[]) => void): void;
  namespace opt {
    function start(this: void, ...settings: string[]): void;
  }
}

/**
 * For all Lua of this nginx, at its start: a trace of more than 500 constants is given up unless told otherwise, and a
 * decision with entries, from the dict's get to its set, has some more. What leads there would be interpreted for good.
 */
export function allowLongTraces(): void {
  jit.opt.start("maxirconst=2000");
}

/** The function stays interpreted, and what it calls begins traces of its own. */
export function neverCompile(interpreted: (this: void, ...args: never[]) => void): void {
  jit.off(interpreted);
}
