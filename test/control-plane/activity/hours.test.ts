// Traffic by hour: what is summed up of stored minutes, and what is shown of it and of the minutes in memory.

import { expect, it } from "vitest";
import { Activity, type KeptMinute } from "../../../control-plane/src/activity/activity.ts";
import { hoursOf, sumMinutes } from "../../../control-plane/src/activity/hours.ts";

const minuteMs = 60_000;
const hourMs = 3_600_000;
const startMs = 1_900_000_000_000 - (1_900_000_000_000 % hourMs);
const none = { admitted: 0, refused: 0, shadowRefused: 0, delayed: 0, degraded: 0 };

const row = (name: string, admitted: number) => ({ name, counts: [admitted, 0, 0, 0, 0] });

async function* minutes(...rows: KeptMinute[]) {
  for (const [i, minute] of rows.entries()) yield { atMs: startMs + i * minuteMs, traffic: JSON.stringify(minute) };
}

const existing = (rows: KeptMinute, createdAtMs: Record<string, number> = {}) => ({
  names: new Set(rows.map(({ name }) => name)),
  createdAtMs: new Map(Object.entries(createdAtMs)),
});

it("an hour is the sum of its minutes, of the apps and policies that exist", async () => {
  const first = [row("a/", 6), row("a/b", 5), row("a/gone", 1)];
  const second = [{ ...row("a/", 3), isCut: true }, row("a/b", 3), row("no-app/", 9)];
  const sums = await sumMinutes(minutes(first, second), existing([row("a/", 0), row("a/b", 0)]));
  expect(sums).toEqual([{ ...row("a/", 9), isCut: true }, row("a/b", 8)]);
});

it("an hour has no minutes of a deleted app whose name another app has", async () => {
  const of = [row("a/", 0), row("a/b", 0)];
  const all = minutes([row("a/", 9), row("a/b", 9)], [], [row("a/", 2), row("a/b", 1)]);
  const created = existing(of, { a: startMs + 2 * minuteMs + 5_000 });
  expect(await sumMinutes(all, created)).toEqual([row("a/", 2), row("a/b", 1)]);
});

it("an hour has at most the 1,000 busiest policies, shared among the apps, and says of which app not all are there", async () => {
  const rowsOf = (app: string, policies: number, admitted: number) =>
    ["", ...Array.from({ length: policies }, (_, i) => `p${i}`)].map((policy) => row(`${app}/${policy}`, admitted));
  const [busy, shop] = [rowsOf("busy", 2_000, 9), rowsOf("shop", 300, 1)];
  const parts = [busy.slice(0, 1_000), busy.slice(1_000), shop];
  const sums = await sumMinutes(minutes(...parts), existing([...busy, ...shop]));
  expect(sums).toHaveLength(1_002);
  expect(sums.filter(({ name }) => name.startsWith("shop/"))).toEqual(shop);
  expect(sums.filter(({ isCut }) => isCut).map(({ name }) => name)).toEqual(["busy/"]);
});

it("hours that are stored and minutes in memory are told together, and each hour once", () => {
  const nowMs = startMs + 30 * minuteMs;
  const activity = new Activity(() => nowMs);
  const hourAgo = (hours: number) => startMs - hours * hourMs;
  for (const [atMs, admitted] of [
    [hourAgo(24), 1],
    [hourAgo(1) + minuteMs, 2],
    [hourAgo(1) + 59 * minuteMs, 3],
    [startMs, 4],
  ] as const) {
    activity.readMinute(atMs, [row("a/", admitted), row("a/b", admitted)]);
  }
  const stored = (hours: number, name: string, admitted: number, isCut?: boolean) => {
    return { atMs: hourAgo(hours), name, traffic: JSON.stringify({ ...row(name, admitted), isCut }) };
  };
  const shown = (policy: string | undefined, hours: ReturnType<typeof stored>[], since = 48, knownSinceMs = 0) => {
    const time = { sinceMs: hourAgo(since), createdAtMs: 0, nowMs };
    const { isComplete, points } = hoursOf(activity, { app: "a", policy }, time, { hours, knownSinceMs });
    return [isComplete, points.map(({ atMs, ...counts }) => ((startMs - atMs) / hourMs) * 100 + counts.admitted)];
  };
  const inMemory = [2_401, 105, 4];
  expect(shown("b", [])).toEqual([true, inMemory]);
  // Another control plane has summed up the hour of which minutes are still in memory here.
  const rows = [stored(25, "a/b", 7), stored(24, "a/b", 1), stored(25, "a/", 9)];
  expect(shown("b", rows)).toEqual([true, [2_507, ...inMemory]]);
  expect(shown("b", [...rows, stored(24, "a/", 1, true)])[0]).toBe(false);
  expect(shown(undefined, [stored(25, "a/", 9, true)])).toEqual([true, [2_509, ...inMemory]]);
  expect(shown("b", rows, 48, hourAgo(47))[0]).toBe(false);
  expect(shown("b", rows, 48, hourAgo(48))[0]).toBe(true);
  expect(
    hoursOf(
      activity,
      { app: "a" },
      { sinceMs: 0, createdAtMs: startMs + 5_000, nowMs },
      { hours: [stored(25, "a/", 9)], knownSinceMs: 0 },
    ),
  ).toEqual({
    isComplete: true,
    points: [{ ...none, atMs: startMs, admitted: 4 }],
  });
});
