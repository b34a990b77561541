// "cluster, leased" on this node: spends units that Redis has debited ahead, and sees to it that there are some.
//
// A request subtracts from a cell that all workers share, and that is all: what it needs to know else, a worker knows since it
// last looked at the record. Its deadline can only be earlier than the record's, and the units of another life lie in another
// cell. Every few ms each worker looks at the leases that were asked for, and one of them exchanges messages with Redis, in a
// timer of its own: requests wait only where the units ran out before.

import { type Decision, emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import {
  type MergedDecision,
  mergeAll,
  mergeLimit,
  newMergedDecision,
} from "../../../../limiter/src/compiled/merged-decision.ts";
import {
  acceptAnswer,
  askAgainAt,
  askedAt,
  forgetRefusal,
  giveUp,
  isLive,
  leaseParameters,
  mayRefund,
  plan,
  refusedUntil,
  send,
  wayFor,
} from "../../../../limiter/src/lease/holder.ts";
import { countLeaseAdmission, countLeaseEvent, countLeaseRefund, countLeaseUnits } from "../../metrics/lease-counts.ts";
import { newPatience } from "../../redis/patience.ts";
import { sleepMs, nowUs as wallUs } from "../../runtime/clock.ts";
import { semaphoreLibrary } from "../../runtime/lua-modules.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Charge, Check, Spent } from "../check.ts";
import { isScarce } from "../node/counter-memory.ts";
import { waitLimitMs } from "../redis/redis-store.ts";
import {
  addAsked,
  cellOf,
  claim,
  dropRecord,
  freeze,
  isClaimed,
  type LeaseRecord,
  loadRecord,
  newRecord,
  saveRecord,
  takeOut,
  thaw,
  unclaim,
  unitsIn,
} from "./lease-cells.ts";
import { chargeExactly, type LeaseReply, sendLeaseMessage } from "./lease-messages.ts";

/** Times are of the stopwatch, in µs. */
interface Refusal {
  readonly cost: number;
  readonly atUs: number;
  readonly untilUs: number;
  readonly askAgainUs: number;
}

/** What this worker knows of the lease of one policy and key. */
interface Lease {
  readonly redis: RedisSettings;
  /** At any cost. */
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Of the limits and the key: other limits are another lease. */
  readonly id: string;
  /** As it was when this worker last looked. */
  readonly record: LeaseRecord;
  cell: string;
  /** Units that clients asked for here, which the record does not know of. */
  asked: number;
  lookedUs: number;
  /** Of the last request that the units were not there for. */
  cost: number;
  /** Whether it is among those that are looked at every few ms. */
  watched: boolean;
  waiting: Semaphore | undefined;
  /** What was refused exactly: until `askAgainUs` the same again, or more, costs Redis nothing. */
  refusal: Refusal | undefined;
}

const lookEverySeconds = 0.005;
/** A lease that is not watched is looked at no more often, in µs, unless so many units were asked for. */
const lookEveryUs = 10_000;
const manyUnits = 5;
/** A message without an answer is sent again at most so often, after the first two times. */
const tryEveryUs = 42_000;
const sendings = 2;
/** A request looks so often whether another worker had an answer. */
const waitSeconds = 0.002;
/** How often a request waits, for an answer or until one may be asked for, while Redis grants all that is asked for. */
const mostRounds = 10;
/** In one worker: nginx drops timers of which more than 256 run. */
const mostExchanges = 100;
/** Of a watcher that was not seen for so long nginx has dropped the timer. */
const watcherGoneUs = 1_000_000;
/** Longer than Redis is waited for. */
const mostForgetTries = 50;
const forgetEveryMs = 5;
/** Units a horizon. */
const leastDemand = 0.1;
/** Leases that nobody has asked for so long are forgotten by this worker. */
const generationUs = 2_000_000;

let gatewayName = "gateway";
let recent: Record<string, Lease | undefined> = {};
let older: Record<string, Lease | undefined> = {};
let generationEndsUs = 0;
let watched: Lease[] = [];
/** When the watcher was last seen, or begun. */
let watcherSeenUs = 0;
let watchers = 0;
/** Exchanges that run in this worker, and those begun since the watcher last looked. */
let running = 0;
let begun = 0;
const decision = emptyDecision();

/** @param gatewayId of this nginx, without blanks */
export function openLeases(gatewayId: string): void {
  const random = ngx.md5(`${gatewayId} ${stopwatchUs()} ${ngx.now()} ${tostring({})}`);
  gatewayName = `${gatewayId}:${string.sub(random, 1, 8)}`;
}

/**
 * Decides one policy where that needs nobody else: the lease has the units, or Redis has said that there are none. Never yields.
 *
 * @param verdict hears the limit with the least left, unless it is quiet and the request allowed
 * @returns whether the request is allowed; undefined: nothing was decided
 */
export function spendLease(
  redis: RedisSettings,
  policy: CompiledPolicy,
  keyValues: string,
  merged: MergedDecision,
): boolean | undefined {
  const { cost } = policy.policy;
  const lease = leaseOf(redis, policy, keyValues);
  const nowUs = stopwatchUs();
  const allowed = spend(lease, cost, nowUs);
  if (!allowed && nowUs >= lease.record.refusedUntilUs) return undefined;
  lease.asked += cost;
  if (!allowed) mergeRefusal(lease, policy, merged, lease.record.retryAtUs);
  else if (!merged.quiet) mergePermission(lease, policy, merged);
  return allowed;
}

/**
 * Decides a check of a leased policy: from the lease where that has the units. Yields where it has not, and waits for Redis as an
 * exact decision does: for an answer to the lease and for an exact decision together.
 *
 * @param verdict hears the limit with the least left, unless the check has its own
 * @param charges has the charge afterwards, where the request is allowed
 * @returns whether it is; undefined when Redis did not decide
 */
export function chargeLeased(
  redis: RedisSettings,
  check: Check,
  merged: MergedDecision,
  charges: Charge[],
): boolean | undefined {
  const { cost } = check.policy.policy;
  const lease = leaseOf(redis, check.policy, check.keyValues);
  const mergeTarget = check.merged ?? merged;
  check.unanswered = undefined;
  lease.asked += cost;
  const nowUs = stopwatchUs();
  if (spend(lease, cost, nowUs)) return allow(lease, check, mergeTarget, charges);
  keepWatching(nowUs);
  const { record } = lease;
  if (nowUs < record.refusedUntilUs) return refuse(lease, check, mergeTarget, record.retryAtUs);
  lease.cost = cost;
  if (spendElse(lease, cost)) return allow(lease, check, mergeTarget, charges);
  if (!lease.watched && (lease.asked >= manyUnits || nowUs - lease.lookedUs >= lookEveryUs)) look(lease);
  let way = mayLease(lease) ? wayFor(record, cost, stopwatchUs()) : "exact";
  let patienceUs = waitLimitMs(redis, check.policy.policy) * 1000;
  for (let round = 0; round < mostRounds && way !== "exact"; round++) {
    if (record.lost === 1 || patienceUs <= 0) {
      if (stopwatchUs() >= record.retryAtUs) return undefined;
      return refuse(lease, check, mergeTarget, record.retryAtUs);
    }
    if (way === "refuse") {
      // There is more, and it has only been asked for too often at a stretch.
      if (record.plenty === 0) break;
      sleepMs(math.ceil((refusedUntil(record) - stopwatchUs()) / 1000));
      refresh(lease);
    } else if (record.waiting === 1) {
      patienceUs -= awaitAnswer(lease, patienceUs);
    } else {
      look(lease);
      if (record.waiting === 0 && !hasRoom()) way = "exact";
    }
    if (spend(lease, cost, stopwatchUs())) return allow(lease, check, mergeTarget, charges);
    if (way !== "exact") way = wayFor(record, cost, stopwatchUs());
  }
  if (way === "exact") return decideExactly(lease, check, mergeTarget, charges, patienceUs / 1000);
  return refuse(lease, check, mergeTarget, refusedUntil(record));
}

/**
 * Takes the units from the lease, or nothing: while Redis does not decide.
 *
 * @returns whether the request is allowed
 */
export function chargeUnspent(redis: RedisSettings, check: Check, merged: MergedDecision, charges: Charge[]): boolean {
  const lease = leaseOf(redis, check.policy, check.keyValues);
  if (!spend(lease, check.policy.policy.cost, stopwatchUs())) return false;
  return allow(lease, check, check.merged ?? merged, charges);
}

/** What Redis last said of a leased key, to any worker; undefined where it was not asked for units of late, and refused none. */
export function lastKnownOfLease(
  redis: RedisSettings,
  { policy, keyValues }: Pick<Check, "policy" | "keyValues">,
): LastKnown | undefined {
  const lease = leaseOf(redis, policy, keyValues);
  refresh(lease);
  const { record, refusal } = lease;
  const atUs = math.max(askedAt(record), refusal?.atUs ?? 0);
  if (atUs === 0) return undefined;
  const aheadUs = wallUs() - stopwatchUs();
  const nothingUntilUs = aheadUs + math.max(record.retryAtUs, refusal?.untilUs ?? 0);
  return { atUs: aheadUs + atUs, nothingUntilUs, limits: undefined };
}

/** When Redis was asked who answered last about a leased key, by the stopwatch; 0: nobody remembers. */
export function leaseKnownSinceUs(redis: RedisSettings, { policy, keyValues }: Check): number {
  const lease = leaseOf(redis, policy, keyValues);
  refresh(lease);
  return math.max(askedAt(lease.record), lease.refusal?.atUs ?? 0);
}

/** Units that were spent for a request that another policy refused: of the lease again, where Redis does not count them as spent. */
export function refundLeased(redis: RedisSettings, { policy, keyValues }: Charge, spent: Spent): void {
  const lease = leaseOf(redis, policy, keyValues);
  // Nobody may tell Redis meanwhile what there is.
  const token = claim(lease.id, 1);
  if (token === undefined) return;
  refresh(lease);
  const { name } = lease.record;
  if (name === spent.name && mayRefund(lease.record, spent.seq, spent.acknowledged, stopwatchUs())) {
    takeOut(lease.cell, -policy.policy.cost);
    countLeaseRefund(policy.policy.cost);
  }
  unclaim(lease.id);
}

/** An operator has changed the counters: Redis is asked again. The other workers, and this one, are to `forgetLeases` then. */
export function forgetLeaseRefusal(policy: CompiledPolicy, keyValues: string): void {
  if (!policy.leased) return;
  const id = idOf(policy, keyValues);
  let token = claim(id, 1);
  // Whoever has it is being answered, perhaps from before the change.
  for (let tries = 0; token === undefined && tries < mostForgetTries; tries++) {
    sleepMs(forgetEveryMs);
    token = claim(id, 1);
  }
  if (token === undefined) return;
  const record = newRecord(gatewayName);
  if (loadRecord(id, record)) {
    forgetRefusal(record);
    saveRecord(id, record);
  }
  unclaim(id);
}

/** What this worker knows of them besides the records. Those that are watched are so until they have given back what they hold. */
export function forgetLeases(): void {
  recent = {};
  older = {};
  for (const lease of watched) {
    lease.refusal = undefined;
    refresh(lease);
  }
}

function leaseOf(redis: RedisSettings, policy: CompiledPolicy, keyValues: string): Lease {
  const name = policy.counterPrefix + keyValues;
  const known = recent[name];
  if (known !== undefined && known.policy.limits === policy.limits) return known;
  return recall(name, redis, policy, keyValues);
}

function recall(name: string, redis: RedisSettings, policy: CompiledPolicy, keyValues: string): Lease {
  const nowUs = stopwatchUs();
  if (nowUs >= generationEndsUs) {
    older = nowUs < generationEndsUs + generationUs ? recent : {};
    recent = {};
    generationEndsUs = nowUs + generationUs;
  }
  let lease = recent[name] ?? older[name];
  if (lease === undefined || lease.policy.limits !== policy.limits) lease = newLease(redis, policy, keyValues);
  recent[name] = lease;
  return lease;
}

function idOf(policy: CompiledPolicy, keyValues: string): string {
  let limits = policy.counterPrefix + keyValues;
  for (const { rate, counterSuffix } of policy.limits) {
    limits += `${counterSuffix} ${rate.quota} ${capacity(rate)}`;
  }
  return `lease:${ngx.encode_base64(string.sub(ngx.sha1_bin(limits), 1, 12))}`;
}

function newLease(redis: RedisSettings, policy: CompiledPolicy, keyValues: string): Lease {
  const lease: Lease = {
    redis,
    policy,
    keyValues,
    id: idOf(policy, keyValues),
    record: newRecord(gatewayName),
    cell: "",
    asked: 0,
    // Of a key that is asked for once, shared memory keeps nothing.
    lookedUs: stopwatchUs(),
    cost: 1,
    watched: false,
    waiting: undefined,
    refusal: undefined,
  };
  lease.cell = cellOf(lease.id, lease.record.name);
  refresh(lease);
  return lease;
}

/** @returns whether there is a record */
function refresh(lease: Lease): boolean {
  const { name } = lease.record;
  const found = loadRecord(lease.id, lease.record);
  if (lease.record.name !== name) lease.cell = cellOf(lease.id, lease.record.name);
  return found;
}

/** One subtraction, from the cell of all workers. */
function spend({ record, cell }: Lease, cost: number, nowUs: number): boolean {
  if (!isLive(record, nowUs)) return false;
  if (cost > 1 && unitsIn(cell) < cost) return false;
  const [left] = countersDict.incr(cell, -cost);
  if (left === undefined || left < 0) return false;
  countLeaseAdmission(cost);
  decision.remaining = left;
  return true;
}

/** The units are not there, as far as this worker knows: another may have heard of more. */
function spendElse(lease: Lease, cost: number): boolean {
  const { record } = lease;
  const { acknowledged, name } = record;
  refresh(lease);
  if (record.acknowledged === acknowledged && record.name === name) return false;
  return spend(lease, cost, stopwatchUs());
}

function allow(lease: Lease, check: Check, merged: MergedDecision, charges: Charge[]): boolean {
  const { policy, keyValues, chargedAt } = check;
  mergePermission(lease, policy, merged);
  check.allowed = true;
  const { name, seq, acknowledged } = lease.record;
  charges.push({
    policy,
    limits: policy.limits,
    keyValues,
    chargedAt,
    redis: lease.redis,
    spent: { name, seq, acknowledged },
  });
  return true;
}

/** After a spend. */
function mergePermission({ record }: Lease, policy: CompiledPolicy, merged: MergedDecision): void {
  const limit = policy.limits[record.mostRestrictive] as CompiledLimit;
  decision.allowed = true;
  decision.limit = capacity(limit.rate);
  decision.remaining = math.min(decision.remaining + record.remaining, decision.limit);
  decision.retryAfterUs = 0;
  decision.resetAfterUs = math.max(0, record.resetAtUs - stopwatchUs());
  mergeLimit(merged, policy, limit.name, decision);
}

function refuse(lease: Lease, check: Check, merged: MergedDecision, untilUs: number): false {
  mergeRefusal(lease, check.policy, merged, untilUs);
  check.allowed = false;
  return false;
}

/** @param untilUs when units may be had again, by the stopwatch */
function mergeRefusal({ record }: Lease, policy: CompiledPolicy, merged: MergedDecision, untilUs: number): void {
  const nowUs = stopwatchUs();
  const limit = policy.limits[record.mostRestrictive] as CompiledLimit;
  decision.allowed = false;
  decision.limit = capacity(limit.rate);
  decision.remaining = math.min(record.remaining, policy.policy.cost - 1, decision.limit);
  decision.retryAfterUs = math.max(1, untilUs - nowUs);
  decision.resetAfterUs = math.max(decision.retryAfterUs, record.resetAtUs - nowUs);
  mergeLimit(merged, policy, limit.name, decision);
}

/** @param limitMs what is left of the longest that the request waits */
function decideExactly(
  lease: Lease,
  check: Check,
  merged: MergedDecision,
  charges: Charge[],
  limitMs: number,
): boolean | undefined {
  const { policy, keyValues, chargedAt } = check;
  const { cost } = policy.policy;
  const { refusal } = lease;
  if (refusal !== undefined && cost >= refusal.cost && stopwatchUs() < refusal.askAgainUs) {
    return refuse(lease, check, merged, refusal.untilUs);
  }
  if (limitMs < 1) return undefined;
  const own = newMergedDecision();
  const asked: Check = { policy, keyValues, chargedAt };
  const patience = newPatience(lease.redis.deadlineMs, limitMs);
  const [allowed, failure] = chargeExactly(lease.redis, asked, own, patience);
  if (allowed === undefined) {
    check.unanswered = asked.unanswered;
    warnSparingly("Redis did not decide", failure);
    return undefined;
  }
  mergeAll(merged, own);
  check.allowed = allowed;
  if (allowed) charges.push({ policy, limits: policy.limits, keyValues, chargedAt, redis: lease.redis });
  else rememberExactRefusal(lease, cost, own.decision);
  return allowed;
}

function rememberExactRefusal(
  lease: Lease,
  cost: number,
  { limit, remaining, retryAfterUs, resetAfterUs }: Decision,
): void {
  const nowUs = stopwatchUs();
  if (retryAfterUs <= 0) return;
  const untilUs = nowUs + retryAfterUs;
  lease.refusal = { cost, atUs: nowUs, untilUs, askAgainUs: askAgainAt(untilUs, nowUs) };
  lease.record.remaining = math.min(remaining, limit);
  lease.record.resetAtUs = nowUs + resetAfterUs;
}

/** While memory is scarce, what a spray of keys asks for must not take it: only the leases that there are go on. */
function mayLease(lease: Lease): boolean {
  return !isScarce() || refresh(lease);
}

/** Until the exchange that is under way, here or in another worker, has ended. @returns how long it took */
function awaitAnswer(lease: Lease, patienceUs: number): number {
  const { record } = lease;
  const startUs = stopwatchUs();
  let waitedUs = 0;
  lease.waiting ??= semaphoreLibrary.new(0);
  while (record.waiting === 1 && record.lost === 0 && waitedUs < patienceUs) {
    lease.waiting.wait(waitSeconds);
    refresh(lease);
    waitedUs = stopwatchUs() - startUs;
  }
  return waitedUs;
}

/** Those who still wait: a request whose client went away does no longer. */
function wake({ waiting }: Lease): void {
  const count = waiting?.count() ?? 0;
  if (count < 0) waiting?.post(-count);
}

/** Tells the record what was asked here, and begins an exchange where one is due. */
function look(lease: Lease): void {
  lease.lookedUs = stopwatchUs();
  const token = claim(lease.id, claimSeconds(lease.redis));
  if (token === undefined) {
    refresh(lease);
    return;
  }
  if (!lookClaimed(lease, token)) unclaim(lease.id);
}

/** Longer than the calls of one exchange take. */
function claimSeconds({ deadlineMs }: RedisSettings): number {
  return (deadlineMs * sendings * 3) / 1000 + 0.1;
}

/** @returns whether an exchange has begun, which keeps the claim */
function lookClaimed(lease: Lease, token: string): boolean {
  const { id, record } = lease;
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
  if (isWorth || isLive(record, nowUs)) watch(lease);
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
  Object.assign(lease.record, newRecord(gatewayName), { demand, askedBefore, estimatedUs, clientsAtUs });
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

function hasRoom(): boolean {
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
  const untilUs = stopwatchUs() + claimSeconds(lease.redis) * 1e6 * 0.9;
  let answer: LeaseReply | "overtaken" | undefined;
  let failure: string | undefined;
  for (let sending = 0; sending < sendings && answer === undefined; sending++) {
    countLeaseEvent("exchanges");
    [answer, failure] = sendLeaseMessage(lease.redis, lease.policy, lease.keyValues, message);
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

function watch(lease: Lease): void {
  if (lease.watched) return;
  lease.watched = true;
  watched.push(lease);
  keepWatching(stopwatchUs());
}

/** Where leases are to be watched, and nobody does. */
function keepWatching(nowUs: number): void {
  if (watched.length === 0 || nowUs - watcherSeenUs < watcherGoneUs || ngx.worker.exiting()) return;
  watchers += 1;
  const watcher = watchers;
  const [started] = ngx.timer.at(0, () => watchAll(watcher));
  if (started !== undefined) watcherSeenUs = nowUs;
}

/** Until there are none to be watched, another does, or the worker is to end: the others go on with what it leaves. */
function watchAll(watcher: number): void {
  while (watched.length > 0 && watcher === watchers && !ngx.worker.exiting()) {
    watcherSeenUs = stopwatchUs();
    begun = 0;
    const leases = watched;
    watched = [];
    for (const lease of leases) {
      const [looked, failure] = pcall(look, lease);
      if (!looked) warnSparingly("a lease was not looked at", `${failure}`);
      if (isInUse(lease)) keepWatched(lease);
      else lease.watched = false;
    }
    ngx.sleep(lookEverySeconds);
  }
  if (watcher === watchers) watcherSeenUs = 0;
}

/** Not where next to nothing is asked for and nothing in hand. */
function isInUse({ record }: Lease): boolean {
  return record.demand >= leastDemand || record.out > 0 || record.waiting === 1;
}

/** Or whoever has its place in this worker: only the policy may have been compiled anew. Not where it has other limits by now. */
function keepWatched(lease: Lease): void {
  const name = lease.policy.counterPrefix + lease.keyValues;
  const known = recent[name] ?? older[name];
  if (known === undefined || known === lease) {
    recent[name] = lease;
    watched.push(lease);
    return;
  }
  lease.watched = false;
  if (known.id === lease.id) watch(known);
}
