// The policies that Sluice enforces next to an operator's own Lua: a hundred policies of all algorithms, some of which apply to
// the requests.
import type { PolicyDocument } from "../policies.ts";

const rates = [
  { algorithm: "token-bucket", quota: 1_000_000, window: "1s", burst: 1_000_000 },
  { algorithm: "fixed-window", quota: 1_000_000_000, window: "1d" },
  { algorithm: "sliding-window", quota: 1_000_000_000, window: "1m" },
  { algorithm: "concurrency", quota: 10_000 },
] as const;

export const policiesInForce: readonly PolicyDocument[] = Array.from({ length: 100 }, (_, i) => ({
  name: `p${i}`,
  match: { hosts: [`h${Math.floor(i / 10)}.example`], paths: [`/sluice/${i % 10}`] },
  key: ["ip"],
  scope: i % 10 === 9 ? "cluster" : "node",
  limits: [rates[i % rates.length]],
}));
