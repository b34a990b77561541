// Publishes the Lua memory of each worker, including garbage that is not yet collected. Also calls, every second, the
// adjustments that protect other Lua code of an nginx whose Lua Sluice may tune.

import { runEvery } from "../runtime/background.ts";
import { luaMemoryKb, makeRoomForNeighbours } from "../runtime/collector.ts";
import { makeRoomForTraces } from "../runtime/jit.ts";
import { publishState } from "../runtime/worker-states.ts";

const publishEverySeconds = 1;

/** Called when a worker starts. */
export function publishLuaMemory(): void {
  makeRoomForNeighbours();
  runEvery(publishEverySeconds, () => {
    publishState("lua-memory", 1024 * luaMemoryKb());
    makeRoomForNeighbours();
    makeRoomForTraces();
  });
}
