// The interface of a fuzzer: a target starts what it needs, then plays rounds of inputs that a seed decides, and gives the
// reason for each input that it rejects.

import type fc from "fast-check";
import type { Fact } from "../fixtures/measures/fact.ts";
import type { GatewayWatch } from "./gateway-watch.ts";

/** Something that must not be, in words: what came, and what was expected. */
export class Fault extends Error {
  override readonly name = "Fault";
}

export interface Fuzzer<Input> {
  readonly inputs: fc.Arbitrary<Input>;
  /** @throws if anything about the outcome is wrong */
  play(this: void, input: Input): Promise<void>;
  /** @returns the input as a person reads it */
  show(this: void, input: Input): string;
  /** Called before each round, to restore what earlier inputs took away and remove what they left. */
  prepare?(this: void): Promise<void>;
  /** Called after a fault, so that the next round has a running system. */
  recover?(this: void): Promise<void>;
  /** What else is known at the end of the run. */
  facts?(this: void): Fact[];
}

/** Targets of one worker play in turns; those of different workers play at the same time, and share nothing. */
export type Worker = "control plane" | "control plane alone" | "gateway";

export interface Target {
  readonly name: string;
  readonly worker: Worker;
  /** Starts what the target needs for this run; the stack ends it. */
  start(this: void, surroundings: Surroundings): Promise<Fuzzer<unknown>>;
}

export interface Surroundings {
  readonly stack: AsyncDisposableStack;
  /** The system whose control plane is fuzzed. The first call starts it. */
  controlPlane(): Promise<import("./control-plane-watch.ts").ControlPlaneWatch>;
  /** Registers a gateway whose memory, workers and log are checked from now on. */
  watch(gateway: GatewayWatch): void;
}
