// The numbers of a limit that an algorithm needs: how many units in which time.

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
  /** For concurrency: the slots' time to live. */
  readonly windowUs: number;
  /** The capacity of a token-bucket, or how many units may wait in a leaky-bucket. For other algorithms: the quota. */
  readonly burst: number;
  /** The length of a sliding-window's blocks. For other algorithms: 0. */
  readonly precisionUs: number;
}
