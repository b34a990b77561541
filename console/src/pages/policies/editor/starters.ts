// Policies to begin with: what people come for most often.

import type { Json } from "./draft.ts";

export const starters = ["perAddress", "perUser", "burst", "signIn", "smooth", "atOnce"] as const;
export type Starter = (typeof starters)[number];

export const starterDocuments: Readonly<Record<Starter, Json>> = {
  perAddress: {
    match: { paths: ["/api/*"] },
    key: ["ip"],
    limits: [{ algorithm: "sliding-window", quota: 600, window: "1m" }],
  },
  perUser: {
    match: { paths: ["/api/*"] },
    key: ["header:x-user-id"],
    onMissingKey: "deny",
    limits: [{ algorithm: "fixed-window", quota: 5_000, window: "1d" }],
  },
  burst: {
    match: { paths: ["/api/*"] },
    key: ["ip"],
    limits: [
      { name: "burst", algorithm: "token-bucket", quota: 10, window: "1s", burst: 30 },
      { name: "hourly", algorithm: "sliding-window", quota: 5_000, window: "1h" },
    ],
  },
  signIn: {
    match: { paths: ["/login"], methods: ["POST"] },
    key: ["ip"],
    limits: [{ algorithm: "sliding-log", quota: 5, window: "1m" }],
  },
  smooth: {
    match: { paths: ["/api/*"] },
    key: ["ip"],
    limits: [{ algorithm: "leaky-bucket", quota: 20, window: "1s", burst: 40 }],
  },
  atOnce: {
    match: { paths: ["/reports/*"] },
    key: ["ip"],
    limits: [{ algorithm: "concurrency", quota: 4, ttl: "60s" }],
  },
};
