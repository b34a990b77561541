import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Activity, cutMinute, mergeMinutes } from "../../../control-plane/src/activity/activity.ts";
import { type Step, Traffic } from "../../../control-plane/src/activity/traffic.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
const startMs = 1_900_000_000_000 - (1_900_000_000_000 % dayMs);
const none = { admitted: 0, refused: 0, shadowRefused: 0, delayed: 0, degraded: 0 };
const one = { ...none, admitted: 1 };

describe("traffic", () => {
  it("is kept by second and by minute", () => {
    const traffic = new Traffic(100);
    traffic.add("shop/books", startMs + 500, startMs + 1_000, {
      ...one,
      refused: 2,
      delayed: 3,
      shadowRefused: 4,
      degraded: 5,
    });
    traffic.add("shop/books", startMs + 1_500, startMs + 2_000, one);
    const first = { atMs: startMs, admitted: 1, refused: 2, delayed: 3, shadowRefused: 4, degraded: 5 };
    expect(traffic.points("shop/books", "second", startMs, startMs + hourMs)).toEqual([
      first,
      { ...none, atMs: startMs + 1_000, admitted: 1 },
    ]);
    expect(traffic.points("shop/books", "minute", startMs, startMs + hourMs)).toEqual([{ ...first, admitted: 2 }]);
    expect(traffic.points("shop/pens", "second", startMs, startMs + hourMs)).toEqual([]);
  });

  it("of a longer time is spread over it, and none is lost", () => {
    const sumOf = (traffic: Traffic, step: Step, untilMs: number) => {
      const points = traffic.points("a/b", step, 0, untilMs);
      return points.reduce((sum, { refused }) => sum + refused, 0);
    };
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 0, max: dayMs }), (count, lengthMs) => {
        const traffic = new Traffic(100);
        const toMs = startMs + 2 * dayMs;
        traffic.add("a/b", toMs - lengthMs, toMs, { ...none, refused: count });
        expect(sumOf(traffic, "minute", toMs + 1_000)).toBe(count);
        const inTheLastHour = Math.round(count * Math.min(1, hourMs / Math.max(lengthMs, 1)));
        expect(sumOf(traffic, "second", toMs + 1_000)).toBe(inTheLastHour);
        for (const { atMs } of traffic.points("a/b", "second", 0, toMs + 1_000)) {
          expect(atMs).toBeGreaterThanOrEqual(toMs - Math.min(lengthMs, hourMs) - 1_000);
        }
      }),
      { numRuns: 20 },
    );
    const traffic = new Traffic(100);
    traffic.add("a/b", startMs, startMs + 10_000, { ...none, refused: 20 });
    const perSecond = traffic.points("a/b", "second", 0, startMs + hourMs).map(({ refused }) => refused);
    expect(perSecond).toEqual(Array(10).fill(2));
  });

  it("of long times that come more often than they are kept apart is put together, and none is lost", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(dayMs), fc.nat(2 * hourMs), fc.nat(10_000)), { minLength: 1, maxLength: 40 }),
        (reports) => {
          const traffic = new Traffic(100);
          for (const [lengthMs, agoMs, count] of reports) {
            const toMs = startMs + 2 * dayMs - agoMs;
            traffic.add("a/b", toMs - lengthMs, toMs, { ...none, refused: count });
          }
          const points = traffic.points("a/b", "minute", 0, startMs + 3 * dayMs);
          const all = reports.reduce((sum, [, , count]) => sum + count, 0);
          expect(points.reduce((sum, { refused }) => sum + refused, 0)).toBe(all);
          const first = Math.min(...reports.map(([lengthMs, agoMs]) => startMs + 2 * dayMs - agoMs - lengthMs));
          for (const { atMs } of points) expect(atMs).toBeGreaterThan(first - minuteMs);
        },
      ),
    );
  });

  it("is added up as its points are, whatever the time that is asked for", () => {
    const moment = fc.integer({ min: 0, max: 3 * dayMs });
    const report = fc.tuple(moment, fc.oneof(fc.nat(5_000), fc.nat(dayMs)), fc.nat(5_000));
    fc.assert(
      fc.property(fc.array(report, { maxLength: 20 }), moment, moment, (reports, fromMs, untilMs) => {
        const traffic = new Traffic(100);
        for (const [atMs, lengthMs, count] of reports) {
          traffic.add("a/b", startMs + atMs, startMs + atMs + lengthMs, { ...none, delayed: count });
        }
        for (const step of ["second", "minute"] as const) {
          const points = traffic.points("a/b", step, startMs + fromMs, startMs + untilMs);
          const sum = points.reduce((total, { delayed }) => total + delayed, 0);
          expect(traffic.sum("a/b", step, startMs + fromMs, startMs + untilMs)).toEqual({ ...none, delayed: sum });
        }
      }),
    );
  });

  it("of a long time is forgotten, and gives way, as all other", () => {
    const traffic = new Traffic(4);
    traffic.add("a/b", startMs, startMs + 2 * hourMs, { ...none, admitted: 7_200 });
    const kept = (atMs: number) => {
      traffic.forget(atMs);
      return (["second", "minute"] as const).map((step) => traffic.sum("a/b", step, startMs, atMs).admitted);
    };
    expect(kept(startMs + 2 * hourMs)).toEqual([3_600, 7_200]);
    expect(kept(startMs + 4 * hourMs)).toEqual([0, 7_200]);
    expect(kept(startMs + 2 * dayMs)).toEqual([0, 0]);
    expect(traffic.names("")).toEqual([]);
    for (const name of ["a/1", "a/2", "a/3"]) traffic.add(name, startMs, startMs + hourMs, { ...none, admitted: 60 });
    expect(traffic.names("").sort()).toEqual(["a/2", "a/3"]);
    expect(traffic.isComplete("minute", startMs + hourMs - 1)).toBe(false);
    expect(traffic.isComplete("minute", startMs + hourMs)).toBe(true);
  });

  it("is forgotten after an hour by second, and after a day by minute", () => {
    const traffic = new Traffic(100);
    traffic.add("a/b", startMs, startMs + 500, one);
    const kept = (atMs: number) => {
      traffic.forget(atMs);
      return (["second", "minute"] as const).map((step) => traffic.points("a/b", step, 0, atMs).length);
    };
    expect(kept(startMs + hourMs)).toEqual([1, 1]);
    expect(kept(startMs + hourMs + minuteMs)).toEqual([0, 1]);
    expect(kept(startMs + dayMs)).toEqual([0, 1]);
    expect(kept(startMs + dayMs + hourMs)).toEqual([0, 0]);
  });

  it("takes no more memory than it may: the oldest gives way, and what is missing is said", () => {
    const traffic = new Traffic(2);
    for (const [i, name] of ["a/1", "a/2", "a/3"].entries()) {
      traffic.add(name, startMs + i * hourMs, startMs + i * hourMs, one);
    }
    const seconds = (name: string) => traffic.points(name, "second", 0, startMs + dayMs).length;
    expect(["a/1", "a/2", "a/3"].map(seconds)).toEqual([0, 1, 1]);
    expect(traffic.isComplete("second", startMs + minuteMs - 1)).toBe(false);
    expect(traffic.isComplete("second", startMs + minuteMs)).toBe(true);
    expect(traffic.isComplete("minute", startMs + hourMs - 1)).toBe(false);
    expect(traffic.isComplete("minute", startMs + hourMs)).toBe(true);
  });

  it("counts no further than it can, instead of from 0 again", () => {
    const traffic = new Traffic(10);
    for (let i = 0; i < 2; i++) {
      traffic.add("a/b", startMs, startMs, { ...none, admitted: Number.MAX_SAFE_INTEGER, refused: 2 ** 31 });
    }
    const [point] = traffic.points("a/b", "second", 0, startMs + hourMs);
    expect(point).toMatchObject({ admitted: 2 ** 32 - 1, refused: 2 ** 32 - 1 });
  });
});

