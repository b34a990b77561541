// Charges counters of one limit, each on its own, one after the other. They may belong to one request or to many.
//
// KEYS   the counters
// ARGV   quota (units), window (µs), burst (units) or precision (µs), cost (units)
// reply  a string with six numbers for each counter, 8 bytes each: 1 if the counter allows else 0, remaining (units), retry after
//        (µs, -1 for never), reset after (µs), delay (µs), charged at (µs): the moment in the counter's state, which a refund needs
// A counter that owes units allows nothing. The time is Redis' own, and the same for all counters. The script is atomic, like every script.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { refuseUnpaid } from "../../../limiter/src/algorithms/deferred-charge.ts";
import { admits, charge, describe } from "../../../limiter/src/algorithms/rate.ts";
import { counterAt, loadCounter, rateFrom, redisRing, redisTimeUs, saveCounter, unpaidUs } from "./counter.ts";

declare const ALGORITHM: string;

/** Redis' own library for packed numbers. */
declare const struct: {
  pack(this: void, format: string, ...numbers: number[]): string;
};
declare namespace table {
  function concat(this: void, texts: string[]): string;
}

export function chargeBatch(keys: string[], argv: string[]): string {
  const nowUs = redisTimeUs();
  const rate = rateFrom(ALGORITHM, argv, 0);
  const cost = tonumber(argv[3]) as number;
  const reply: string[] = [];
  for (let i = 0; i < keys.length; i++) {
    const state = counterAt(keys[i] as string);
    loadCounter(rate, state, nowUs);
    let owesUs = 0;
    if (ALGORITHM !== "concurrency") owesUs = unpaidUs(rate, state, nowUs, true);
    const admitted = admits(rate, state, redisRing, nowUs + owesUs, cost);
    const allowed = admitted && owesUs === 0;
    if (allowed) charge(rate, state, redisRing);
    if (allowed || state.stepped) saveCounter(rate, state, nowUs);
    const decision = emptyDecision();
    describe(rate, state, redisRing, nowUs + owesUs, cost, admitted, decision);
    if (owesUs > 0) refuseUnpaid(decision, owesUs);
    reply[i] = struct.pack(
      "<dddddd",
      allowed ? 1 : 0,
      decision.remaining,
      decision.retryAfterUs,
      decision.resetAfterUs,
      decision.delayUs,
      state.atUs,
    );
  }
  return table.concat(reply);
}
