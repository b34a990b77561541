// Slots of concurrency that requests of this worker hold: renewed while the request lives, refunded when it has ended. A request holds them
// from its charge on, although it may still wait for others to decide it: its client decides how long that takes. A worker that is killed
// renews nothing: its slots come back after their time to live.

import type { SlidingWindow } from "../../../limiter/src/algorithms/sliding-window.ts";
import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { countEvent } from "../metrics/counts.ts";
import { endUnnoticed, keepForRequest, newRequestField, ofRequest } from "../request/request-state.ts";
import { runEvery, runInTimer, runSoon } from "../runtime/background.ts";
import { sleepMs } from "../runtime/clock.ts";
import { noteDefect } from "../runtime/defects.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { roundTrips } from "../stores/redis/slot-renewals.ts";
import type { Charge, Hold, Outcome } from "../stores/store.ts";
import { refundAll, refundLater } from "./refunds.ts";
import { stores } from "./stores.ts";

const renewalsPerLife = 3;
/** How often holds are looked at: a shorter life than some of these is not renewed in time. */
const lookEverySeconds = 0.1;
/** For so long slots on the node are renewed at a time; the rest is due when they are looked at next. */
const longestLookSeconds = 0.02;
/** How many holds are looked at before the time is. */
const holdsBetweenLooks = 16;
/** How often somebody looks who waits for a renewal. */
const awaitRenewalMs = 10;
/** Instead of the moment at which slots are held: they were lost, and others had them when they were to be renewed. */
const unheld = 0;
const notRenewed = "slots were not renewed";

/** Those of an app's requests, in no order. */
interface AppHolds {
  readonly list: Hold[];
  /** Where the next look begins: one may end before it has seen all. */
  next: number;
}

/** By app; each has some. */
const holdsOfApps: Record<string, AppHolds | undefined> = emptyTable();
/** Where each hold is in its app's list. */
const places = new LuaTable<Hold, number | undefined>();
let holdCount = 0;
let renewing = false;
let renewingInRedis = false;
const holdsField = newRequestField<Hold[]>((own) => {
  for (const hold of own) release(hold);
});

/** For each worker's start. */
export function keepSlots(): void {
  runEvery(lookEverySeconds, (premature) => {
    // nginx takes the timer from a worker that is to end, but lets its requests finish: they hold on to their slots.
    if (premature) runInTimer(lingerWithRequests);
    else look();
  });
}

/** nginx waits for this timer: it has to end with the last request, however that ends. */
function lingerWithRequests(): void {
  for (const app in holdsOfApps) {
    const { list } = holdsOfApps[app] as AppHolds;
    for (let i = list.length - 1; i >= 0; i--) {
      const hold = list[i] as Hold;
      if (!hold.isEndNoticed) forget(hold);
    }
  }
  while (holdCount > 0) {
    endUnnoticed();
    look();
    ngx.sleep(lookEverySeconds);
  }
}

function look(): void {
  // Renewing waits for a lock, and the timer comes again meanwhile.
  if (holdCount === 0 || renewing) return;
  renewing = true;
  const [renewed, failure] = pcall(renewAllDue);
  renewing = false;
  if (!renewed) noteDefect("timers", notRenewed, failure);
}

/**
 * Notes the slots that a charge took: they are the request's until it ends.
 *
 * @returns undefined: it took none. A charge without limits did not, because onStoreFailure let it pass
 */
export function holdSlots({ policy, limits, keyValues, chargedAt, store, redis }: Charge): Hold | undefined {
  const held: CompiledLimit[] = [];
  const heldAtUs: number[] = [];
  let shortestSeconds = math.huge;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    if (!isOfSlots(limit)) continue;
    held.push(limit);
    heldAtUs.push(chargedAt[i] as number);
    shortestSeconds = math.min(shortestSeconds, limit.rate.windowUs / 1_000_000);
  }
  if (held.length === 0) return undefined;
  const renewEverySeconds = shortestSeconds / renewalsPerLife;
  const own = ofRequest(holdsField) ?? [];
  const hold: Hold = {
    isEndNoticed: keepForRequest(holdsField, own),
    policy,
    limits: held,
    keyValues,
    chargedAt: heldAtUs,
    store,
    redis,
    renewEverySeconds,
    renewAtSeconds: stopwatchSeconds() + renewEverySeconds,
    renewing: false,
    ended: false,
  };
  own.push(hold);
  remember(hold);
  return hold;
}

