// What a world is, and what is heard of it: plain records, which travel as lines of JSON between the oracle and its players.

/** A policy as its author writes it (docs/policies.md). */
export interface PolicyDocument {
  readonly name: string;
  readonly mode?: Mode;
  readonly priority?: number;
  readonly match: { readonly paths: readonly string[] };
  readonly key: readonly string[];
  readonly onMissingKey?: "skip" | "deny" | "shared";
  readonly limits?: readonly LimitDocument[];
  readonly plans?: Readonly<Record<string, readonly LimitDocument[]>>;
  readonly planBy?: string;
  readonly defaultPlan?: string;
  readonly cost?: number | { readonly from: string; readonly default?: number; readonly max?: number };
  readonly scope?: "node" | "cluster";
  readonly onLimit?: OnLimitDocument;
  readonly overrides?: readonly OverrideDocument[];
  readonly exempt?: { readonly cidrs?: readonly string[]; readonly keys?: readonly (readonly string[])[] };
  readonly schedule?: ScheduleDocument;
}

/** What happens to a request over the limit. */
export interface OnLimitDocument {
  readonly action: "reject" | "tag" | "degrade";
  readonly status?: number;
  readonly header?: string;
  readonly response?: { readonly status: number; readonly body: string };
}

/** When a policy is on. */
export interface ScheduleDocument {
  readonly timezone: string;
  readonly windows: readonly { readonly days?: readonly string[]; readonly from: string; readonly to: string }[];
}

/** A client with a plan. */
export interface Consumer {
  readonly id: string;
  readonly plan: string;
  /** Limits of its own, by the name of the policy. */
  readonly overrides?: Readonly<Record<string, readonly LimitDocument[]>>;
}

export type Mode = "enforce" | "shadow" | "off";

export interface OverrideDocument {
  readonly key: readonly string[];
  readonly limits?: readonly LimitDocument[];
  readonly mode?: Mode;
}

export type AlgorithmName =
  | "token-bucket"
  | "fixed-window"
  | "sliding-window"
  | "sliding-log"
  | "leaky-bucket"
  | "concurrency";

export interface LimitDocument {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly quota: number;
  readonly window?: string;
  readonly burst?: number;
  readonly initial?: number;
  readonly warmUp?: string;
  readonly maxDelay?: string;
  readonly precision?: string;
  readonly ttl?: string;
  readonly timezone?: string;
  readonly anchor?: number | string;
}

/** Times are in whole ms: nginx' own clock has no finer ones. */
export interface World {
  /** What all clocks show when the world begins, since the Unix epoch. */
  readonly startMs: number;
  /** By how many µs Redis' clock is ahead of that of the gateways: less than a ms. */
  readonly redisAheadUs: number;
  readonly gateways: number;
  /** Of each gateway. */
  readonly workers: number;
  readonly policies: readonly PolicyDocument[];
  readonly consumers?: readonly Consumer[];
  readonly events: readonly WorldEvent[];
}

/** `afterMs`: so long after the event before. Gateways and workers count from 1. */
export type WorldEvent = { readonly afterMs: number } & (
  | Ask
  | Checks
  | Put
  | Delete
  | PutConsumer
  | DeleteConsumer
  | OfCounter
  | TopUp
  | Step
  | Restart
);

export interface Ask {
  readonly do: "ask";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly address: string;
  readonly gateway: number;
  readonly worker: number;
  /** How long the service behind takes. */
  readonly serviceMs: number;
  /** How many bytes its response has. Absent: it does not matter. */
  readonly bytes?: number;
}

/** A service asks the check API. */
export interface Checks {
  readonly do: "check";
  readonly checks: readonly Check[];
  readonly mode: "all" | "each";
  readonly gateway: number;
  readonly worker: number;
}

export interface Check {
  readonly policy: string;
  readonly key: readonly string[];
  readonly cost?: number;
  readonly plan?: string;
  readonly peek?: boolean;
}

export interface Put {
  readonly do: "put";
  readonly policy: PolicyDocument;
}

export interface Delete {
  readonly do: "delete";
  readonly policy: string;
}

export interface PutConsumer {
  readonly do: "put-consumer";
  readonly consumer: Consumer;
}

export interface DeleteConsumer {
  readonly do: "delete-consumer";
  readonly id: string;
}

/** An operator reads or resets a counter. */
export interface OfCounter {
  readonly do: "read" | "reset";
  readonly policy: string;
  readonly key: readonly string[];
  readonly gateway: number;
}

export interface TopUp {
  readonly do: "top-up";
  readonly policy: string;
  readonly key: readonly string[];
  readonly gateway: number;
  readonly units: number;
}

/** All clocks step, ahead or back. */
export interface Step {
  readonly do: "step";
  readonly byMs: number;
}

/** nginx is told to reload, which gives it other workers; or it ends and is started again. No request is open then. */
export interface Restart {
  readonly do: "reload" | "restart";
  readonly gateway: number;
}

/** What became of an event. */
export type Answer = AskAnswer | CounterAnswer | Record<string, never>;

export interface AskAnswer {
  /** The status that the client sees: 200 of every request that passes. */
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** What the service behind is told beside the client's own headers, a line each. */
  readonly marks: string;
  readonly body: string;
  /** How long it waited for its decision. */
  readonly waitedUs: number;
  /** So much of that may be the work of a machine that is busy. */
  readonly doubtUs?: number;
}

export interface CounterAnswer {
  readonly limits: readonly CounterRow[];
}

export interface CounterRow {
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetAfterUs: number | string;
}

/** What one world says, event by event; `fault`: what went wrong in the player, such as an error of Lua. */
export interface Played {
  readonly answers: readonly Answer[];
  readonly fault?: string;
}
