// A decision is what one limit, or all limits of a request together, say of that request. Being over the limit is a
// decision, never an error.

export interface Decision {
  allowed: boolean;
  /** The most units that can be had at once. */
  limit: number;
  /** Whole units left after this request. */
  remaining: number;
  /**
   * µs until the same request could be allowed; 0 when it was allowed, or at any moment could be (concurrency); `never`
   * when its cost exceeds the limit.
   */
  retryAfterUs: number;
  /** µs until the counter is as if never used. */
  resetAfterUs: number;
  /** µs that the allowed request is to wait before it goes on: leaky-bucket. */
  delayUs: number;
}

/** The `retryAfterUs` of a request that no wait can help. */
export const never = -1;

export function emptyDecision(): Decision {
  return { allowed: true, limit: 0, remaining: 0, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 };
}
