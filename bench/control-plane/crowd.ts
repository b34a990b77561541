// Simulated gateways in a few processes, so that reading their messages keeps neither the bench nor each other waiting for long.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { cpuUs } from "../cpu-time.ts";
import type { CrowdOrder, Reached } from "./crowd-process.ts";

const mostInProcess = 500;
const patienceMs = 300_000;

export interface CrowdReached {
  /** When each acknowledged it, by `monotonicMs`. */
  readonly timesMs: readonly number[];
  /** Bytes of snapshots and deltas that each got on average. */
  readonly bytesEach: number;
  readonly snapshots: number;
  readonly deltas: number;
  readonly misfits: number;
  readonly cuts: number;
}

export class Crowd {
  readonly count: number;
  readonly #children: readonly ChildProcess[];
  readonly #last = new Map<ChildProcess, Reached>();
  #onReport: () => void = () => undefined;

  private constructor(count: number, children: readonly ChildProcess[]) {
    this.count = count;
    this.#children = children;
    for (const child of children) {
      child.on("message", (reached: Reached) => {
        this.#last.set(child, reached);
        this.#onReport();
      });
      child.on("exit", () => this.#onReport());
    }
  }

  /** Resolves when all are connected and have the newest state. */
  static async start(order: CrowdOrder): Promise<Crowd> {
    const { count, name } = order;
    const processes = Math.ceil(count / mostInProcess);
    const children = Array.from({ length: processes }, () => fork(join(import.meta.dirname, "crowd-process.ts")));
    const crowd = new Crowd(count, children);
    for (const [i, child] of children.entries()) {
      const own = Math.floor(((i + 1) * count) / processes) - Math.floor((i * count) / processes);
      child.send({ ...order, count: own, name: `${name}-${i}` } satisfies CrowdOrder);
    }
    await crowd.untilAll(1);
    return crowd;
  }

  /** Waits until each has acknowledged this revision or a later one. @throws Error after five minutes */
  async untilAll(revision: number): Promise<CrowdReached> {
    const giveUpAt = performance.now() + patienceMs;
    const isThere = () => this.#children.every((child) => (this.#last.get(child)?.revision ?? 0) >= revision);
    while (!isThere()) {
      if (this.#children.some(({ exitCode }) => exitCode !== null))
        throw new Error("a process of simulated gateways ended");
      const leftMs = giveUpAt - performance.now();
      if (leftMs <= 0)
        throw new Error(`not every simulated gateway has applied revision ${revision} after ${patienceMs} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#onReport = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const all = [...this.#last.values()];
    const sum = (of: "bytes" | "snapshots" | "deltas" | "misfits" | "cuts") =>
      all.reduce((total, reached) => total + reached[of], 0);
    return {
      timesMs: all.flatMap(({ timesMs }) => timesMs),
      bytesEach: sum("bytes") / this.count,
      snapshots: sum("snapshots"),
      deltas: sum("deltas"),
      misfits: sum("misfits"),
      cuts: sum("cuts"),
    };
  }

  /** CPU that the simulated gateways have used so far. */
  cpuMs(): number {
    return cpuUs(this.#children.map(({ pid = 0 }) => pid)) / 1000;
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#children.map(async (child) => {
        if (child.exitCode !== null || !child.connected) return;
        const ended = once(child, "exit");
        child.disconnect();
        await ended;
      }),
    );
  }
}
