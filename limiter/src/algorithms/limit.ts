// What an algorithm is told of a limit: how many units in which time.

export type Algorithm =
  | "token-bucket"
  | "fixed-window"
  | "sliding-window"
  | "sliding-log"
  | "leaky-bucket"
  | "concurrency";

export interface Limit {
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly quota: number;
  /** Of concurrency: the slots' time to live. */
  readonly windowUs: number;
  /** Capacity of a token-bucket, or how many may wait in a leaky-bucket; of other algorithms, the quota. */
  readonly burst: number;
  /** Length of a sliding-window's blocks; of other algorithms, 0. */
  readonly precisionUs: number;
}
