// The simplest store: a counter in memory, with its entries in arrays. Node and the browser count with it.

import { type CounterState, emptyState, nextCapacity, type Ring } from "./counter-state.ts";

export interface MemoryCounter extends CounterState {
  /** One value for each slot. */
  ticks: number[];
  starts: number[];
}

export function memoryCounter(): MemoryCounter {
  const counter = emptyState() as MemoryCounter;
  counter.ticks = [];
  counter.starts = [];
  return counter;
}

export const memoryRing: Ring = {
  tickAt: (state, slot: number) => (state as MemoryCounter).ticks[slot] as number,
  startAt: (state, slot: number) => (state as MemoryCounter).starts[slot] as number,
  put: (state, slot: number, tick, start) => {
    (state as MemoryCounter).ticks[slot] = tick;
    (state as MemoryCounter).starts[slot] = start;
  },
  grow: (state, most) => {
    const counter = state as MemoryCounter;
    counter.ticks = turned(counter.ticks, state.first, state.capacity);
    counter.starts = turned(counter.starts, state.first, state.capacity);
    return nextCapacity(state.capacity, most);
  },
};

/** Returns the values of a full ring, the oldest first. */
function turned(values: readonly number[], first: number, capacity: number): number[] {
  const moved: number[] = [];
  for (let slot = first; slot < capacity; slot++) moved.push(values[slot] as number);
  for (let slot = 0; slot < first; slot++) moved.push(values[slot] as number);
  return moved;
}
