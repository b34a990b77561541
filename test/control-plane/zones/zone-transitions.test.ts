import { afterEach, describe, expect, it, vi } from "vitest";
import { isTimezone, knownZone } from "../../../control-plane/src/zones/zone-transitions.ts";
import { loadSnapshot } from "../../fixtures/documents/loaded-state.ts";
import { pushedSnapshot } from "../../fixtures/documents/pushed-snapshot.ts";
import { onePerSecond, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const now = Date.UTC(2026, 5, 15, 12, 30);
const written = (timezone: string) =>
  knownZone(timezone, now / 1000)?.transitions.map(
    ([from, offset]) => `${new Date(from * 1000).toISOString()} ${offset}`,
  );
const office = { timezone: "Europe/Berlin", windows: [{ days: ["mon"], from: "09:00", to: "18:00" }] };

afterEach(() => {
  vi.restoreAllMocks();
});

describe("the transitions of a time zone", () => {
  it("begin three years before now and go ten years on, each to the second", () => {
    const berlin = written("Europe/Berlin") as string[];
    expect(berlin[0]).toBe("2023-06-13T00:00:00.000Z 120");
    expect(berlin.slice(6, 9)).toEqual([
      "2026-03-29T01:00:00.000Z 120",
      "2026-10-25T01:00:00.000Z 60",
      "2027-03-28T01:00:00.000Z 120",
    ]);
    expect(berlin).toHaveLength(27);
    expect(berlin.at(-1)).toBe("2036-03-30T01:00:00.000Z 120");
  });

  it("are a single one if clocks do not change, with any part of an hour", () => {
    expect(written("Asia/Shanghai")).toEqual(["2023-06-13T00:00:00.000Z 480"]);
    expect(written("Asia/Kathmandu")).toEqual(["2023-06-13T00:00:00.000Z 345"]);
    expect(written("UTC")).toEqual(["2023-06-13T00:00:00.000Z 0"]);
    expect(written("America/St_Johns")?.[0]).toBe("2023-06-13T00:00:00.000Z -150");
  });

  it("are a single one for an offset to UTC, which needs no search: there are thousands of them", () => {
    const search = vi.spyOn(Intl.DateTimeFormat.prototype, "formatToParts");
    expect(written("+05:30")).toEqual(["2023-06-13T00:00:00.000Z 330"]);
    expect(written("-0330")).toEqual(["2023-06-13T00:00:00.000Z -210"]);
    expect(knownZone("-0330", now / 1000)?.name).toBe("-03:30");
    expect(search).not.toHaveBeenCalled();
  });

  it("are those of one name, which is asked for once, whatever the case that it is written in", () => {
    expect(isTimezone("Pacific/Apia")).toBe(true);
    const asked = vi.spyOn(Intl, "DateTimeFormat");
    expect(["pacific/apia", "PACIFIC/APIA", "pAcIfIc/ApIa"].map(isTimezone)).toEqual([true, true, true]);
    expect(asked).not.toHaveBeenCalled();
    expect(isTimezone("Pacific/Nowhere")).toBe(false);
    expect(asked).toHaveBeenCalledOnce();
  });

  it("are undefined for an unknown zone", () => {
    for (const timezone of ["Europe/Nowhere", "", "__proto__", "mars"]) expect(written(timezone)).toBeUndefined();
  });

  it("are worked out once, however often they are asked for", () => {
    const first = knownZone("America/New_York", now / 1000)?.transitions;
    const day = 86_400;
    expect(knownZone("America/New_York", now / 1000 + 29 * day)?.transitions).toBe(first);
    const later = knownZone("America/New_York", now / 1000 + 31 * day)?.transitions;
    expect(later?.[0]?.[0]).toBe((first?.[0]?.[0] ?? 0) + 31 * day);
    // A clock that was put back may be before the first transition.
    expect(knownZone("America/New_York", now / 1000 - day)?.transitions[0]?.[0]).toBe((first?.[0]?.[0] ?? 0) - day);
  });
});

describe("a snapshot", () => {
  const state = (...documents: object[]) => ({
    epoch: "e",
    revision: 1,
    policies: documents.map((document, i) => ({
      app: "default",
      name: `p${i}`,
      document: JSON.stringify({ name: `p${i}`, ...document }),
    })),
  });

  it("has the zones that schedules name, each once, and a gateway reads it", async () => {
    const shanghai = { ...office, timezone: "Asia/Shanghai" };
    const documents = [{ ...onePerSecond, schedule: office }, { ...onePerSecond, schedule: shanghai }, onePerSecond];
    const bytes = await pushedSnapshot(state(...documents, { ...onePerSecond, schedule: office }), now);
    const message = JSON.parse(bytes.toString());
    expect(Object.keys(message.zones).sort()).toEqual(["Asia/Shanghai", "Europe/Berlin"]);
    const { snapshot, problems } = loadSnapshot(message);
    expect(problems).toEqual([]);
    const ofApp = snapshot?.policiesByName["default"];
    const transitions = ["p0", "p1", "p2", "p3"].map((name) => ofApp?.[name]?.schedule?.transitions.length);
    expect(transitions).toEqual([27, 1, undefined, 27]);
  });

  it("has the zones of windows of the calendar, wherever there are limits, and a gateway reads it", async () => {
    const monthly = (timezone: string) => ({ algorithm: "fixed-window", quota: 5, window: "month", timezone });
    const { name, ...document } = {
      ...onePerSecond,
      limits: [monthly("europe/berlin"), { ...monthly("UTC"), name: "utc" }],
      overrides: [{ key: [], limits: [monthly("Asia/Shanghai")] }],
    } as Record<string, unknown>;
    const message = JSON.parse((await pushedSnapshot(state(document, onePerSecond), now)).toString());
    expect(name).toBeUndefined();
    expect(Object.keys(message.zones).sort()).toEqual(["Asia/Shanghai", "Europe/Berlin", "UTC"]);
    const { snapshot, problems } = loadSnapshot(message);
    expect(problems).toEqual([]);
    // A counter's key has the zone's own name, however the policy spells it.
    const suffixes = snapshot?.policiesByName["default"]?.["p0"]?.limits.map(({ counterSuffix }) => counterSuffix);
    expect(suffixes).toEqual(["}:default:fixed-window:month/1/Europe/Berlin", "}:utc:fixed-window:month/1/UTC"]);
  });

  it("has a zone once, by one name, however policies spell it", async () => {
    const spelt = (timezone: string) => ({ ...onePerSecond, schedule: { ...office, timezone } });
    const spellings = ["Europe/Berlin", "europe/berlin", "EUROPE/BERLIN", "eUROPE/bERLIN"];
    const bytes = await pushedSnapshot(state(...spellings.map(spelt)), now);
    const message = JSON.parse(bytes.toString());
    expect(Object.keys(message.zones)).toEqual(["Europe/Berlin"]);
    expect(loadSnapshot(message).problems).toEqual([]);
  });

  it("has no zones if no policy names one, even if a text mentions it", async () => {
    const description = 'a "timezone": "Europe/Berlin"';
    const bytes = await pushedSnapshot(state({ ...onePerSecond, description }), now);
    expect(JSON.parse(bytes.toString())).not.toHaveProperty("zones");
  });
});

describe("a policy's time zone", () => {
  it("is refused if no zone has the name, along with the other faults", async () => {
    const { call } = await startControlPlane();
    const put = (timezone: unknown, more = {}) =>
      call("PUT", "/apps/default/policies/p", {
        body: { ...onePerSecond, ...more, schedule: { ...office, timezone } },
      });
    expect((await put("Europe/Nowhere", { cost: 0 })).body.errors).toEqual([
      expect.objectContaining({ path: "cost" }),
      {
        path: "schedule.timezone",
        expected: 'a time zone that there is, like "Europe/Berlin"',
        got: '"Europe/Nowhere"',
      },
    ]);
    expect((await put("a zone")).body.errors).toEqual([
      { path: "schedule.timezone", expected: 'a time zone, like "Europe/Berlin"', got: '"a zone"' },
    ]);
    expect((await put("Europe/Berlin")).status).toBe(201);
    const daily = { algorithm: "fixed-window", quota: 5, window: "day", timezone: "Mars/Olympus" };
    const limits = await call("PUT", "/apps/default/policies/p", {
      body: { limits: [daily], overrides: [{ key: [], limits: [daily] }] },
    });
    expect(limits.body.errors.map(({ path }: { path: string }) => path)).toEqual([
      "limits[0].timezone",
      "overrides[0].limits[0].timezone",
    ]);
  });

  it("is one of 16 different ones at most, and what is more is not looked up", async () => {
    const { call } = await startControlPlane();
    const put = (timezones: readonly string[]) => {
      const daily = (timezone: string) => [{ algorithm: "fixed-window", quota: 5, window: "day", timezone }];
      const overrides = timezones.map((timezone, i) => ({ key: [`k${i}`], limits: daily(timezone) }));
      return call("PUT", "/apps/default/policies/p", {
        body: { key: ["header:x-user"], limits: daily("UTC"), overrides },
      });
    };
    const zones = Intl.supportedValuesOf("timeZone").slice(0, 400);
    const some = zones.slice(0, 15);
    expect((await put([...some, "utc", ...some.map((zone) => zone.toLowerCase())])).status).toBe(201);
    const { body } = await put(zones);
    expect(body.errors).toEqual([
      {
        path: "overrides[15].limits[0].timezone",
        expected: "at most 16 different time zones in a policy",
        got: `"${zones[15]}" besides 16 others`,
      },
    ]);
    const asked = vi.spyOn(Intl, "DateTimeFormat");
    const unknown = await put(zones.map((_, i) => `Mars/Crater${i}`));
    expect(unknown.body.errors).toHaveLength(16);
    expect(asked.mock.calls.length).toBeLessThan(20);
  });
});
