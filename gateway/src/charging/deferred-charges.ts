// Policies whose requests cost what their responses take: asked before, when nothing is charged, and settled when the
// response has been sent.
//
// A request is known by its address in nginx and when it began: both stay the same through internal redirects, so that its
// response is settled once. The log phase may not yield; what needs a lock or Redis waits for one timer of the worker, summed
// by policy and key, and Redis is told of many at once.

import { keepForRequest, newRequestField, ofRequest } from "../request/request-state.ts";
import { runUntilDone } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { owe } from "../stores/redis/debts.ts";
import { countUncharged } from "../stores/redis/deferred-charge.ts";
import { chargeShareInstead } from "../stores/share/share-store.ts";
import type { Charge, DeferredCharge } from "../stores/store.ts";
import { stores } from "./stores.ts";

/** Whose counters a response is charged to. A charge without limits: onStoreFailure let the request pass. */
type Payer = Pick<Charge, "policy" | "limits" | "keyValues" | "store" | "owed">;

/** Of one worker, by policy and key: more are not settled. A megabyte or two. */
const mostWaiting = 10_000;

/** Of the current request. A record of them is charged once, whatever redirects the request went through. */
const payersField = newRequestField<Payer[]>(chargeResponse);

let waiting: DeferredCharge[] = [];
let waitingByPayer: Record<string, DeferredCharge | undefined> = {};
let draining = false;

/** Notes that the current request went on: its response will be charged. */
export function deferCharge({ policy, limits, keyValues, store, owed }: Payer): void {
  const payers = ofRequest(payersField) ?? [];
  for (const payer of payers) {
    // Met again in another location, behind an internal redirect.
    if (payer.policy.counterPrefix === policy.counterPrefix && payer.keyValues === keyValues) return;
  }
  payers.push({ policy, limits, keyValues, store, owed });
  if (payers.length === 1) keepForRequest(payersField, payers);
}

/** Charges what the response took, the bytes of its body that were sent. Without the log phase, nobody knows how many. */
function chargeResponse(this: void, payers: readonly Payer[], inLogPhase: boolean): void {
  const units = inLogPhase ? (tonumber(ngx.var["body_bytes_sent"]) ?? 0) : 0;
  if (units < 1) return;
  for (const { policy, limits, keyValues, store, owed } of payers) {
    if (owed !== undefined) owe(policy, keyValues, units);
    const charge = { policy, limits, keyValues, store, units, responses: 1 };
    if (stores[store].chargesAtOnce()) stores[store].chargeDeferred([charge], chargeShareInstead);
    else queueCharge(charge);
  }
}

function queueCharge(charge: DeferredCharge): void {
  const { policy, keyValues, store, units } = charge;
  const name = policy.counterPrefix + keyValues;
  const earlier = waitingByPayer[name];
  // A share of a node is not Redis' to charge.
  if (earlier !== undefined && earlier.store === store) {
    earlier.units += units;
    earlier.responses += 1;
  } else if (waiting.length >= mostWaiting) {
    countUncharged(1);
  } else {
    waiting.push(charge);
    waitingByPayer[name] = charge;
  }
  if (draining) return;
  const failure = runUntilDone(drain);
  // Without a timer they wait for the next response.
  if (failure !== undefined) warnSparingly("responses are charged late", failure);
  else draining = true;
}

/** @returns whether more wait by now */
function drain(): boolean {
  const charges = waiting;
  waiting = [];
  waitingByPayer = {};
  const [charged, failure] = pcall(chargeAll, charges);
  if (!charged) noteDefect("timers", "responses were not charged", failure);
  draining = waiting.length > 0;
  return draining;
}

function chargeAll(charges: readonly DeferredCharge[]): void {
  for (const name of ["node", "share", "exact"] as const) {
    const own = charges.filter(({ store }) => store === name);
    if (own.length === 0) continue;
    stores[name].chargeDeferred(own, chargeShareInstead);
  }
}
