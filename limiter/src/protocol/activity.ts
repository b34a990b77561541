// What a gateway reports of its traffic over the push socket, in messages of type activity. Times are in ms since 1970 by the
// gateway's clock; the message says when it was sent by the same clock.

/** The decisions of one policy. */
export interface PolicyActivity {
  app: string;
  policy: string;
  /** The time since when they were counted. */
  fromMs: number;
  allowed: number;
  refused: number;
  /** Requests that the policy would have refused, had it not been in shadow mode. */
  shadowRefused: number;
  /** Requests that Redis did not decide. They are counted in addition to the result that they then had. */
  degraded: number;
  /** Requests that had to wait. They are counted in addition to their result. */
  delayed: number;
}

/** The keys of a policy that had the most requests of one result, in no order. limiter/src/sketch counts them. */
export interface KeyActivity {
  app: string;
  policy: string;
  /** The parts of the policy's key, which is not the same in all revisions. */
  key: string[];
  /** refused: in shadow mode, that would have been refused. */
  result: "admitted" | "refused";
  /** The time since when they were counted. */
  sinceMs: number;
  /** Encoded as in the keys of counters (limiter/src/compiled/counter-key.ts). */
  keys: string[];
  /** How often each of them came at least. It came at most `error` times more. */
  counts: number[];
  error: number;
  /** A key that is not among them came at most so many times. */
  unlisted: number;
}

/** What one worker counted until `toMs`. */
export interface WorkerActivity {
  toMs: number;
  policies: PolicyActivity[];
  keys: KeyActivity[];
}
