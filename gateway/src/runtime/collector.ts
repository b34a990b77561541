// LuaJIT's garbage collector beside a long intake. Left alone it works a little at every allocation, and ends its marking in
// one go: what was made meanwhile and hangs on a table that it had been through is then marked at once, 10 ms of ten
// thousand policies. So it waits while a snapshot is taken in, and goes round afterwards, in slices, when nothing is made.
//
// All Lua of an nginx has one collector. Whoever makes garbage pays for its rounds, and a round looks at all that Sluice has as
// well. So that Sluice's neighbours do not pay for that, the rounds are rarer by a few MB of garbage.

import type { Pause } from "../../../limiter/src/basics/pause.ts";

/** As in Lua's manual; LuaJIT knows one argument more than its type declarations. */
declare function collectgarbage(
  this: void,
  what: "count" | "restart" | "setpause" | "setstepmul" | "step",
  argument?: number,
): number | boolean;

/** In %: how large memory may be, against what is in use, before the collector goes round, in an intake. */
const growthDuringLoad = 400;
/** Less than this since the last round is not worth another, in %: a snapshot of one edited policy is mostly its text. */
const worthCollecting = 150;
/** Whatever its step is called, LuaJIT works off its whole debt in it: let little work go with a KB. In %. */
const workInSteps = 20;
/** With more than this in use, in %, the next snapshot waits for the round. */
const mostLeft = 250;
/** Memory is small where a text of this part of it is to be taken in. */
const smallBesideText = 4;
/** One step looks at 6 KB, or 32 objects where they are larger, or frees 1,300: a quarter of a millisecond. */
const stepKB = 32;

/** What rounds are rarer by. A gateway with few policies has 1.7 MB, and this makes up for them. */
const roomForNeighboursKB = 3072;
/** The least that was in use lately is nearest to what a round leaves; it may grow by so much from look to look. */
const growthOfLeast = 1.5;

let leastKB = math.huge;
let growthWithRoom = 0;
let growthOfNeighbours = 0;
/** How many KB were in use when a round had ended. */
let keptKB = 0;
/** Whether snapshots came in between: much of what is garbage by now outlives the round. */
let interrupted = false;

/**
 * The collector does nothing until memory has grown to four times of what it is. Of a round that has begun, the rest
 * waits: it is not told of what is made meanwhile, and need not be.
 */
export function postponeCollection(): void {
  waitForGrowth(growthDuringLoad);
}

/** In use, with what is garbage and not yet collected. */
export function luaMemoryKb(): number {
  return collectgarbage("count") as number;
}

/**
 * Ends the round that has begun, before a text of so many bytes is taken in, where memory is small beside the text.
 *
 * While a round frees texts, LuaJIT does not widen the table that holds them all. A round that waits there leaves hundreds of
 * thousands of new texts to a few thousand places: 3 to 10 times the CPU. Where memory is not small, the table is wide.
 */
export function endRoundBefore(bytes: number, pause: Pause): void {
  if (bytes < (luaMemoryKb() * 1024) / smallBesideText) return;
  while (!stepOfRound()) pause();
}

/** Whether so much waits to be collected that no more is to be made. */
export function isFull(): boolean {
  return luaMemoryKb() > (keptKB * mostLeft) / 100;
}

/** Ends a round of the collector, and a whole one, where there is something to gain. @param goesOn false: the rest is for later */
export function collect(pause: Pause, goesOn: (this: void) => boolean): void {
  const inUseKB = luaMemoryKb();
  if (inUseKB < (keptKB * worthCollecting) / 100) {
    // Of what the last round has left, and not of what has been made since: edits in a row would let memory grow to three times that.
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

/** @returns whether the round has ended */
function stepOfRound(): boolean {
  const usualWork = collectgarbage("setstepmul", workInSteps) as number;
  const ended = collectgarbage("step", stepKB) === true;
  collectgarbage("setstepmul", usualWork);
  // What is made between two steps of ours would call for steps of its own, as if nobody else took any.
  waitForGrowth(growthDuringLoad);
  return ended;
}

/** For each second: what other Lua has set is what the room is added to. */
export function makeRoomForNeighbours(): void {
  const inUseKB = luaMemoryKb();
  leastKB = math.min(inUseKB, leastKB * growthOfLeast);
  const growth = usualGrowth();
  if (growth !== growthWithRoom) growthOfNeighbours = growth;
  growthWithRoom = growthOfNeighbours + math.floor((100 * roomForNeighboursKB) / leastKB);
  collectgarbage("setpause", growthWithRoom);
}

/** In %, as the nginx has it: its other Lua may have set it. */
function usualGrowth(): number {
  const growth = collectgarbage("setpause", growthDuringLoad) as number;
  collectgarbage("setpause", growth);
  return growth;
}

function waitForGrowth(percent: number): void {
  const usual = collectgarbage("setpause", percent) as number;
  // -1: the next round is to begin as if one had just ended.
  collectgarbage("restart", -1);
  collectgarbage("setpause", usual);
}
