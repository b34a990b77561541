// Tunes LuaJIT's garbage collector around long snapshot loads. By default it works a little at every allocation and ends its mark
// phase in one go: everything that was made meanwhile and hangs on a table that it had already traversed is then marked at once,
// which takes 10 ms for ten thousand policies. So the collector pauses while a snapshot is loaded, and runs a cycle afterwards,
// in slices, when nothing is being allocated.
//
// All Lua code of an nginx shares one collector. Whoever makes garbage pays for its cycles, and each cycle also traverses
// everything that Sluice keeps. So that other Lua code in the same nginx does not pay for that, cycles start later, by a few MB
// of garbage.
//
// None of this happens unless the operator wants it: otherwise Sluice never touches the collector.

import type { Pause } from "../../../limiter/src/basics/pause.ts";

/** As in Lua's manual. LuaJIT accepts one argument more than its type declarations have. */
declare function collectgarbage(
  this: void,
  what: "collect" | "count" | "restart" | "setpause" | "setstepmul" | "step",
  argument?: number,
): number | boolean;

/** During a snapshot load: how far memory may grow, in % of the memory in use, before the collector starts a cycle. */
const growthDuringLoad = 1000;
/** During a snapshot load: a cycle is run when memory has grown by this much, and by half, since the last one. */
const mostGarbageKB = 16_384;
/**
 * In %. Below this growth since the last cycle, another cycle is not worth its cost: a snapshot of one edited policy is mostly
 * its text.
 */
const worthCollecting = 150;
/**
 * In %. LuaJIT works off its whole debt in one step, whatever the size of the step. A low multiplier keeps the work for each KB
 * small.
 */
const workInSteps = 20;
/** In %. Above this growth since the last cycle, the next snapshot load waits until the cycle has ended. */
const mostLeft = 250;
/** Memory counts as small if the text to be loaded is larger than the memory in use divided by this number. */
const smallBesideText = 4;
/** One step traverses 6 KB, or 32 objects if they are larger, or frees 1,300 objects. It takes a quarter of a millisecond. */
const stepKB = 32;

/** Cycles start later by this much garbage. A gateway with few policies uses 3.05 MB, so this makes up for it. */
const roomForNeighboursKB = 3328;
/**
 * The least memory that was in use lately is the best estimate of what a cycle leaves. It may grow by this factor between two
 * checks.
 */
const growthOfLeast = 1.5;

let tuned = false;
/** How many KB were in use when the load began, or after its last cycle. */
let loadKeptKB = 0;
let leastKB = math.huge;
let growthWithRoom = 0;
let growthOfNeighbours = 0;
/** How many KB were in use when the last cycle ended. */
let keptKB = 0;
/** Snapshots were loaded during the cycle, so much of what is garbage by now survives it. */
let interrupted = false;

/** Called in init_by_lua if the operator wants this. */
export function tuneCollector(): void {
  tuned = true;
}

/** Frees what a start has left behind. */
export function collectAll(): void {
  if (tuned) collectgarbage("collect");
}

/**
 * The collector does nothing by itself until memory has grown to ten times its current size. The rest of a cycle that has begun waits:
 * without steps, the collector does not have to know what is allocated meanwhile.
 */
export function postponeCollection(): void {
  if (!tuned) return;
  waitForGrowth(growthDuringLoad);
  loadKeptKB = luaMemoryKb();
}

/**
 * Runs a whole cycle if a load has made much garbage. Nothing is allocated meanwhile, so the cycle has no long step. What memory a load
 * takes at most remains the worker's for good.
 */
export function collectDuringLoad(pause: Pause): void {
  if (!tuned) return;
  const growthKB = luaMemoryKb() - loadKeptKB;
  if (growthKB < mostGarbageKB || growthKB < loadKeptKB / 2) return;
  while (!stepOfRound()) pause();
  loadKeptKB = luaMemoryKb();
  waitForGrowth(growthDuringLoad);
}

/** KB in use, including garbage that is not yet collected. */
export function luaMemoryKb(): number {
  return collectgarbage("count") as number;
}

/**
 * Ends the cycle that has begun before a text of this many bytes is loaded, if memory is small compared to the text.
 *
 * While a cycle frees strings, LuaJIT does not enlarge its string table. If a cycle pauses in that phase, hundreds of thousands
 * of new strings share a few thousand buckets, which takes 3 to 10 times the CPU. If memory is not small, the table is large
 * enough.
 */
export function endRoundBefore(bytes: number, pause: Pause): void {
  if (!tuned || bytes < (luaMemoryKb() * 1024) / smallBesideText) return;
  while (!stepOfRound()) pause();
}

/** Returns whether so much garbage waits to be collected that no more may be made. */
export function isFull(): boolean {
  return tuned && luaMemoryKb() > (keptKB * mostLeft) / 100;
}

/**
 * Ends the cycle that has begun and runs a whole one, if there is something to gain.
 *
 * @param goesOn returns false to leave the rest for later
 */
export function collect(pause: Pause, goesOn: (this: void) => boolean): void {
  if (!tuned) return;
  const inUseKB = luaMemoryKb();
  if (inUseKB < (keptKB * worthCollecting) / 100) {
    // Relative to what the last cycle left, not to what is in use now: otherwise a series of edits would let memory grow to three
    // times that.
    waitForGrowth((usualGrowth() * keptKB) / inUseKB);
    return;
  }
  while (goesOn()) {
    const ended = stepOfRound();
    if (ended && !interrupted) {
      keptKB = luaMemoryKb();
      leastKB = keptKB;
      makeRoomForNeighbours();
      waitForGrowth(growthWithRoom);
      return;
    }
    if (ended) interrupted = false;
    pause();
  }
  interrupted = true;
}

/** @returns whether the cycle has ended */
function stepOfRound(): boolean {
  const usualWork = collectgarbage("setstepmul", workInSteps) as number;
  const ended = collectgarbage("step", stepKB) === true;
  collectgarbage("setstepmul", usualWork);
  // Without this, allocations between two of these steps would trigger steps of their own.
  waitForGrowth(growthDuringLoad);
  return ended;
}

/** Called every second. The room is added to the setting that other Lua code has made. */
export function makeRoomForNeighbours(): void {
  if (!tuned) return;
  const inUseKB = luaMemoryKb();
  leastKB = math.min(inUseKB, leastKB * growthOfLeast);
  const growth = usualGrowth();
  if (growth !== growthWithRoom) growthOfNeighbours = growth;
  growthWithRoom = growthOfNeighbours + math.floor((100 * roomForNeighboursKB) / leastKB);
  collectgarbage("setpause", growthWithRoom);
}

/** The collector's pause in %, as the nginx has it: its other Lua code may have set it. */
function usualGrowth(): number {
  const growth = collectgarbage("setpause", growthDuringLoad) as number;
  collectgarbage("setpause", growth);
  return growth;
}

function waitForGrowth(percent: number): void {
  const usual = collectgarbage("setpause", percent) as number;
  // With -1, the next cycle is timed as if one had just ended.
  collectgarbage("restart", -1);
  collectgarbage("setpause", usual);
}
