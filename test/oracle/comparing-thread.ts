// The thread of comparing.ts.

import { parentPort } from "node:worker_threads";
import { compare } from "./reference/reference.ts";
import type { Answer, World } from "./world.ts";

parentPort?.on("message", ({ world, answers }: { world: World; answers: readonly Answer[] }) => {
  parentPort?.postMessage(compare(world, answers));
});
