import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { knownZone } from "../../../control-plane/src/zones/zone-transitions.ts";
import {
  type CompiledSchedule,
  compileSchedule,
  days,
  isOpen,
  nextChangeSeconds,
  parseTimeOfDay,
  type ZoneTransition,
} from "../../../limiter/src/document/schedule.ts";

const seconds = (text: string) => Date.parse(text) / 1000;
const start = seconds("2026-01-01T00:00:00Z");

function scheduleIn(timezone: string, ...windows: [days: string[], from: string, to: string][]): CompiledSchedule {
  const transitions = knownZone(timezone, start)?.transitions as ZoneTransition[];
  return compileSchedule({ timezone, windows: windows.map(([on, from, to]) => ({ days: on, from, to })) }, transitions);
}

const openAt = (schedule: CompiledSchedule, ...moments: string[]) =>
  moments.map((moment) => isOpen(schedule, seconds(moment)));
const changesOf = (schedule: CompiledSchedule, from: string, until: string) => {
  const changes: string[] = [];
  let at = seconds(from);
  let open = isOpen(schedule, at);
  for (;;) {
    at = nextChangeSeconds(schedule, at);
    if (at > seconds(until)) return changes;
    if (isOpen(schedule, at) === open) continue;
    open = !open;
    changes.push(`${open ? "open" : "closed"} ${new Date(at * 1000).toISOString().slice(0, 16)}`);
  }
};

