// What every fuzzer is: a target starts what it needs, then plays rounds of inputs that a seed decides, and says of each
// input that it does not like why.

import type fc from "fast-check";
import type { GatewayWatch } from "./gateway-watch.ts";

/** Something that must not be, in words: what came where what was expected. */
export class Fault extends Error {
  override readonly name = "Fault";
}

export interface Fuzzer<Input> {
  readonly inputs: fc.Arbitrary<Input>;
  /** @throws when something about what happened is not as it must be */
  play(this: void, input: Input): Promise<void>;
  /** As a person reads it. */
  show(this: void, input: Input): string;
  /** Before each round: what inputs of rounds before may have taken away or left behind. */
  prepare?(this: void): Promise<void>;
  /** After a fault: so that the next round meets a system that runs. */
  recover?(this: void): Promise<void>;
}

/** Two of one lane play in turns, those of different lanes at the same time: they share nothing. */
export type Worker = "control plane" | "gateway";

export interface Target {
  readonly name: string;
  readonly worker: Worker;
  /** What ends with the stack was begun for this run. */
  start(this: void, surroundings: Surroundings): Promise<Fuzzer<unknown>>;
}

export interface Surroundings {
  readonly stack: AsyncDisposableStack;
  /** The system whose control plane is fuzzed: started by the first who asks. */
  controlPlane(): Promise<import("./control-plane-watch.ts").ControlPlaneWatch>;
  /** A gateway that was started: its memory, its workers and its log are looked at from now on. */
  watch(gateway: GatewayWatch): void;
}
