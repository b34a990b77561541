// Publishes the Lua memory of each worker, so that any worker can answer for the metrics. Also calls, every second, the
// adjustments that protect other Lua code of an nginx whose Lua Sluice may tune.

import { runEvery } from "../runtime/background.ts";
import { luaMemoryKb, makeRoomForNeighbours } from "../runtime/collector.ts";
import { makeRoomForTraces } from "../runtime/jit.ts";
import { stateDict } from "../runtime/shared-memory.ts";

const publishEverySeconds = 1;
const memoryKey = "lua-memory:";

/** Called when a worker starts. */
export function publishLuaMemory(): void {
  makeRoomForNeighbours();
  const key = memoryKey + ngx.worker.id();
  runEvery(publishEverySeconds, () => {
    stateDict.safe_set(key, 1024 * luaMemoryKb());
    makeRoomForNeighbours();
    makeRoomForTraces();
  });
}

/** Memory of a worker, including garbage that is not yet collected. Undefined until the worker has published it. */
export function luaMemoryBytes(worker: number): number | undefined {
  return stateDict.get<number>(memoryKey + worker)[0];
}
