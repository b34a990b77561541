// Reports the decision that a charge would get, and charges nothing.
//
// KEYS   the counters; for a leased policy then its ledger: units that are out on leases have not refilled
// ARGV   for each counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), cost (units)
// reply  for each counter: 1 if it would allow the charge else 0, remaining now (units), retry after (µs, -1 for never), reset
//        after (µs), delay (µs)
// The time is Redis' own. The script writes nothing.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { refuseUnpaid } from "../../../limiter/src/algorithms/deferred-charge.ts";
import { admits, describe } from "../../../limiter/src/algorithms/rate.ts";
import { type Ledger, oweWhatIsOut } from "../../../limiter/src/lease/ledger.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, unpaidUs } from "./counter.ts";
import { loadLedger } from "./stored-ledger.ts";

const argsPerCounter = 5;

export function peekCounters(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const count = argv.length / argsPerCounter;
  const ledger: Ledger | undefined = keys.length > count ? { holdings: [], count: 0 } : undefined;
  if (ledger !== undefined) loadLedger(keys[count] as string, ledger);
  const decision = emptyDecision();
  const reply: number[] = [];
  for (let i = 0; i < count; i++) {
    const at = i * argsPerCounter;
    const rate = rateFrom(argv[at] as string, argv, at + 1);
    const cost = tonumber(argv[at + 4]) as number;
    const state = counterAt(keys[i] as string);
    loadCounter(rate, state, nowUs);
    if (ledger !== undefined) oweWhatIsOut(ledger, rate, state, nowUs);
    const owesUs = unpaidUs(rate, state, nowUs, false);
    const admitted = admits(rate, state, redisRing, nowUs + owesUs, cost);
    const allowed = admitted && owesUs === 0;
    describe(rate, state, redisRing, nowUs + owesUs, cost, admitted, decision);
    if (owesUs > 0) refuseUnpaid(decision, owesUs);
    reply.push(allowed ? 1 : 0);
    reply.push(decision.remaining);
    reply.push(decision.retryAfterUs);
    reply.push(decision.resetAfterUs);
    reply.push(decision.delayUs);
  }
  return reply;
}