/**
 * The same for a request that other policies are still to decide: it may wait for them. What the charge took besides slots stays among the
 * outcome's charges.
 *
 * @param policy that has just decided the request
 */
export function holdUndecided(outcome: Outcome, policy: CompiledPolicy): undefined {
  const { charges } = outcome;
  const charge = charges[charges.length - 1];
  // A request that is over the limit may go on with a mark, and has taken nothing.
  if (charge?.policy !== policy) return;
  const hold = holdSlots(charge);
  if (hold === undefined) return;
  charges.pop();
  for (const rest of withoutSlots(charge)) charges.push(rest);
  outcome.held ??= [];
  outcome.held.push(hold);
}

/** Returns what a charge took besides slots: one charge or none. */
export function withoutSlots(charge: Charge): Charge[] {
  const { limits, chargedAt, owed } = charge;
  const rest = limits.filter((limit) => !isOfSlots(limit));
  if (rest.length === 0 && owed === undefined) return [];
  return [{ ...charge, limits: rest, chargedAt: chargedAt.filter((_, i) => !isOfSlots(limits[i] as CompiledLimit)) }];
}

/** Whether somebody else has some of these slots by now: they were reset, or not renewed in time. */
export function isLost({ chargedAt }: Hold): boolean {
  return chargedAt.includes(unheld);
}

/** The request is refused after all. May yield. */
export function releaseSlots(held: readonly Hold[]): void {
  const settled = held.filter(({ renewing }) => !renewing);
  for (const hold of held) end(hold);
  refundAll(settled);
}

/**
 * Takes the slots from the current request, and gives them to whoever holds its charge: they live for a whole life from now on. Waits until
 * they have been renewed.
 *
 * @param charge that took them; it says afterwards where they are
 * @returns false: they were lost
 */
export function handOver(hold: Hold, charge: Charge): boolean {
  hold.renewAtSeconds = 0;
  while (places.has(hold) && (hold.renewing || hold.renewAtSeconds === 0)) sleepMs(awaitRenewalMs);
  end(hold);
  let next = 0;
  for (let i = 0; i < charge.limits.length; i++) {
    if (!isOfSlots(charge.limits[i] as CompiledLimit)) continue;
    charge.chargedAt[i] = hold.chargedAt[next] as number;
    next += 1;
  }
  return !isLost(hold);
}

function isOfSlots({ rate }: CompiledLimit): boolean {
  return rate.algorithm === "concurrency";
}

function remember(hold: Hold): void {
  const { app } = hold.policy;
  let own = holdsOfApps[app];
  if (own === undefined) {
    own = { list: [], next: 0 };
    holdsOfApps[app] = own;
  }
  places.set(hold, own.list.length);
  own.list.push(hold);
  holdCount += 1;
}

function forget(hold: Hold): void {
  const place = places.get(hold);
  if (place === undefined) return;
  const { app } = hold.policy;
  const { list } = holdsOfApps[app] as AppHolds;
  const last = list.pop() as Hold;
  if (last !== hold) {
    list[place] = last;
    places.set(last, place);
  }
  places.delete(hold);
  if (list.length === 0) holdsOfApps[app] = undefined;
  holdCount -= 1;
}

/** It is not the request's any more: nothing renews it, and the request's end does not release it. */
function end(hold: Hold): void {
  forget(hold);
  hold.ended = true;
}

