// Charges a group of counters: all or none.
//
// KEYS   the counters; in `charge_leased` they are followed by the same number of ledgers
// ARGV   five for each counter: algorithm, quota (units), window (µs), burst (units) or precision (µs), cost (units)
// reply  [1 if allowed else 0, then six for each counter: 1 if the counter allows else 0, remaining (units), retry after (µs, -1
//        for never), reset after (µs), delay (µs), charged at (µs): the moment in the counter's state, which a refund needs]
// A counter's ledger is that of its policy; for a policy that is not leased, it is the key where its ledger would be. Units that are
// out on leases have not refilled. Ledgers are only read. A counter that owes units allows nothing. The time is Redis' own. The script is atomic, like every script: no other
// command runs between the first read and the last write.

import { type Counter, chargeAll, describeCounter } from "../../../limiter/src/algorithms/charge-all.ts";
import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { type Ledger, oweWhatIsOut } from "../../../limiter/src/lease/ledger.ts";
import {
  counterAt,
  loadCounter,
  rateFrom,
  redisRing,
  redisTimeUs,
  type StoredCounter,
  saveCounter,
  unpaidUs,
} from "./counter.ts";
import { loadLedger } from "./stored-ledger.ts";

/** Whether any of these policies is leased. */
declare const LEASED: "yes" | "no";

type RequestedCounter = StoredCounter & Counter;

export function chargeCounters(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const count = LEASED === "yes" ? keys.length / 2 : keys.length;
  const ledger: Ledger = { holdings: [], count: 0 };
  const counters: RequestedCounter[] = [];
  for (let i = 0; i < count; i++) {
    const counter = counterAt(keys[i] as string) as RequestedCounter;
    counter.rate = rateFrom(argv[i * 5] as string, argv, i * 5 + 1);
    counter.cost = tonumber(argv[i * 5 + 4]) as number;
    loadCounter(counter.rate, counter, nowUs);
    if (LEASED === "yes") {
      if (i === 0 || keys[count + i] !== keys[count + i - 1]) loadLedger(keys[count + i] as string, ledger);
      oweWhatIsOut(ledger, counter.rate, counter, nowUs);
    }
    counter.unpaidUs = unpaidUs(counter.rate, counter, nowUs, true);
    counters[i] = counter;
  }

  const allowed = chargeAll(counters, count, redisRing, nowUs);
  const decision = emptyDecision();
  const reply: number[] = [allowed ? 1 : 0];
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as RequestedCounter;
    if (allowed || counter.stepped) saveCounter(counter.rate, counter, nowUs);
    describeCounter(counter, redisRing, nowUs, counter.cost, decision);
    reply[i * 6 + 1] = counter.allowed ? 1 : 0;
    reply[i * 6 + 2] = decision.remaining;
    reply[i * 6 + 3] = decision.retryAfterUs;
    reply[i * 6 + 4] = decision.resetAfterUs;
    reply[i * 6 + 5] = decision.delayUs;
    reply[i * 6 + 6] = counter.atUs;
  }
  return reply;
}
