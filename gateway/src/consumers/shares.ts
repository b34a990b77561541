// Divides the memory for consumers among apps, and knows how many each app lacks. While there is room, an app takes what it needs; an
// app that has an equal share leaves the last eighth to the others. If apps with less lack room all the same, the gateway begins anew, and
// no app gets more than all can have of it (max-min fairness): of an app that has more, those are left out that were changed last.
//
// The dict counts what apps have. The worker that owns the push socket knows what they lack, from the control plane.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { ConsumersHead } from "../../../limiter/src/protocol/push-messages.ts";
import { consumersDict } from "../runtime/shared-memory.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";

// Names of consumers begin with the name of an app, and so never with a slash.
export const countKey = "/count";
const bytesKey = "/bytes";
const appsKey = "/apps";
const unstoredKey = "/unstored";

/** Of the memory, so much is for apps that have less than an equal share; and of free pages, so much. */
const reserved = 1 / 8;
const reservedPages = 1 / 16;
/** An app that has nearly its share has its share: entries are of different sizes. */
const nearly = 0.95;
const lookEverySeconds = 1;
/** Between two attempts to divide anew what did not help; then twice as long each time. */
const retrySeconds = 5;
const longestRetrySeconds = 3_600;
/** An answer names no more apps. */
const mostNamed = 1_000;

/** How many consumers each app has at the control plane; only what it has said. */
let totals: Record<string, number> = emptyTable();
/** They came for all apps, and have not been compared since. */
let areAllNew = false;
/** How many consumers too many were here when everything had come again: requests that use an entry all the time keep it, though it is not in force. */
let leftOver = 0;
let hasTooMany = false;
/** How many of them have no room here, as of the last comparison. */
let missing: Record<string, number> = emptyTable();
/** How many changes have found no room since. */
let failed: Record<string, number> = emptyTable();
/** While a gateway begins anew: what each app has got, and the most that it may get. */
let taken: Record<string, number> = emptyTable();
let level = math.huge;
/** What apps may take before it must be looked at how much is left. */
let room = 0;
/** By the stopwatch, which begins when the machine starts. */
let lookedAtSeconds = -lookEverySeconds;
let triedAtSeconds = 0;
let retryAfterSeconds = 0;
let unstoredWhenTried = 0;

const dict = consumersDict as SharedDict;

/** What nginx adds to a key and a value in a shared dict; and the size of a page, of which an entry gets a part or whole ones. */
const bytesOfEntry = 68;
const pageBytes = 4096;
const leastBytes = 128;
/** The longest entry takes less. */
const mostEntryBytes = 16_384;

/**
 * Returns the bytes that a consumer takes in a shared dict: nginx rounds them up to a power of two, or to whole pages.
 *
 * @param nameBytes those of the key
 * @param valueBytes those of the value
 */
export function memoryOf(nameBytes: number, valueBytes: number): number {
  const bytes = bytesOfEntry + nameBytes + valueBytes;
  if (bytes > pageBytes / 2) return math.ceil(bytes / pageBytes) * pageBytes;
  let part = leastBytes;
  while (part < bytes) part *= 2;
  return part;
}

/** Returns the app in the name of a consumer. */
export function appOf(name: string): string {
  const [colon] = string.find(name, ":", 1, true);
  return string.sub(name, 1, (colon ?? 1) - 1);
}

/** Takes the places of the sums, which must find room even if the dict is full. */
export function openShares(): void {
  dict.safe_set(bytesKey, 0);
  dict.safe_set(appsKey, 0);
  dict.safe_set(unstoredKey, 0);
}

/** How many consumers have no room. */
export function unstoredCount(): number {
  return consumersDict === undefined ? 0 : numberAt(unstoredKey);
}

/** Counts consumers that are not on disk either. */
export function noteUnstored(consumers: number): void {
  dict.incr(unstoredKey, consumers);
}

function numberAt(key: string): number {
  return dict.get<number>(key)[0] ?? 0;
}

/** Called before some lines are taken. */
export function lookAtRoom(): void {
  const capacity = dict.capacity();
  room = math.min(
    capacity * (1 - reserved) - numberAt(bytesKey),
    dict.free_space() - capacity * reservedPages - mostEntryBytes,
  );
}

/** Returns whether there is room for any app. The bytes count as taken until the next lines. */
export function hasRoomFor(bytes: number): boolean {
  if (room < bytes) return false;
  room -= bytes;
  return true;
}

/** Returns whether an app may take so many bytes more. */
export function mayTake(app: string, bytes: number): boolean {
  if (hasRoomFor(bytes)) return true;
  const most = dict.capacity() * (1 - reserved);
  if (numberAt(`/b:${app}`) + bytes <= most / math.max(numberAt(appsKey), 1)) return true;
  return numberAt(bytesKey) + bytes <= most && dict.free_space() > dict.capacity() * reservedPages;
}

/** Notes that an app has so many consumers and bytes more, or less. @returns false: there is no memory to note it */
export function noteTaken(app: string, consumers: number, bytes: number): boolean {
  if (consumers === 0 && bytes === 0) return true;
  const count = addTo(`/n:${app}`, consumers);
  if (count === undefined) return false;
  if (addTo(`/b:${app}`, bytes) === undefined) {
    dict.incr(`/n:${app}`, -consumers);
    return false;
  }
  dict.incr(bytesKey, bytes);
  if (count === 0 && consumers < 0) {
    dict.incr(appsKey, -1);
    dict.delete(`/n:${app}`);
    dict.delete(`/b:${app}`);
  } else if (count === consumers && consumers > 0) dict.incr(appsKey, 1);
  return true;
}

