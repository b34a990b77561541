// Compares in a thread of its own. A world that leaves much open takes seconds, and the servers of the real player need to be looked after meanwhile.

import { Worker } from "node:worker_threads";
import type { Compared } from "./reference/reference.ts";
import type { Answer, World } from "./world.ts";

interface Waiting {
  resolve(compared: Compared): void;
  reject(error: Error): void;
}

let thread: Worker | undefined;
const waiting: Waiting[] = [];

export function compareAside(world: World, answers: readonly Answer[]): Promise<Compared> {
  thread ??= begin();
  // Only who waits for it keeps this process from ending.
  thread.ref();
  thread.postMessage({ world, answers });
  return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
}

function begin(): Worker {
  const worker = new Worker(new URL("./comparing-thread.ts", import.meta.url));
  worker.on("message", (compared: Compared) => {
    waiting.shift()?.resolve(compared);
    if (waiting.length === 0) worker.unref();
  });
  worker.on("error", (error) => {
    thread = undefined;
    for (const one of waiting.splice(0)) one.reject(error);
  });
  return worker;
}
