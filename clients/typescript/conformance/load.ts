// So many callers who repeat one call until the time is over, and what they heard how fast.

import { setImmediate as others } from "node:timers/promises";
import type { Check, SluiceClient } from "../src/index.ts";

export interface LoadOrder {
  readonly callers: number;
  readonly seconds: number;
  readonly call: Check & { readonly call: string; readonly maxWaitMs?: number };
  /** Above 1: so many keys in turn. */
  readonly keys?: number;
}

export async function load(client: SluiceClient, { callers, seconds, call, keys = 1 }: LoadOrder): Promise<object> {
  const counts = { calls: 0, allowed: 0, refused: 0, errors: 0, failures: 0 };
  const tookMs: number[] = [];
  const startedAtMs = performance.now();
  const endsAtMs = startedAtMs + seconds * 1000;
  const repeat = async () => {
    while (performance.now() < endsAtMs) {
      const key = keys > 1 ? [...call.key.slice(0, -1), `${call.key.at(-1)}-${counts.calls % keys}`] : call.key;
      counts.calls += 1;
      const calledAtMs = performance.now();
      try {
        const { allowed, source } = await ask(client, call, key).finally(() =>
          tookMs.push(performance.now() - calledAtMs),
        );
        counts[allowed ? "allowed" : "refused"] += 1;
        if (source === "failure") counts.failures += 1;
        // Without a request, nothing else in this process would have a turn.
        if (source !== "gateway") await others();
      } catch {
        counts.errors += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, repeat));
  const took = Float64Array.from(tookMs).sort();
  const atMost = (share: number) => took[Math.max(0, Math.ceil(share * took.length) - 1)] ?? 0;
  return {
    ...counts,
    seconds: (performance.now() - startedAtMs) / 1000,
    p50Ms: atMost(0.5),
    p99Ms: atMost(0.99),
  };
}

function ask(client: SluiceClient, { call, policy, cost, plan, maxWaitMs }: LoadOrder["call"], key: readonly string[]) {
  if (call === "peek") return client.peek(policy, key, { cost, plan });
  if (call === "report") return client.report(policy, key, { cost, plan });
  if (call === "acquire") return client.acquire(policy, key, { maxWaitMs: maxWaitMs as number, cost, plan });
  return client.check(policy, key, { cost, plan });
}
