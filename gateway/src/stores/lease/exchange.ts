// Exchanges messages with Redis for a lease, one worker at a time, in a timer: what was asked for, what is to be returned, and what Redis
// grants.

import {
  acceptAnswer,
  giveUp,
  isLive,
  leaseParameters,
  plan,
  send,
  wayFor,
} from "../../../../limiter/src/lease/holder.ts";
import { countLeaseEvent, countLeaseUnits } from "../../metrics/lease-counts.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { isScarce } from "../node/counter-memory.ts";
import {
  addAsked,
  cellOf,
  claim,
  dropRecord,
  freeze,
  isClaimed,
  saveRecord,
  takeOut,
  thaw,
  unclaim,
  unitsIn,
} from "./lease-cells.ts";
import { type LeaseReply, sendLeaseMessage } from "./lease-messages.ts";
import { type Lease, recordOfNewLife, refresh } from "./leases.ts";

/** A message without an answer is sent again at most so often, after the first two times. */
const tryEveryUs = 42_000;
const sendings = 2;
/** In one worker: nginx drops timers of which more than 256 run. */
const mostExchanges = 100;

/** Exchanges that run in this worker, and those begun since the watcher last looked. */
let running = 0;
let begun = 0;

/** Called by the watcher, before it looks. */
export function forgetBegun(): void {
  begun = 0;
}

/**
 * Adds to the record what was asked for here, and begins an exchange if one is due.
 *
 * @returns whether the lease is to be watched from now on
 */
export function look(lease: Lease): boolean {
  lease.lookedUs = stopwatchUs();
  const token = claim(lease.id, claimSeconds());
  if (token === undefined) {
    refresh(lease);
    return false;
  }
  if (!lookClaimed(lease, token)) unclaim(lease.id);
  return lease.worthWatching;
}

/** Longer than the calls of one exchange take. */
function claimSeconds(): number {
  return (theRedis().deadlineMs * sendings * 3) / 1000 + 0.1;
}

/** @returns whether an exchange has begun, which keeps the claim */
function lookClaimed(lease: Lease, token: string): boolean {
  const { id, record } = lease;
  lease.worthWatching = false;
  const isNew = !refresh(lease);
  if (isNew && isScarce()) return false;
  if (isNew) beginLife(lease);
  const { estimatedUs, demand, out } = record;
  let isChanged = isNew;
  const asked = addAsked(id, lease.asked);
  lease.asked = 0;
  const nowUs = stopwatchUs();
  if (record.waiting === 1) {
    // Whoever sent it was killed, or had no answer.
    if (nowUs - record.sentUs < leaseParameters.lifetimeUs) {
      return nowUs - record.triedUs >= tryEveryUs && hasRoom() && beginExchange(lease, token);
    }
    giveUp(record);
    isChanged = true;
  }
  // The count was evicted, and began anew.
  if (asked < record.askedBefore) record.askedBefore = 0;
  buryUnits(lease, nowUs);
  const next = plan(record, leaseParameters, unitsIn(lease.cell), asked, nowUs);
  // Units that requests are too dear for would expire.
  const isWorth = next.exchanges && (isLive(record, nowUs) || wayFor(record, lease.cost, nowUs) !== "exact");
  lease.worthWatching = isWorth || isLive(record, nowUs);
  if (!isWorth || !hasRoom()) {
    isChanged ||= record.estimatedUs !== estimatedUs || record.demand !== demand || record.out !== out;
    if (isChanged) saveRecord(id, record);
    return false;
  }
  const left = next.back > 0 ? takeOut(lease.cell, next.back) : unitsIn(lease.cell);
  send(record, next, left, nowUs);
  return beginExchange(lease, token);
}

/** Under a name that nobody had: what an earlier life holds counts as spent when it expires. */
function beginLife(lease: Lease): void {
  const { demand, askedBefore, estimatedUs, clientsAtUs } = lease.record;
  Object.assign(lease.record, recordOfNewLife(), { demand, askedBefore, estimatedUs, clientsAtUs });
  lease.cell = cellOf(lease.id, lease.record.name);
  takeOut(lease.cell, 0);
}

/** Those of a lease that has expired. */
function buryUnits({ record, cell }: Lease, nowUs: number): void {
  if (record.out === 0 || isLive(record, nowUs)) return;
  const left = math.max(0, unitsIn(cell));
  if (left > 0) takeOut(cell, left);
  countLeaseUnits("expired", left);
  countLeaseUnits("spent", record.out - left);
  record.out = 0;
}

export function hasRoom(): boolean {
  return running + begun < mostExchanges;
}

/** The message is in the record. @returns whether it will be sent */
function beginExchange(lease: Lease, token: string): boolean {
  begun += 1;
  lease.record.triedUs = stopwatchUs();
  saveRecord(lease.id, lease.record);
  const [started, failure] = ngx.timer.at(0, () => {
    running += 1;
    const [exchanged, defect] = pcall(exchange, lease, token);
    if (!exchanged) warnSparingly("a lease was not renewed", `${defect}`);
    if (isClaimed(lease.id, token)) unclaim(lease.id);
    wake(lease);
    running -= 1;
  });
  if (started === undefined) warnSparingly("a lease was not renewed", failure);
  return started !== undefined;
}

/** Sends the message that waits, and acts on its answer. */
function exchange(lease: Lease, token: string): void {
  const { id, record } = lease;
  const message = { ...record };
  const untilUs = stopwatchUs() + claimSeconds() * 1e6 * 0.9;
  let answer: LeaseReply | "overtaken" | undefined;
  let failure: string | undefined;
  for (let sending = 0; sending < sendings && answer === undefined; sending++) {
    countLeaseEvent("exchanges");
    [answer, failure] = sendLeaseMessage(theRedis(), lease.policy, lease.keyValues, message);
    if (answer === undefined) countLeaseEvent("lost");
  }
  // Another may have sent it again by now, and acts on the answer.
  if (stopwatchUs() >= untilUs || !isClaimed(id, token)) return;
  if (!refresh(lease) || record.name !== message.name) return;
  if (answer === "overtaken") {
    dropRecord(id);
  } else if (answer === undefined) {
    warnSparingly("a lease was not renewed", failure);
    record.lost = 1;
    record.triedUs = stopwatchUs();
    saveRecord(id, record);
  } else {
    takeUp(lease, answer);
  }
}

function takeUp(lease: Lease, answer: LeaseReply): void {
  const { record, cell } = lease;
  const nowUs = stopwatchUs();
  const { back, out } = record;
  if (!acceptAnswer(record, answer, nowUs)) return;
  const before = freeze(cell);
  const unspent = math.max(before, 0);
  const kept = math.min(unspent, answer.honoured);
  const units = kept + answer.grant;
  record.out = units;
  record.lost = 0;
  record.mostRestrictive = answer.mostRestrictive;
  record.remaining = answer.remaining;
  record.resetAtUs = nowUs + answer.resetAfterUs;
  saveRecord(lease.id, record);
  countLeaseUnits("granted", answer.grant);
  // Without its cell it is of no use: without its record too, another begins.
  if (!thaw(cell, units)) dropRecord(lease.id);
  if (answer.grant > 0) countLeaseEvent("grants");
  countLeaseUnits("returned", math.min(back, out));
  countLeaseUnits("expired", unspent - kept);
  countLeaseUnits("spent", out - back - unspent);
}

/** Those who still wait: a request whose client went away does no longer. */
function wake({ waiting }: Lease): void {
  const count = waiting?.count() ?? 0;
  if (count < 0) waiting?.post(-count);
}