/** The request has ended. */
function release(hold: Hold): void {
  if (hold.ended) return;
  end(hold);
  // Otherwise it is refunded when it has been renewed: only then is it known where it lies.
  if (!hold.renewing) refundLater(hold);
}

/**
 * Looks at one hold of each app in turn, until all were seen or the time is over: an app with more holds than there is time for loses slots of
 * its own.
 */
function renewAllDue(): void {
  const inRedis: Hold[] = [];
  const seen = new LuaTable<Hold, boolean>();
  const nowSeconds = stopwatchSeconds();
  const untilSeconds = nowSeconds + longestLookSeconds;
  const left = emptyTable<number>();
  for (const app in holdsOfApps) left[app] = (holdsOfApps[app] as AppHolds).list.length;
  let looked = 0;
  for (let isOver = false; !isOver; ) {
    isOver = true;
    // Renewing may yield, and holds come and go meanwhile.
    for (const app in left) {
      const count = left[app] as number;
      const own = holdsOfApps[app];
      if (count === 0 || own === undefined) continue;
      left[app] = count - 1;
      isOver = false;
      const hold = nextOf(own);
      if (nowSeconds >= hold.renewAtSeconds) {
        if (hold.store !== "exact") renew(hold.store, [hold]);
        else if (!renewingInRedis && !seen.has(hold)) {
          // The list may have become shorter, and begin again.
          seen.set(hold, true);
          inRedis.push(hold);
        }
      }
      looked += 1;
      if (looked % holdsBetweenLooks === 0 && stopwatchSeconds() > untilSeconds) {
        isOver = true;
        break;
      }
    }
  }
  if (inRedis.length === 0) return;
  if (ngx.worker.exiting()) {
    renewInRedis(inRedis);
    return;
  }
  renewingInRedis = true;
  const failure = runSoon(() => {
    const [renewed, defect] = pcall(renewInRedis, inRedis);
    renewingInRedis = false;
    if (!renewed) noteDefect("timers", notRenewed, defect);
  });
  if (failure === undefined) return;
  renewingInRedis = false;
  renewInRedis(inRedis);
}

/** Waits for Redis: slots on the node are looked at meanwhile. */
function renewInRedis(this: void, due: readonly Hold[]): void {
  for (const together of roundTrips(due)) renew("exact", together);
}

function nextOf(own: AppHolds): Hold {
  const { list, next } = own;
  const place = next < list.length ? next : 0;
  own.next = place + 1;
  return list[place] as Hold;
}

/** @param due those whose requests have ended meanwhile are refunded already */
function renew(store: Charge["store"], due: readonly Hold[]): void {
  const held = due.filter((hold) => !hold.ended);
  if (held.length === 0) return;
  const now = stopwatchSeconds();
  for (const hold of held) {
    hold.renewAtSeconds = now + hold.renewEverySeconds;
    hold.renewing = true;
  }
  const [renewed, failure] = pcall(stores[store].renew, held, noteRenewal);
  for (const hold of held) {
    hold.renewing = false;
    if (hold.ended) refundLater(hold);
  }
  if (renewed) return;
  if (held.length === 1) noteDefect("timers", notRenewed, failure);
  // A failure of one does not keep the others.
  else for (const hold of held) renew(store, [hold]);
}

/** Slots that were lost are asked for again with the next renewal. */
function noteRenewal(this: void, hold: Charge, index: number, renewedAtUs: number | undefined): void {
  const { app, name } = hold.policy;
  const { tickUs, ticks } = (hold.limits[index] as CompiledLimit).rate as SlidingWindow;
  const heldAtUs = hold.chargedAt[index] as number;
  // Negative in the overflow.
  if (renewedAtUs === undefined || math.abs(renewedAtUs) - math.abs(heldAtUs) > ticks * tickUs) {
    countEvent("late-renewals");
    warnSparingly("slots were lost before they were renewed: more requests may run than allowed", `${app}/${name}`);
  }
  hold.chargedAt[index] = renewedAtUs ?? unheld;
}
