// What is to happen at later moments of a simulation: a binary heap, the earliest on top. Of events at one moment, the one that was
// added first comes first.

interface DueEvent {
  readonly atUs: number;
  readonly order: number;
  readonly happen: (atUs: number) => void;
}

export class DueEvents {
  readonly #heap: DueEvent[] = [];
  #added = 0;

  add(atUs: number, happen: (atUs: number) => void): void {
    const event = { atUs, order: this.#added, happen };
    this.#added += 1;
    const heap = this.#heap;
    let place = heap.length;
    heap.push(event);
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (isBefore(heap[above] as DueEvent, event)) break;
      heap[place] = heap[above] as DueEvent;
      place = above;
    }
    heap[place] = event;
  }

  /** Lets everything happen that is due by then, and what that makes due by then. */
  runUntil(atUs: number): void {
    for (let next = this.#heap[0]; next !== undefined && next.atUs <= atUs; next = this.#heap[0]) {
      this.#removeFirst();
      next.happen(next.atUs);
    }
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop() as DueEvent;
    if (heap.length === 0) return;
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1] as DueEvent, heap[below] as DueEvent)) below += 1;
      if (isBefore(last, heap[below] as DueEvent)) break;
      heap[place] = heap[below] as DueEvent;
      place = below;
    }
    heap[place] = last;
  }
}

function isBefore(a: DueEvent, b: DueEvent): boolean {
  return a.atUs === b.atUs ? a.order < b.order : a.atUs < b.atUs;
}
