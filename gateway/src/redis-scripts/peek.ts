// Reports the decision that a charge would get, and charges nothing.
//
// KEYS   the counter; for a leased policy then its ledger: units that are out on leases have not refilled
// ARGV   algorithm, quota (units), window (µs), burst (units) or precision (µs), cost (units)
// reply  [1 if the charge would be allowed else 0, remaining now (units), retry after (µs, -1 for never), reset after (µs),
//        delay (µs)]
// The time is Redis' own. The script writes nothing.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { admits, describe } from "../../../limiter/src/algorithms/rate.ts";
import { type Ledger, oweWhatIsOut } from "../../../limiter/src/lease/ledger.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs } from "./counter.ts";
import { loadLedger } from "./stored-ledger.ts";

export function peekCounter(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const rate = rateFrom(argv[0] as string, argv, 1);
  const cost = tonumber(argv[4]) as number;
  const state = counterAt(keys[0] as string);
  loadCounter(rate, state);
  if (keys.length > 1) {
    const ledger: Ledger = { holdings: [], count: 0 };
    loadLedger(keys[1] as string, ledger);
    oweWhatIsOut(ledger, rate, state, nowUs);
  }
  const allowed = admits(rate, state, redisRing, nowUs, cost);
  const decision = emptyDecision();
  describe(rate, state, redisRing, nowUs, cost, allowed, decision);
  return [allowed ? 1 : 0, decision.remaining, decision.retryAfterUs, decision.resetAfterUs, decision.delayUs];
}