describe("traffic of a minute", () => {
  it("that two control planes know is what both know together", () => {
    const one = [
      { name: "a/", counts: [5, 0, 0, 0, 0] },
      { name: "a/b", counts: [5, 0, 0, 0, 0] },
    ];
    const other = [
      { name: "a/c", counts: [1, 1, 0, 0, 0] },
      { name: "a/", counts: [3, 1, 0, 0, 0] },
    ];
    expect(mergeMinutes(one, other)).toEqual([
      { name: "a/", counts: [5, 1, 0, 0, 0] },
      { name: "a/b", counts: [5, 0, 0, 0, 0] },
      { name: "a/c", counts: [1, 1, 0, 0, 0] },
    ]);
  });

  const rowsOf = (app: string, policies: number, count: number) =>
    ["", ...Array.from({ length: policies }, (_, i) => `p${i}`)].map((policy) => {
      return { name: `${app}/${policy}`, counts: [count, 0, 0, 0, 0] };
    });
  const namesOf = (rows: readonly { name: string }[]) => new Set(rows.map(({ name }) => name));

  it("is kept of each app, however many busier policies others have, and says of which app not all is kept", () => {
    const [busy, shop] = [rowsOf("busy", 2_000, 9), rowsOf("shop", 300, 1)];
    const kept = cutMinute([...busy, ...shop], namesOf([...busy, ...shop]));
    expect(kept.filter(({ name }) => name.startsWith("shop/"))).toEqual(shop);
    expect(kept).toHaveLength(1_002);
    expect(kept.filter(({ isCut }) => isCut).map(({ name }) => name)).toEqual(["busy/"]);
    const activity = new Activity(() => startMs + minuteMs);
    activity.readMinute(startMs, kept);
    const isComplete = (app: string, policy: string | undefined, sinceMs: number) =>
      activity.isComplete({ app, policy }, "minute", sinceMs);
    expect(isComplete("busy", "p1999", startMs)).toBe(false);
    expect(isComplete("busy", "p1999", startMs + minuteMs)).toBe(true);
    expect([isComplete("busy", undefined, startMs), isComplete("shop", "p1", startMs)]).toEqual([true, true]);
  });

  it("is not kept of policies and apps that there are not, if there are too many", () => {
    const shop = rowsOf("shop", 300, 1);
    const lies = Array.from({ length: 2_000 }, (_, i) => rowsOf(`no-app-${i}`, 1, 9)).flat();
    const known = namesOf(shop);
    expect(cutMinute([...lies, ...rowsOf("shop", 1_500, 1)], known)).toEqual(shop);
    expect(cutMinute(lies.slice(0, 100), known)).toHaveLength(100);
  });

  it("takes as long to read as there was traffic in it, although somebody reports about a day beside twenty thousand names", async () => {
    const nowMs = startMs + dayMs - 1_000;
    const activity = new Activity(() => nowMs);
    const report = (policy: string, fromMs: number) =>
      activity.add({
        traffic: [{ app: "a", policy, fromMs, toMs: nowMs, counts: { ...none, admitted: 2_880 } }],
        keys: [],
      });
    for (let i = 0; i < 19_990; i++) report(`p${i}`, nowMs - 1_000);
    report("day", nowMs - 86_000_000);
    const [present = 0, ...others] = activity.takeChangedMinutes(nowMs + minuteMs, 2_000).sort((a, b) => b - a);
    expect(others.length).toBeGreaterThan(1_400);
    const beganMs = processorMs();
    // Names are found by the hour.
    for (const atMs of others.slice(60, 160)) {
      expect((await activity.minute(atMs)).map(({ name }) => name)).toEqual(["a/", "a/day"]);
    }
    expect(processorMs() - beganMs).toBeLessThan(100);
    expect(await activity.minute(present)).toHaveLength(19_990 + 2);
  });

  it("is taken in turn, although somebody reports about a day again and again", () => {
    const nowMs = startMs + dayMs;
    const activity = new Activity(() => nowMs);
    const report = (fromMs: number, toMs: number) =>
      activity.add({ traffic: [{ app: "a", policy: "b", fromMs, toMs, counts: one }], keys: [] });
    report(nowMs - 86_000_000, nowMs - 120_000);
    report(nowMs - minuteMs, nowMs - minuteMs);
    const taken = new Set<number>();
    for (let round = 0; round < 80; round++) {
      for (const atMs of activity.takeChangedMinutes(nowMs, 20)) taken.add(atMs);
      report(nowMs - 86_000_000, nowMs - 120_000);
    }
    expect(taken.has(nowMs - minuteMs)).toBe(true);
  });
});
