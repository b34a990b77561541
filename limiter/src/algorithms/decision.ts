// A decision is the result of one limit, or of all limits of a request together. Being over the limit is a decision, never an
// error.

export interface Decision {
  allowed: boolean;
  /** The most units that can be had at once. */
  limit: number;
  /** Whole units left after this request. */
  remaining: number;
  /**
   * µs until the same request could be allowed. 0 when it was allowed, or could be at any moment (concurrency); `never` when its
   * cost exceeds the limit.
   */
  retryAfterUs: number;
  /** µs until the counter is like one that was never used. */
  resetAfterUs: number;
  /** µs that the allowed request must wait before it goes on (leaky-bucket). */
  delayUs: number;
}

/** The `retryAfterUs` of a request that no wait can help. */
export const never = -1;

/**
 * `resetAfterUs` of a limit whose units do not come back by themselves: the length of a lifetime's window. Caches subtract what time has
 * passed since, so more than half of it means the same.
 */
export const endless = 4_503_599_627_370_496;

export function emptyDecision(): Decision {
  return { allowed: true, limit: 0, remaining: 0, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 };
}
