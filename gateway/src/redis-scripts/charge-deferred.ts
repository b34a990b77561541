// Charges units that were used already, available or not, and reports whether another request may pass.
//
// KEYS   for each counter: the counter and its debt; in `charge_deferred_leased` then the ledger of its policy
// ARGV   five for each counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), units (0: only checks;
//        −1: for display to an operator)
// reply  five for each counter: 1 if nothing is owed and a unit is available else 0, remaining (units), retry after (µs, -1 for never), reset
//        after (µs), how many of the units were charged beyond what was left
// Units that are out on leases have not refilled. The time is Redis' own. The script is atomic, like every script. If it only checks and
// another request may pass, the script fails if Redis accepts no writes: the units that this request uses later could not be charged.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import {
  admitsWithDebt,
  chargeDeferred,
  movesWithClock,
  standsFromUs,
} from "../../../limiter/src/algorithms/deferred-charge.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { type Ledger, oweWhatIsOut } from "../../../limiter/src/lease/ledger.ts";
import {
  counterAt,
  demandWritable,
  keepCounter,
  loadCounter,
  loadDebt,
  rateFrom,
  redisRing,
  redisTimeUs,
  saveCounter,
  saveDebt,
} from "./counter.ts";
import { loadLedger } from "./stored-ledger.ts";

/** Whether the policies are leased. */
declare const LEASED: "yes" | "no";

export function chargeDeferredCounters(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const keysPerCounter = LEASED === "yes" ? 3 : 2;
  const count = keys.length / keysPerCounter;
  const ledger: Ledger = { holdings: [], count: 0 };
  const reply: number[] = [];
  const decision = emptyDecision();
  let letsGoOn = true;
  for (let i = 0; i < count; i++) {
    const rate = rateFrom(argv[i * 5] as string, argv, i * 5 + 1);
    const units = tonumber(argv[i * 5 + 4]) as number;
    const state = counterAt(keys[i * keysPerCounter] as string);
    const debtKey = keys[i * keysPerCounter + 1] as string;
    loadCounter(rate, state, nowUs);
    if (LEASED === "yes") {
      loadLedger(keys[i * keysPerCounter + 2] as string, ledger);
      oweWhatIsOut(ledger, rate, state, nowUs);
    }
    const debt = loadDebt(debtKey);
    let fromUs = standsFromUs(rate, debt, nowUs);
    let beyond = 0;
    if (units > 0) {
      admitsWithDebt(rate, state, redisRing, nowUs, fromUs, decision);
      beyond = math.max(units - decision.remaining, 0);
      fromUs = chargeDeferred(rate, state, redisRing, fromUs, units);
      keepCounter(rate, state, fromUs - nowUs + lifetimeUs(rate, state, fromUs));
      if (fromUs > nowUs) saveDebt(debtKey, fromUs, nowUs, rate.quota);
      state.stepped = false;
    } else if (movesWithClock(rate, debt, nowUs)) {
      saveDebt(debtKey, fromUs, nowUs, rate.quota);
    }
    const allowed = admitsWithDebt(rate, state, redisRing, nowUs, fromUs, decision);
    if (state.stepped) saveCounter(rate, state, nowUs);
    if (!allowed || units !== 0) letsGoOn = false;
    reply[i * 5] = allowed ? 1 : 0;
    reply[i * 5 + 1] = decision.remaining;
    reply[i * 5 + 2] = decision.retryAfterUs;
    reply[i * 5 + 3] = decision.resetAfterUs;
    reply[i * 5 + 4] = beyond;
  }
  if (letsGoOn) demandWritable(keys[1] as string);
  return reply;
}
