// npm run deltas: the property test of deltas against snapshots, with a million edits. README.md says what it shows. Exits with 1 and
// the seed if a gateway ever has another state than a snapshot makes.

import { availableParallelism } from "node:os";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { optionsFrom } from "../../launch/command-line.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { large, type Play, type Played, play } from "./play.ts";

const usage = "npm run deltas -- [--edits 1000000] [--seed 1] [--at-once PROCESSORS]";
/** Each round begins with nothing stored. */
const editsOfRound = 10_000;
const editsOfLargeRound = 1_000;
/** Every so many rounds has many policies; and as many compare after every edit, so that what is remembered of one edit meets the next. */
const largeEvery = 20;
const closeEvery = 10;

if (isMainThread) await lead().catch(fail);
else parentPort?.on("message", (round: Play) => void play(round).then((played) => parentPort?.postMessage(played)));

async function lead(): Promise<void> {
  const text = { type: "string" } as const;
  const options = { edits: text, seed: text, "at-once": text };
  const { edits, seed, "at-once": atOnce } = optionsFrom(process.argv.slice(2), options, usage);
  const wanted = whole(edits, 1_000_000);
  const firstSeed = whole(seed, 1);
  const sum: Partial<Record<keyof Played, number>> = {};
  let begun = 0;
  let rounds = 0;
  const next = (): Play | undefined => {
    if (begun >= wanted) return undefined;
    rounds += 1;
    const isLarge = rounds % largeEvery === 0;
    const isClose = rounds % closeEvery === 1;
    const round = {
      seed: firstSeed + rounds - 1,
      edits: Math.min(isLarge || isClose ? editsOfLargeRound : editsOfRound, wanted - begun),
    };
    begun += round.edits;
    return { ...round, ...(isLarge ? { size: large } : {}), ...(isClose ? { compareEvery: 1 } : {}) };
  };
  const beganAt = performance.now();
  let saidAt = beganAt;
  await Promise.all(
    Array.from({ length: whole(atOnce, availableParallelism()) }, () => {
      const worker = new Worker(new URL(import.meta.url), { workerData });
      return new Promise<void>((resolve, reject) => {
        const give = () => {
          const round = next();
          if (round !== undefined) worker.postMessage(round);
          else void worker.terminate().then(() => resolve());
        };
        worker.on("error", reject);
        worker.on("message", (played: Played) => {
          for (const [name, count] of Object.entries(played)) {
            sum[name as keyof Played] = (sum[name as keyof Played] ?? 0) + count;
          }
          if (performance.now() - saidAt > 10_000) {
            saidAt = performance.now();
            say(`${sum.edits} of ${wanted} edits`);
          }
          give();
        });
        give();
      });
    }),
  );
  say(`${rounds} rounds, ${((performance.now() - beganAt) / 1_000).toFixed(0)} s; no difference was found:`);
  for (const [name, count] of Object.entries(sum)) say(`  ${name}: ${count}`);
}

function whole(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new SetupError(`expected a whole number from 1 on, got "${text}"\n${usage}`);
  }
  return value;
}
