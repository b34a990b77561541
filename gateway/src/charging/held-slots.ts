// Slots of concurrency that requests of this worker hold: renewed while the request lives, refunded when it has ended. A worker
// that is killed renews nothing: its slots come back after their time to live.

import type { SlidingWindow } from "../../../limiter/src/algorithms/sliding-window.ts";
import type { CompiledLimit } from "../../../limiter/src/compiled/compile.ts";
import { countEvent } from "../metrics/counts.ts";
import { endUnnoticed, keepForRequest, newRequestField, ofRequest } from "../request/request-state.ts";
import { runEvery, runInTimer } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { Charge } from "../stores/store.ts";
import { refundLater } from "./refunds.ts";
import { stores } from "./stores.ts";

/**
 * Slots of one policy that a request was given: of its limits, those that are concurrency; `chargedAt` has for each the moment
 * that its slots were taken or last renewed in.
 */
interface Hold extends Charge {
  /** Whether this worker learns when the request ends, even without its log phase. */
  readonly isEndNoticed: boolean;
  readonly renewEverySeconds: number;
  renewAtSeconds: number;
  /** While it is being renewed, where it is held is not known: whoever renews it gives it back if the request ends. */
  renewing: boolean;
  ended: boolean;
}

const renewalsPerLife = 3;
/** How often holds are looked at: a shorter life than some of these is not renewed in time. */
const lookEverySeconds = 0.1;
const notRenewed = "slots were not renewed";

/** Those of all requests. */
const holds = new LuaTable<Hold, boolean>();
let holdCount = 0;
let renewing = false;
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
  for (const [hold] of holds) if (!hold.isEndNoticed) forget(hold);
  while (holdCount > 0) {
    endUnnoticed();
    look();
    ngx.sleep(lookEverySeconds);
  }
}

function look(): void {
  // Renewing waits for a lock or for Redis, and the timer comes again meanwhile.
  if (holdCount === 0 || renewing) return;
  renewing = true;
  const [renewed, failure] = pcall(renewAllDue);
  renewing = false;
  if (!renewed) noteDefect("timers", notRenewed, failure);
}

/** Notes the slots that a charge took, if it has limits of that kind. A charge without limits took none: onStoreFailure let it pass. */
export function holdSlots({ policy, limits, keyValues, chargedAt, store, redis }: Charge): void {
  const held: CompiledLimit[] = [];
  const heldAtUs: number[] = [];
  let shortestSeconds = math.huge;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    if (limit.rate.algorithm !== "concurrency") continue;
    held.push(limit);
    heldAtUs.push(chargedAt[i] as number);
    shortestSeconds = math.min(shortestSeconds, limit.rate.windowUs / 1_000_000);
  }
  if (held.length === 0) return;
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
    renewAtSeconds: ngx.now() + renewEverySeconds,
    renewing: false,
    ended: false,
  };
  own.push(hold);
  holds.set(hold, true);
  holdCount += 1;
}

function forget(hold: Hold): void {
  if (!holds.has(hold)) return;
  holds.delete(hold);
  holdCount -= 1;
}

/** The request has ended. */
function release(hold: Hold): void {
  forget(hold);
  hold.ended = true;
  // Otherwise it is refunded when it has been renewed: only then is it known where it lies.
  if (!hold.renewing) refundLater(hold);
}

function renewAllDue(): void {
  const now = ngx.now();
  const byStore: Partial<Record<Charge["store"], Hold[]>> = {};
  for (const [hold] of holds) {
    if (now < hold.renewAtSeconds) continue;
    const due = byStore[hold.store];
    if (due === undefined) byStore[hold.store] = [hold];
    else due.push(hold);
  }
  for (const name of ["node", "share", "exact"] as const) {
    const { batches } = stores[name];
    for (const due of batches(byStore[name] ?? [])) renew(name, due);
  }
}

/** @param due those whose requests have ended meanwhile are refunded already */
function renew(store: Charge["store"], due: readonly Hold[]): void {
  const held = due.filter((hold) => !hold.ended);
  if (held.length === 0) return;
  const now = ngx.now();
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
  if (renewedAtUs !== undefined) hold.chargedAt[index] = renewedAtUs;
}
