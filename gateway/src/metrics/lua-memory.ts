// Lua memory of each worker, told to whichever answers for the metrics, and what other Lua of the same nginx has of it.

import { luaMemoryKb, makeRoomForNeighbours } from "../runtime/collector.ts";
import { makeRoomForTraces } from "../runtime/jit.ts";
import { stateDict } from "../runtime/shared-memory.ts";

const publishEverySeconds = 1;
const memoryKey = "lua-memory:";

/** For each worker's start. */
export function publishLuaMemory(): void {
  makeRoomForNeighbours();
  const key = memoryKey + ngx.worker.id();
  ngx.timer.every(publishEverySeconds, () => {
    stateDict.set(key, 1024 * luaMemoryKb());
    makeRoomForNeighbours();
    makeRoomForTraces();
  });
}

/** Of a worker, with what is garbage and not yet collected. Undefined before it has told. */
export function luaMemoryBytes(worker: number): number | undefined {
  return stateDict.get<number>(memoryKey + worker)[0];
}
