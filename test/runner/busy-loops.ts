// Keeps processors busy while the tests run: `npm test -- --busy 3` asks whether they pass on a machine that has other work to do.

import { type ChildProcess, spawn } from "node:child_process";

/** Computes, and looks now and then whether its parent still runs, so that none outlives a run that was killed. */
const loop = `
const parent = process.ppid;
while (process.ppid === parent) {
  const untilMs = Date.now() + 500;
  while (Date.now() < untilMs);
}`;

/** @returns the function that ends the loops */
export function startBusyLoops(count: number): () => void {
  const loops: ChildProcess[] = [];
  for (let i = 0; i < count; i++) loops.push(spawn(process.execPath, ["-e", loop], { stdio: "ignore" }));
  return () => {
    for (const one of loops) one.kill("SIGKILL");
  };
}
