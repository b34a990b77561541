// The decision of a call. The gateway decides, or the client's memory of refusals, or `onFailure` if no gateway could be asked.

/** Who decided. */
export type Source = "gateway" | "memory" | "failure";

export interface Decision {
  readonly allowed: boolean;
  readonly policy: string;
  /** The figures are those of the limit that is nearest to refusing. They are absent if no limit decided. */
  readonly limit?: number;
  readonly remaining?: number;
  /** Seconds; null: waiting cannot help. */
  readonly retryAfter?: number | null;
  /** Seconds; null: never. */
  readonly resetAfter?: number | null;
  /** Seconds to wait before going on, of a leaky-bucket. */
  readonly delay?: number;
  /** Seconds in line, of `acquire`, and of `hold` with a wait. */
  readonly waited?: number;
  /** Units, of `report` only. */
  readonly debt?: number;
  /** Why no limit decided: "banned", "exempt", "failure" … */
  readonly reason?: string;
  readonly source: Source;
  /** A sentence that says what failed, if `source` is "failure". */
  readonly failure?: string;
}

export type ReportDecision = Decision & {
  /** The units that were charged beyond what was left; 0 if none were, or if no limit decided. */
  readonly debt: number;
};

export interface DecisionOfAll {
  /** Whether all are allowed, and therefore charged. */
  readonly allowed: boolean;
  /** One for each check, in their order. */
  readonly results: readonly Decision[];
  readonly source: Source;
  readonly failure?: string;
}

/** Returns what `onFailure` decides. */
export function decidedByFailure(policy: string, allowed: boolean, failure: string): Decision {
  return { allowed, policy, reason: "failure", source: "failure", failure };
}
