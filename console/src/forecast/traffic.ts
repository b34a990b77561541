// Requests that somebody plans to send: when each comes, for which key values, and what it costs.

export interface Traffic {
  /** µs since the epoch, in ascending order. */
  readonly atUs: Float64Array;
  /** For each request, an index into `keys`. */
  readonly keyOf: Uint32Array;
  readonly keys: readonly TrafficKey[];
  /** What each request states as its cost; NaN: nothing. Absent: none states one. */
  readonly costs?: Float64Array;
}

export interface TrafficKey {
  /** A value for each part of the policy's key, in its order, as the request has them; "": the request lacks it. */
  readonly values: readonly string[];
  /** The client's address, for exemptions by network. Absent: the value of a part `ip`, if the key has one. */
  readonly address?: string;
}
