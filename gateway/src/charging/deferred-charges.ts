// Policies whose requests cost what their responses take: asked before, when nothing is charged, and settled when the
// response has been sent.
//
// A request is known by its address in nginx and when it began: both stay the same through internal redirects, so that its
// response is settled once. The log phase may not yield; what needs a lock or Redis waits for a timer, summed by policy, plan and key,
// and Redis is told of many at once. Each store has a timer of its own, so that charges of a node never wait for Redis.

import { keepForRequest, newRequestField, ofRequest } from "../request/request-state.ts";
import { type AppPlaces, hasPlace, leavePlace, newPlaces, takePlace } from "../runtime/app-places.ts";
import { runUntilDone } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { dequeue, enqueue, lengthOf, newQueue, type Queue } from "../runtime/queue.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { owe } from "../stores/redis/debts.ts";
import { countUncharged } from "../stores/redis/deferred-charge.ts";
import { chargeShareInstead } from "../stores/share/share-store.ts";
import type { Charge, DeferredCharge } from "../stores/store.ts";
import { stores } from "./stores.ts";

/** Whose counters a response is charged to. A charge without limits: onStoreFailure let the request pass. */
type Payer = Pick<Charge, "policy" | "limits" | "keyValues" | "store" | "owed">;

/** For each store, by policy, plan and key: more are not settled. A megabyte or two. Apps share the places. */
const mostWaiting = 10_000;
/** The rest waits for the next timer, and is summed meanwhile. */
const mostTogether = 1_000;

/** Of the current request. A record of them is charged once, whatever redirects the request went through. */
const payersField = newRequestField<Payer[]>(chargeResponse);

/** Charges that wait for one store. */
interface Line {
  readonly waiting: Queue<DeferredCharge>;
  readonly byPayer: Record<string, DeferredCharge | undefined>;
  /** By the apps of the policies. */
  readonly places: AppPlaces;
  draining: boolean;
}

const lines: Partial<Record<DeferredCharge["store"], Line>> = {};

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
    if (owed !== undefined) owe(policy, keyValues, units, true);
    const charge = { policy, limits, keyValues, store, units, responses: 1 };
    if (stores[store].chargesAtOnce()) stores[store].chargeDeferred([charge], chargeShareInstead);
    else queueCharge(charge);
  }
}

function queueCharge(charge: DeferredCharge): void {
  const { policy, store, units } = charge;
  const line = lines[store] ?? newLine(store);
  const name = nameOf(charge);
  const earlier = line.byPayer[name];
  // An edit has made other limits meanwhile.
  if (earlier !== undefined && earlier.policy.limits === policy.limits) {
    earlier.units += units;
    earlier.responses += 1;
  } else if (!hasPlace(line.places, policy.app, mostWaiting)) {
    countUncharged(1);
  } else {
    takePlace(line.places, policy.app);
    enqueue(line.waiting, charge);
    line.byPayer[name] = charge;
  }
  if (line.draining) return;
  const failure = runUntilDone(() => drain(store, line));
  // Without a timer they wait for the next response.
  if (failure !== undefined) warnSparingly("responses are charged late", failure);
  else line.draining = true;
}

function newLine(store: DeferredCharge["store"]): Line {
  const line: Line = { waiting: newQueue(), byPayer: {}, places: newPlaces(), draining: false };
  lines[store] = line;
  return line;
}

function nameOf({ policy, keyValues }: DeferredCharge): string {
  return `${policy.counterPrefix}${policy.plan ?? ""}\n${keyValues}`;
}

/** @returns whether more wait by now */
function drain(store: DeferredCharge["store"], line: Line): boolean {
  const charges = takeSome(line);
  const [charged, failure] = pcall(stores[store].chargeDeferred, charges, chargeShareInstead);
  if (!charged) noteDefect("timers", "responses were not charged", failure);
  line.draining = lengthOf(line.waiting) > 0;
  return line.draining;
}

function takeSome({ waiting, byPayer, places }: Line): DeferredCharge[] {
  const charges: DeferredCharge[] = [];
  while (charges.length < mostTogether) {
    const charge = dequeue(waiting);
    if (charge === undefined) break;
    byPayer[nameOf(charge)] = undefined;
    leavePlace(places, charge.policy.app);
    charges.push(charge);
  }
  return charges;
}
