// Lines of what gateways report.

const counts = { admitted: 1, refused: 0, shadowRefused: 0, delayed: 0, degraded: 0 };

export function lineOf(policy: string) {
  return { app: "a", policy, fromMs: 0, toMs: 1, counts };
}

/** A list of keys, of 620 bytes each. */
export function listOf(keys: number) {
  return {
    app: "a",
    policy: "p",
    key: ["ip"],
    result: "refused" as const,
    keys: Array<string>(keys).fill("\u0001".repeat(100)),
    counts: Array<number>(keys).fill(1),
    error: 0,
    unlisted: 0,
  };
}
