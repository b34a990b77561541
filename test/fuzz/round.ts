// Plays one round of a fuzzer: the inputs of its seed until the time is up or one of them is at fault, which is then made as
// small as time allows. The same seed plays the same inputs again.

import fc from "fast-check";
import type { Fuzzer } from "./target.ts";

export interface Finding {
  readonly target: string;
  /** Plays the finding again, as the first round of its target. */
  readonly seed: number;
  readonly what: string;
  /** The smallest input that was found. */
  readonly input: string;
}

export interface Round {
  readonly inputs: number;
  readonly finding: Finding | undefined;
}

const shrinkMs = 15_000;
const mostShown = 4_000;

export async function playRound(
  target: string,
  { inputs, play, show, prepare, recover }: Fuzzer<unknown>,
  seed: number,
  timeMs: number,
): Promise<Round> {
  try {
    await prepare?.();
  } catch (error) {
    await recover?.();
    return { inputs: 0, finding: { target, seed, what: `before the round: ${messageOf(error)}`, input: "" } };
  }
  // When the time is up, fast-check goes on without the input that is under way. The next round must not run beside it, and its
  // outcome counts.
  let underWay: Promise<void> = Promise.resolve();
  let last: unknown;
  let played = 0;
  const property = fc.asyncProperty(inputs, async (input) => {
    last = input;
    underWay = play(input);
    await underWay;
    played += 1;
  });
  const limited = { seed, numRuns: 1_000_000, markInterruptAsFailure: false };
  const first = await fc.check(property, { ...limited, endOnFailure: true, interruptAfterTimeLimit: timeMs });
  const late = await underWay.then(
    () => undefined,
    (error: unknown) => ({ what: messageOf(error), input: show(last).slice(0, mostShown) }),
  );
  // fast-check fails if no input at all was finished in time; for us that is no failure.
  if (!first.failed || first.counterexample === null) {
    if (late !== undefined) await recover?.();
    return { inputs: played, finding: late === undefined ? undefined : { target, seed, ...late } };
  }
  await recover?.();
  const path = first.counterexamplePath ?? "";
  const again = await fc.check(property, { ...limited, numRuns: 1, path, interruptAfterTimeLimit: shrinkMs });
  await underWay.catch(() => undefined);
  await recover?.();
  const { counterexample, errorInstance } = again.failed ? again : first;
  const repeated = again.failed ? "" : " (not at the second try)";
  const input = counterexample === null ? "" : show(counterexample[0]);
  return {
    inputs: played,
    finding: { target, seed, what: `${messageOf(errorInstance)}${repeated}`, input: input.slice(0, mostShown) },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
