// Keeps the keys of the last hour in the database, so that they outlive a restart, and reads what other control planes keep or
// kept there. Each control plane stores what its own gateways report, so nothing is counted twice. What cannot
// be stored is not needed to serve anything: it is logged once, and the next start says that something is missing.

import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import fp from "fastify-plugin";
import { KeptSlots } from "../activity/kept-slots.ts";
import type { KeptKeys } from "../activity/merged-keys.ts";
import { endOfHourSlot, type HourSlot, hourSlotEndingAt, policyOf } from "../activity/top-keys.ts";
import { pauses } from "../limits/pauses.ts";
import {
  announceKeeper,
  deleteKeptKeys,
  existingPolicies,
  forgetKeptKeys,
  insertKeptKeys,
  type KeptKeysRow,
  type KeyKeeper,
  keptKeysAtOnce,
  readKeepers,
  readKeptKeys,
} from "../storage/kept-keys.ts";

const workEveryMs = 1_000;
/** They take 400 KB at most. Others wait for their turn. */
const storedAtOnce = 100;
const minuteMs = 60_000;
/** A control plane that has been silent for so long may not run any more. */
const silentAfterMs = 10_000;
/** Gateways lose keys that they could not report for so long. */
const gatewaysKeepMs = 40_000;
/** Slots of the hour that may still change. */
const changingMs = 3_900_000;

/** A row: keys of a policy and a result, or an app of which some policies were left out. */
type Row = (KeptKeys & { readonly name: string }) | { readonly cut: string };

