// The simplest store: a counter that lives in memory, its entries in an array. What Node and the browser count with.

import { type CounterState, emptyState, nextCapacity, type Ring } from "./counter-state.ts";

export interface MemoryCounter extends CounterState {
  /** Two numbers an entry: tick, start. */
  entries: number[];
}

export function memoryCounter(): MemoryCounter {
  const counter = emptyState() as MemoryCounter;
  counter.entries = [];
  return counter;
}

export const memoryRing: Ring = {
  tickAt: (state, slot) => (state as MemoryCounter).entries[2 * slot] as number,
  startAt: (state, slot) => (state as MemoryCounter).entries[2 * slot + 1] as number,
  put: (state, slot, tick, start) => {
    const { entries } = state as MemoryCounter;
    entries[2 * slot] = tick;
    entries[2 * slot + 1] = start;
  },
  grow: (state, most) => {
    const { entries } = state as MemoryCounter;
    const moved: number[] = [];
    for (let i = 0; i < state.length; i++) {
      const slot = (state.first + i) % state.capacity;
      moved.push(entries[2 * slot] as number, entries[2 * slot + 1] as number);
    }
    (state as MemoryCounter).entries = moved;
    return nextCapacity(state.capacity, most);
  },
};