function addTo(key: string, amount: number): number | undefined {
  const [sum] = dict.incr(key, amount);
  if (sum !== undefined) return sum;
  return dict.safe_add(key, amount)[0] === true ? amount : undefined;
}

/** Called when the gateway begins anew. */
export function beginShares(): void {
  level = shareOfEach();
  taken = emptyTable();
  missing = emptyTable();
  failed = emptyTable();
}

/** Called when it has everything again. */
export function endShares(): void {
  level = math.huge;
  taken = emptyTable();
}

/** Returns whether an app may have this consumer, while a gateway begins anew. */
export function takeOfShare(app: string, bytes: number): boolean {
  if (level === math.huge) return true;
  const sum = (taken[app] ?? 0) + bytes;
  if (sum > level) return false;
  taken[app] = sum;
  return true;
}

/** Notes that a consumer of an app found no room. */
export function noteFailed(app: string): void {
  failed[app] = (failed[app] ?? 0) + 1;
}

/** Learns how many consumers apps have. */
export function learnTotals({ counts, all }: ConsumersHead): void {
  if (counts === undefined) return;
  if (all === true) {
    totals = emptyTable();
    areAllNew = true;
  }
  for (const app in counts) totals[app] = counts[app] as number;
}

/**
 * Compares what apps have here with what they have.
 *
 * @param head only the apps that it names, and those that found no room since; undefined: all, as everything has come again
 */
export function compareTotals(head?: ConsumersHead): void {
  if (head === undefined || areAllNew) {
    missing = emptyTable();
    compare(totals);
    const tooMany = countBeyondTotals();
    if (head === undefined) leftOver = tooMany;
    hasTooMany = tooMany > leftOver;
    areAllNew = false;
  } else if (head.counts !== undefined) compare(head.counts);
  // Changes found no room in earlier messages, too, which were about other apps.
  for (const app in failed) {
    if (totals[app] !== undefined) missing[app] = lackedOf(app);
    // An earlier control plane does not say how many there are.
    else missing[app] = (missing[app] ?? 0) + (failed[app] ?? 0);
  }
  failed = emptyTable();
}

function compare(apps: Readonly<Record<string, number>>): void {
  for (const app in apps) missing[app] = lackedOf(app);
}

function lackedOf(app: string): number {
  return math.max((totals[app] ?? 0) - numberAt(`/n:${app}`), 0);
}

/** Returns how many consumers too many are here, also of apps that have none any more. */
function countBeyondTotals(): number {
  let beyond = numberAt(countKey);
  for (const app in totals) beyond -= math.min(numberAt(`/n:${app}`), totals[app] ?? 0);
  return beyond;
}

/** Returns, once, whether more consumers are in force than there are: a deletion has not come here. */
export function shouldForgetSome(): boolean {
  const should = hasTooMany;
  hasTooMany = false;
  return should;
}

/** Makes the number of consumers without room known to all workers. @returns it */
export function publishUnstored(): number {
  let sum = 0;
  for (const app in missing) sum += missing[app] ?? 0;
  for (const app in failed) sum += failed[app] ?? 0;
  dict.safe_set(unstoredKey, sum);
  return sum;
}

/** Returns how many consumers each app lacks here; undefined: none, or it is not known of which apps they are. */
export function lackingOfApps(): Record<string, number> | undefined {
  const lacking: Record<string, number> = emptyTable();
  let named = 0;
  for (const apps of [missing, failed]) {
    for (const app in apps) {
      const more = apps[app] ?? 0;
      if (more === 0 || (lacking[app] === undefined && named >= mostNamed)) continue;
      if (lacking[app] === undefined) named += 1;
      lacking[app] = (lacking[app] ?? 0) + more;
    }
  }
  return named === 0 ? undefined : lacking;
}

/** Returns the most bytes that an app may have so that as many apps as possible have what they need. Infinity: all have room. */
function shareOfEach(): number {
  let left = dict.capacity() * (1 - reserved);
  const needs: number[] = [];
  for (const app in totals) needs.push(needOf(app));
  needs.sort((a, b) => a - b);
  for (let i = 0; i < needs.length; i++) {
    const need = needs[i] as number;
    const share = left / (needs.length - i);
    if (need > share) return share;
    left -= need;
  }
  return math.huge;
}

/** Consumers that have no room are taken to need as much as those of the app that have. */
function needOf(app: string): number {
  const count = numberAt(`/n:${app}`);
  const lacks = missing[app] ?? 0;
  return count === 0 ? lacks * leastBytes : (numberAt(`/b:${app}`) * (count + lacks)) / count;
}

/** Returns whether the gateway should begin anew, as an app has less than its share and lacks room. Says so now and then. */
export function shouldDivideAnew(): boolean {
  const unstored = unstoredCount();
  if (unstored === 0) return false;
  const now = stopwatchSeconds();
  if (now - lookedAtSeconds < lookEverySeconds) return false;
  if (now - triedAtSeconds < retryAfterSeconds) return false;
  lookedAtSeconds = now;
  const share = shareOfEach();
  let wanted = false;
  for (const app in missing) {
    if ((missing[app] ?? 0) > 0 && numberAt(`/b:${app}`) < nearly * share) wanted = true;
  }
  if (!wanted) return false;
  retryAfterSeconds =
    unstored < unstoredWhenTried || retryAfterSeconds === 0
      ? retrySeconds
      : math.min(2 * retryAfterSeconds, longestRetrySeconds);
  unstoredWhenTried = unstored;
  triedAtSeconds = now;
  return true;
}