/** `isShared`: other control planes may use the same database. */
export default fp<{ now: () => number; isShared: boolean }>(
  async (app, { now, isShared }) => {
    const { keys } = app.activity;
    const id = randomUUID();
    const kept = new KeptSlots();
    /** By control plane, the number of its last row that was read. */
    const read = new Map<string, number>();
    /** By control plane: when it was seen for the first time. One that has not been seen again may not run. */
    const firstSeenMs = new Map<string, number>();
    let announcedMs = 0;
    let forgottenMs = performance.now();
    let round: Promise<void> | undefined;
    let isFailing = false;

    const startedMs = now();
    const former = await readKeepers(app.database, id);
    const knownSinceMs = startedMs - Math.max(0, ...former.map(({ knownForMs }) => knownForMs));
    keys.noteUnknown("hour", knownSinceMs);
    // The last one knows what those before it lost.
    const [last] = former.toSorted((a, b) => a.silentMs - b.silentMs);
    const wasKilled = !isShared && last?.hasEnded === false;
    const hasLost = wasKilled || (last !== undefined && last.silentMs > gatewaysKeepMs);
    const lostUntilMs = hasLost ? startedMs : 0;
    keys.noteLost("hour", lostUntilMs);
    // The last row of one that was killed is not known, so all are read.
    await hear(former.map((one) => ({ ...one, number: Number.POSITIVE_INFINITY })));
    noteSeen(former);

    /** Takes over what is new of other control planes. Requests are served meanwhile. */
    async function hear(others: readonly KeyKeeper[]): Promise<void> {
      for (const { id: other, number, lostBeforeMs } of others) {
        keys.noteLost("hour", now() - lostBeforeMs);
        for (let isMore = number > (read.get(other) ?? 0); isMore; ) {
          const rows = await readKeptKeys(app.database, other, read.get(other) ?? 0);
          await takeOver(other, rows);
          read.set(other, rows.at(-1)?.number ?? read.get(other) ?? 0);
          isMore = rows.length === keptKeysAtOnce;
        }
      }
    }

    /** Notes whether there is a control plane that may not run any more, and did not say that it ended. */
    function noteSeen(others: readonly KeyKeeper[]): void {
      for (const { id: other, silentMs } of others) {
        if (!firstSeenMs.has(other)) firstSeenMs.set(other, performance.now() - silentMs);
      }
      keys.noteSilent(isShared && others.some((other) => !other.hasEnded && !runs(other)));
    }

    async function takeOver(other: string, rows: readonly KeptKeysRow[]): Promise<void> {
      const pause = pauses(setImmediate);
      const readMs = now();
      for (const { endsInMs, report } of rows) {
        await pause();
        const number = hourSlotEndingAt(readMs + endsInMs);
        const row = JSON.parse(report) as Row;
        if ("cut" in row) keys.noteCut(row.cut, number);
        else keys.put(other, { name: row.name, number }, row);
      }
    }

    async function hearOthers(): Promise<void> {
      const others = await readKeepers(app.database, id);
      await hear(others);
      noteSeen(others);
      const ids = new Set(others.map((other) => other.id));
      for (const known of [read, firstSeenMs])
        for (const other of known.keys()) if (!ids.has(other)) known.delete(other);
    }

    function runs({ id: other, silentMs }: KeyKeeper): boolean {
      const isSeenAgain = performance.now() - silentMs - (firstSeenMs.get(other) ?? 0) > workEveryMs / 2;
      return isSeenAgain && silentMs < silentAfterMs;
    }

    /** Stores some of what has changed, first what has waited longest. @returns whether there may be more */
    async function store(): Promise<boolean> {
      const changed = keys.takeChanged(storedAtOnce);
      try {
        if (changed.length > 0) await storeSlots(changed);
      } catch (error) {
        keys.noteChanged(changed);
        throw error;
      }
      return changed.length === storedAtOnce;
    }

    async function storeSlots(changed: readonly HourSlot[]): Promise<void> {
      const existing = await existingPolicies(app.database, new Set(changed.map(policyOf)));
      const pause = pauses(setImmediate);
      const rows: KeptKeysRow[] = [];
      for (const slot of changed) {
        await pause();
        const found = existing.has(policyOf(slot)) ? keys.keptOf(slot) : undefined;
        const number = found && kept.place(slot, found);
        if (found !== undefined && number !== undefined) {
          rows.push(rowOf(number, slot.number, { name: slot.name, ...found }));
        }
      }
      for (const { app: cut, number } of kept.cuts) rows.push(rowOf(kept.nextRow(), number, { cut }));
      if (rows.length > 0) await insertKeptKeys(app.database, id, rows);
      kept.noteStored(changed);
      // For a moment a slot has two rows, and its readers take the later one.
      await deleteKeptKeys(app.database, id, kept.gone);
      kept.noteDeleted();
    }

    function rowOf(number: number, slot: number, row: Row): KeptKeysRow {
      return { number, endsInMs: endOfHourSlot(slot) - now(), report: JSON.stringify(row) };
    }

    async function announce(hasEnded: boolean): Promise<void> {
      const nowMs = performance.now();
      if (!isShared && !hasEnded && announcedMs > 0 && nowMs - announcedMs < minuteMs) return;
      await announceKeeper(app.database, {
        id,
        number: kept.newest,
        knownForMs: now() - knownSinceMs,
        lostBeforeMs: now() - Math.max(lostUntilMs, keys.droppedUntilMs),
        hasEnded,
      });
      announcedMs = nowMs;
    }

    async function forgetOld(): Promise<void> {
      if (performance.now() - forgottenMs < minuteMs) return;
      forgottenMs = performance.now();
      kept.forget(hourSlotEndingAt(now() - changingMs));
      while (await forgetKeptKeys(app.database)) await setImmediate();
    }

    async function work(): Promise<void> {
      const steps = [store, () => announce(false), ...(isShared ? [hearOthers] : []), forgetOld];
      const errors: unknown[] = [];
      // One that fails does not keep the others from their work.
      for (const step of steps) await step().catch((error: unknown) => errors.push(error));
      const [err] = errors;
      if (err !== undefined && !isFailing)
        app.log.error({ err }, "cannot store which keys gateways refuse; trying again");
      isFailing = err !== undefined;
    }

    function begin(): void {
      round ??= work().finally(() => {
        round = undefined;
      });
    }

    begin();
    const timer = setInterval(begin, workEveryMs);
    timer.unref();
    app.addHook("onClose", async () => {
      clearInterval(timer);
      await round;
      // A database that did not answer would delay the stop.
      if (isFailing) return;
      try {
        while (await store());
        await announce(true);
      } catch (err) {
        app.log.error({ err }, "cannot store which keys gateways refused last");
      }
    });
  },
  { name: "kept-keys", dependencies: ["activity", "database"] },
);
