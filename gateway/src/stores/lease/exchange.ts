// Exchanges messages with Redis for a lease, one worker at a time, in a timer: the units requested, the units returned, and the
// units that Redis grants.

import {
  acceptAnswer,
  giveUp,
  isLive,
  leaseParameters,
  plan,
  send,
  wayFor,
} from "../../../../limiter/src/lease/holder.ts";
import { countLeaseEvent, countLeaseRefund, countLeaseUnits } from "../../metrics/lease-counts.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { runInTimer } from "../../runtime/background.ts";
import { noteDefect } from "../../runtime/defects.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { isScarce } from "../node/counter-memory.ts";
import {
  addAsked,
  cellOf,
  claim,
  dropRecord,
  dropUndecided,
  forgetTerm,
  freeze,
  isClaimed,
  saveRecord,
  takeOut,
  takeRefunded,
  termOf,
  thaw,
  unclaim,
  undecidedIn,
  unitsIn,
} from "./lease-cells.ts";
import { type LeaseReply, sendLeaseMessage } from "./lease-messages.ts";
import { type Lease, recordOfNewLife, refresh } from "./leases.ts";

/** A message without a reply is sent again at most this often, after the first two attempts. */
const tryEveryUs = 42_000;
const sendings = 2;
/** In one worker: nginx drops timers if more than 256 run. */
const mostExchanges = 100;

/** Exchanges that run in this worker, and those started since the watcher last ran. */
let running = 0;
let begun = 0;

/** Called by the watcher before it checks the leases. */
export function forgetBegun(): void {
  begun = 0;
}

/**
 * Adds this worker's requested units to the record, and starts an exchange if one is due.
 *
 * @returns whether to watch the lease from now on
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

/** @returns whether an exchange has started, which keeps the claim */
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
  takeBackRefunded(lease, nowUs);
  if (record.waiting === 1) {
    // The sender was killed, or got no reply.
    if (nowUs - record.sentUs < leaseParameters.lifetimeUs) {
      return nowUs - record.triedUs >= tryEveryUs && hasRoom() && beginExchange(lease, token);
    }
    giveUp(record);
    isChanged = true;
  }
  // Some was taken back, or the count was lost and has started again from zero.
  if (asked < record.askedBefore) {
    record.askedBefore = asked;
    isChanged = true;
  }
  expireUnits(lease, nowUs);
  const term = termOf(lease.cell, record);
  const next = plan(record, leaseParameters, unitsIn(lease.cell), undecidedIn(term), asked, nowUs);
  // Units for which requests are too expensive would expire.
  const isWorth = next.exchanges && (isLive(record, nowUs) || wayFor(record, lease.cost, nowUs) !== "exact");
  lease.worthWatching = isWorth || isLive(record, nowUs);
  if (!isWorth || !hasRoom()) {
    isChanged ||= record.estimatedUs !== estimatedUs || record.demand !== demand || record.out !== out;
    if (isChanged) saveRecord(id, record);
    return false;
  }
  const left = next.back > 0 ? takeOut(lease.cell, next.back) : unitsIn(lease.cell);
  send(record, next, left, undecidedIn(term), nowUs);
  if (termOf(lease.cell, record) !== term) forgetTerm(term);
  return beginExchange(lease, token);
}

/** Starts under a name that was never used: the units that an earlier life holds count as spent when they expire. */
function beginLife(lease: Lease): void {
  const { demand, askedBefore, estimatedUs, clientsAtUs } = lease.record;
  Object.assign(lease.record, recordOfNewLife(), { demand, askedBefore, estimatedUs, clientsAtUs });
  lease.cell = cellOf(lease.id, lease.record.name);
  takeOut(lease.cell, 0);
}

/** Removes the units of a lease that has expired. */
function expireUnits({ record, cell }: Lease, nowUs: number): void {
  if (record.out === 0 || isLive(record, nowUs)) return;
  const left = math.max(0, unitsIn(cell));
  if (left > 0) takeOut(cell, left);
  countLeaseUnits("expired", left);
  countLeaseUnits("spent", record.out - left);
  record.out = 0;
}

/** They are undecided until they are in the cell: a report to Redis never misses them. */
function takeBackRefunded({ record, cell }: Lease, nowUs: number): void {
  if (!isLive(record, nowUs)) return;
  const term = termOf(cell, record);
  // If the clock has stepped ahead, shared memory may have dropped the undecided units and not the refunded ones.
  const units = math.min(takeRefunded(term), undecidedIn(term));
  if (units === 0) return;
  countLeaseRefund(units);
  // The cell is negative where several workers tried to take the last unit.
  takeOut(cell, math.min(0, unitsIn(cell)) - units);
  dropUndecided(term, units);
}

export function hasRoom(): boolean {
  return running + begun < mostExchanges;
}

/** Sends the message in the record. @returns whether it will be sent */
function beginExchange(lease: Lease, token: string): boolean {
  begun += 1;
  lease.record.triedUs = stopwatchUs();
  saveRecord(lease.id, lease.record);
  const failure = runInTimer(() => {
    running += 1;
    const [exchanged, defect] = pcall(exchange, lease, token);
    if (!exchanged) noteDefect("redis", "a lease was not renewed", defect);
    if (isClaimed(lease.id, token)) unclaim(lease.id);
    wake(lease);
    running -= 1;
  });
  if (failure !== undefined) warnSparingly("a lease was not renewed", failure);
  return failure === undefined;
}

/** Sends the pending message and processes the reply. */
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
  // Another worker may have sent the message again by now, and processes its reply.
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
    applyReply(lease, answer);
  }
}

function applyReply(lease: Lease, answer: LeaseReply): void {
  const { record, cell } = lease;
  const nowUs = stopwatchUs();
  const { back, out } = record;
  const term = termOf(cell, record);
  if (!acceptAnswer(record, answer, nowUs)) return;
  const before = freeze(cell);
  const unspent = math.max(before, 0);
  const kept = math.min(unspent, answer.honoured);
  const units = kept + answer.grant;
  if (termOf(cell, record) !== term) forgetTerm(term);
  const undecided = undecidedIn(termOf(cell, record));
  record.out = units + undecided;
  record.lost = 0;
  record.mostRestrictive = answer.mostRestrictive;
  record.remaining = answer.remaining;
  record.resetAtUs = nowUs + answer.resetAfterUs;
  saveRecord(lease.id, record);
  countLeaseUnits("granted", answer.grant);
  // Without its cell the record is useless; when it is dropped too, another life begins.
  if (!thaw(cell, units)) dropRecord(lease.id);
  if (answer.grant > 0) countLeaseEvent("grants");
  countLeaseUnits("returned", math.min(back, out));
  countLeaseUnits("expired", unspent - kept);
  countLeaseUnits("spent", out - back - unspent - undecided);
}

/** Wakes only the requests that still wait: one whose client went away does not wait any more. */
function wake({ waiting }: Lease): void {
  const count = waiting?.count() ?? 0;
  if (count < 0) waiting?.post(-count);
}