describe("a schedule", () => {
  test("is open from the first second of a window, and closed from its end on", () => {
    // 2026-06-01 is a Monday.
    const office = scheduleIn("UTC", [["mon", "tue"], "09:00", "18:00"]);
    expect(openAt(office, "2026-06-01T08:59:59Z", "2026-06-01T09:00:00Z")).toEqual([false, true]);
    expect(openAt(office, "2026-06-01T17:59:59Z", "2026-06-01T18:00:00Z")).toEqual([true, false]);
    expect(openAt(office, "2026-06-02T12:00:00Z", "2026-06-03T12:00:00Z", "2026-05-31T12:00:00Z")).toEqual([
      true,
      false,
      false,
    ]);
  });

  test("counts a window past midnight to the day on which it begins", () => {
    const nights = scheduleIn("UTC", [["fri", "sun"], "22:00", "06:00"]);
    expect(changesOf(nights, "2026-06-01T12:00:00Z", "2026-06-09T12:00:00Z")).toEqual([
      "open 2026-06-05T22:00",
      "closed 2026-06-06T06:00",
      "open 2026-06-07T22:00",
      "closed 2026-06-08T06:00",
    ]);
    expect(openAt(nights, "2026-06-01T05:59:59Z", "2026-06-05T05:00:00Z")).toEqual([true, false]);
  });

  test("may be open all day, and all week", () => {
    expect(
      changesOf(scheduleIn("UTC", [["sat"], "00:00", "24:00"]), "2026-06-01T12:00:00Z", "2026-06-08T12:00:00Z"),
    ).toEqual(["open 2026-06-06T00:00", "closed 2026-06-07T00:00"]);
    expect(
      changesOf(scheduleIn("UTC", [["sat"], "12:00", "00:00"]), "2026-06-01T12:00:00Z", "2026-06-08T12:00:00Z"),
    ).toEqual(["open 2026-06-06T12:00", "closed 2026-06-07T00:00"]);
    const always = scheduleIn("Europe/Berlin", [[...days], "00:00", "24:00"]);
    expect(isOpen(always, start)).toBe(true);
    expect(changesOf(always, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")).toEqual([]);
  });

  test("follows the clocks of its zone: eight hours, five and three quarters, before UTC or after", () => {
    const morning: [string[], string, string] = [["mon"], "09:00", "10:00"];
    for (const [zone, opens] of [
      ["Asia/Shanghai", "open 2026-06-01T01:00"],
      ["Asia/Kathmandu", "open 2026-06-01T03:15"],
      ["Pacific/Chatham", "open 2026-05-31T20:15"],
      ["America/New_York", "open 2026-06-01T13:00"],
    ] as const) {
      expect(changesOf(scheduleIn(zone, morning), "2026-05-31T12:00:00Z", "2026-06-01T13:30:00Z")[0]).toBe(opens);
    }
  });
});

describe("when clocks are put forward or back", () => {
  const nightly: [string[], string, string] = [[...days], "01:30", "02:30"];

  test("in Berlin in spring, the skipped half of a window does not occur", () => {
    // 02:00 becomes 03:00, at 01:00 UTC.
    expect(changesOf(scheduleIn("Europe/Berlin", nightly), "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z")).toEqual([
      "open 2026-03-29T00:30",
      "closed 2026-03-29T01:00",
      "open 2026-03-29T23:30",
      "closed 2026-03-30T00:30",
    ]);
  });

  test("in Berlin in autumn, the repeated hour is in the window both times that the clocks show it", () => {
    // 03:00 becomes 02:00, at 01:00 UTC.
    expect(changesOf(scheduleIn("Europe/Berlin", nightly), "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z")).toEqual([
      "open 2026-10-24T23:30",
      "closed 2026-10-25T00:30",
      "open 2026-10-25T01:00",
      "closed 2026-10-25T01:30",
    ]);
  });

  test("in New York, a window of the day is as long as the clocks say, on other days than in Berlin", () => {
    const office = scheduleIn("America/New_York", [["sat", "sun"], "09:00", "17:00"]);
    expect(changesOf(office, "2026-03-07T00:00:00Z", "2026-03-08T21:30:00Z")).toEqual([
      "open 2026-03-07T14:00",
      "closed 2026-03-07T22:00",
      "open 2026-03-08T13:00",
      "closed 2026-03-08T21:00",
    ]);
    expect(changesOf(office, "2026-10-31T00:00:00Z", "2026-11-01T22:30:00Z")).toEqual([
      "open 2026-10-31T13:00",
      "closed 2026-10-31T21:00",
      "open 2026-11-01T14:00",
      "closed 2026-11-01T22:00",
    ]);
    const night = scheduleIn("America/New_York", [["sat"], "22:00", "06:00"]);
    expect(changesOf(night, "2026-03-07T12:00:00Z", "2026-03-08T10:30:00Z")).toEqual([
      "open 2026-03-08T03:00",
      "closed 2026-03-08T10:00",
    ]);
  });

  test("by half an hour, as on Lord Howe", () => {
    const schedule = scheduleIn("Australia/Lord_Howe", [[...days], "01:45", "02:15"]);
    // 02:00 becomes 02:30, at 15:30 UTC.
    expect(changesOf(schedule, "2026-10-03T15:00:00Z", "2026-10-04T15:00:00Z")).toEqual([
      "open 2026-10-03T15:15",
      "closed 2026-10-03T15:30",
      "open 2026-10-04T14:45",
    ]);
  });
});

const zone = fc.constantFrom(
  "Europe/Berlin",
  "Asia/Shanghai",
  "America/New_York",
  "Asia/Kathmandu",
  "Pacific/Chatham",
  "Africa/Casablanca",
  "UTC",
);
const time = fc
  .tuple(fc.nat(23), fc.nat(59))
  .map(([hour, minute]) => [hour, minute].map((part) => `${part}`.padStart(2, "0")).join(":"));
const windows = fc.array(
  fc.tuple(fc.subarray([...days], { minLength: 1 }), time, fc.oneof(time, fc.constant("24:00"))),
  {
    minLength: 1,
    maxLength: 4,
  },
);
const moment = fc.integer({ min: start, max: start + 5 * 366 * 86_400 });
const minutesOf = (text: string) => parseTimeOfDay(text) as number;

describe("at any moment of the coming years, a schedule", () => {
  test("is open exactly when the zone's clocks, as Intl has them, show a time in a window", () => {
    fc.assert(
      fc.property(zone, windows, moment, (timezone, own, at) => {
        const shown = new Intl.DateTimeFormat("en-GB", {
          timeZone: timezone,
          weekday: "short",
          hour: "2-digit",
          minute: "2-digit",
        });
        const parts = Object.fromEntries(shown.formatToParts(at * 1000).map(({ type, value }) => [type, value]));
        const today = days.indexOf((parts["weekday"] as string).toLowerCase());
        const minute = Number(parts["hour"]) * 60 + Number(parts["minute"]);
        const expected = own.some(([on, from, to]) => {
          const length = (minutesOf(to) - minutesOf(from) + 1440) % 1440 || 1440;
          return on.some((day) => {
            const since = ((today - days.indexOf(day) + 7) % 7) * 1440 + minute - minutesOf(from);
            return (since >= 0 && since < length) || (since < 0 && since + 7 * 1440 < length);
          });
        });
        expect(isOpen(scheduleIn(timezone, ...own), at)).toBe(expected);
      }),
      { numRuns: 500 },
    );
  });

  test("stays the same until its next change", () => {
    fc.assert(
      fc.property(zone, windows, moment, fc.nat(), (timezone, own, at, pick) => {
        const schedule = scheduleIn(timezone, ...own);
        const next = nextChangeSeconds(schedule, at);
        expect(next).toBeGreaterThan(at);
        expect(next).toBeLessThanOrEqual(at + 7 * 86_400);
        for (const between of [next - 1, at + (pick % (next - at))]) {
          expect(isOpen(schedule, between)).toBe(isOpen(schedule, at));
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("a time of day", () => {
  test("is hours and minutes, in two digits each, up to 24:00", () => {
    expect(["00:00", "00:01", "09:30", "23:59", "24:00"].map(parseTimeOfDay)).toEqual([0, 1, 570, 1439, 1440]);
  });

  test.each(["", "9:00", "09:0", "09.00", "24:01", "09:60", "25:00", "-1:00", "0a:00", "09:00 ", "09:00:00", "1/:00"])(
    "is none in %j",
    (text) => expect(parseTimeOfDay(text)).toBeUndefined(),
  );
});
