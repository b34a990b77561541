// Processes a gateway's message about its lease: takes back the units that it returns, grants and debits the units that it may spend.
//
// KEYS   the ledger, then the counters of the policy's limits, all in one slot
// ARGV   holder (no blanks), seq, acknowledged, kept (units), back (units), want (units), horizon (µs), lifetime (µs): as in
//        `LeaseMessage` and `LeaseParameters`; then four for each counter: algorithm, quota (units), window (µs), burst (units)
//        or precision (µs)
// reply  [1 (0 if a later message has already been processed), seq of the message answered, grant (units), honoured (units),
//        duration (µs), retry after (µs), elsewhere (units)]: `LeaseAnswer`; then two for each counter: remaining (units),
//        reset after (µs)
// A repeated message gets the same reply and changes nothing; only elsewhere, remaining and reset after may have changed since. The
// time is Redis' own. The script is atomic, like every script: ledger and counters change together or not at all.

import type { Counter } from "../../../limiter/src/algorithms/charge-all.ts";
import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { refuseUnpaid } from "../../../limiter/src/algorithms/deferred-charge.ts";
import { admits, describe } from "../../../limiter/src/algorithms/rate.ts";
import {
  exchange,
  type Holding,
  type Ledger,
  ledgerLifetimeUs,
  overtaken,
  unitsElsewhere,
} from "../../../limiter/src/lease/ledger.ts";
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
import { loadLedger, saveLedger } from "./stored-ledger.ts";

type LeasedCounter = StoredCounter & Counter;

const limitsAt = 8;
const numbersPerLimit = 4;

export function exchangeLease(keys: string[], argv: string[]): number[] {
  const nowUs = redisTimeUs();
  const count = keys.length - 1;
  const ledger: Ledger = { holdings: [], count: 0 };
  loadLedger(keys[0] as string, ledger);
  const counters: LeasedCounter[] = [];
  for (let i = 0; i < count; i++) {
    const at = limitsAt + i * numbersPerLimit;
    const counter = counterAt(keys[i + 1] as string) as LeasedCounter;
    counter.rate = rateFrom(argv[at] as string, argv, at + 1);
    counter.cost = 1;
    loadCounter(counter.rate, counter, nowUs);
    counter.unpaidUs = unpaidUs(counter.rate, counter, nowUs, true);
    counters[i] = counter;
  }

  const message = {
    holder: argv[0] as string,
    seq: tonumber(argv[1]) as number,
    acknowledged: tonumber(argv[2]) as number,
    kept: tonumber(argv[3]) as number,
    back: tonumber(argv[4]) as number,
    want: tonumber(argv[5]) as number,
  };
  const parameters = { horizonUs: tonumber(argv[6]) as number, lifetimeUs: tonumber(argv[7]) as number };
  const place = exchange(ledger, counters, count, redisRing, nowUs, message, parameters);
  if (place === overtaken) return [0, 0, 0, 0, 0, 0, 0];

  const holding = ledger.holdings[place] as Holding;
  saveLedger(keys[0] as string, ledger, ledgerLifetimeUs(ledger, counters, count, nowUs));
  const decision = emptyDecision();
  const { seq, grant, honoured, durationUs, retryAfterUs } = holding;
  const elsewhere = unitsElsewhere(ledger, place, nowUs);
  const reply: number[] = [1, seq, grant, honoured, durationUs, retryAfterUs, elsewhere];
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as LeasedCounter;
    if (counter.atUs > 0) saveCounter(counter.rate, counter, nowUs);
    admits(counter.rate, counter, redisRing, nowUs + counter.unpaidUs, 0);
    describe(counter.rate, counter, redisRing, nowUs + counter.unpaidUs, 1, true, decision);
    if (counter.unpaidUs > 0) refuseUnpaid(decision, counter.unpaidUs);
    reply[i * 2 + 7] = decision.remaining;
    reply[i * 2 + 8] = decision.resetAfterUs;
  }
  return reply;
}
