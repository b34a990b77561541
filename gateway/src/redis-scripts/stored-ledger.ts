// The format of a ledger of leases in Redis: one string with a line for each holding,
//
//   "node-1:8080:k3f 12 40 1700000000300000 50 25 15 300000 0\n"
//     holder, seq, outstanding, expiry, want, grant, honoured, duration, retry after: see `Holding`
//
// with a time to live after which nothing is owed for it. Its key shares the hash tag of the counters.

import type { Holding, Ledger } from "../../../limiter/src/lease/ledger.ts";
import { longestLifetimeMs, passOver } from "./counter.ts";

declare const redis: {
  pcall(this: void, command: "GET", key: string): string | false;
  call(this: void, command: "SET", key: string, value: string, px: "PX", ms: string): void;
};

const line = "^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)\n";

/** The stored value is read up to the first line that is not a holding; the rest is ignored. */
export function loadLedger(key: string, ledger: Ledger): void {
  ledger.count = 0;
  const stored = redis.pcall("GET", key);
  if (stored === false || stored.length === 0) {
    passOver(stored, key);
  } else {
    let at = 1;
    let goesOn = true;
    while (goesOn) {
      const [first, last, holder, seq, outstanding, expiryUs, want, grant, honoured, durationUs, retryAfterUs] =
        string.find(stored, line, at);
      if (first === undefined || last === undefined) {
        goesOn = false;
      } else {
        ledger.holdings[ledger.count] = {
          holder: holder as string,
          seq: tonumber(seq) as number,
          outstanding: tonumber(outstanding) as number,
          expiryUs: tonumber(expiryUs) as number,
          want: tonumber(want) as number,
          grant: tonumber(grant) as number,
          honoured: tonumber(honoured) as number,
          durationUs: tonumber(durationUs) as number,
          retryAfterUs: tonumber(retryAfterUs) as number,
        };
        ledger.count += 1;
        at = last + 1;
      }
    }
  }
}

export function saveLedger(key: string, ledger: Ledger, lifetimeUs: number): void {
  let text = "";
  for (let i = 0; i < ledger.count; i++) {
    const holding = ledger.holdings[i] as Holding;
    text += string.format(
      "%s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f\n",
      holding.holder,
      holding.seq,
      holding.outstanding,
      holding.expiryUs,
      holding.want,
      holding.grant,
      holding.honoured,
      holding.durationUs,
      holding.retryAfterUs,
    );
  }
  const lifeMs = math.min(math.ceil(lifetimeUs / 1000), longestLifetimeMs);
  redis.call("SET", key, text, "PX", string.format("%.0f", lifeMs));
}
