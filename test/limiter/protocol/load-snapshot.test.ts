import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { loadSnapshot } from "../../../limiter/src/protocol/load-snapshot.ts";
import { smallestDocument, smallestLimit } from "../policies.ts";

const snapshot = {
  type: "snapshot",
  format: 1,
  epoch: "e1",
  revision: 7,
  policies: [
    { app: "shop", document: smallestDocument },
    { app: "bank", document: { ...smallestDocument, name: "off", mode: "off" } },
  ],
};

describe("a snapshot", () => {
  test("is read completely: epoch, revision, every policy, and the index of those that are on", () => {
    const { snapshot: read, problems } = loadSnapshot(snapshot);
    expect(problems).toEqual([]);
    expect(read).toMatchObject({ epoch: "e1", revision: 7 });
    expect(read?.policies.map(({ app, policy }) => `${app}/${policy.name}`)).toEqual(["shop/books", "bank/off"]);
    expect(read?.index.everywhere.map(({ app, policy }) => `${app}/${policy.name}`)).toEqual(["shop/books"]);
  });

  test("may have no policies, at revision 0", () => {
    expect(loadSnapshot({ format: 1, epoch: "e", revision: 0, policies: [] })).toMatchObject({
      problems: [],
      snapshot: { revision: 0, policies: [] },
    });
  });

  test("of another format is refused for that alone", () => {
    for (const [format, got] of [
      [2, "2"],
      ["1", '"1"'],
      [undefined, "nothing"],
      [null, "null"],
    ]) {
      expect(loadSnapshot({ ...snapshot, format, epoch: 5 })).toEqual({
        problems: [{ path: "format", expected: "1", got }],
      });
    }
  });

  test("is refused with every fault named", () => {
    const damaged = { ...snapshot, epoch: "", revision: 1.5, policies: [5] };
    expect(loadSnapshot(damaged)).toEqual({
      problems: [
        { path: "epoch", expected: "a non-empty text", got: '""' },
        { path: "revision", expected: "a whole number", got: "1.5" },
        { path: "policies[0]", expected: "an object", got: "5" },
      ],
    });
  });

  test("has a revision that is a whole number from 0", () => {
    for (const revision of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, "7", null, undefined, {}]) {
      expect(loadSnapshot({ ...snapshot, revision }).problems).toMatchObject([{ path: "revision" }]);
    }
  });

  test("that is not an object is refused with that reason", () => {
    for (const [message, got] of [
      [null, "null"],
      [undefined, "nothing"],
      ["x", '"x"'],
      [5, "5"],
    ]) {
      expect(loadSnapshot(message)).toEqual({ problems: [{ path: "", expected: "a snapshot", got }] });
    }
  });

  test("has an epoch that is a text", () => {
    for (const epoch of [5, undefined, null, ""]) {
      expect(loadSnapshot({ ...snapshot, epoch }).problems).toMatchObject([
        { path: "epoch", expected: "a non-empty text" },
      ]);
    }
  });

  test("has a list of policies", () => {
    for (const policies of [undefined, null, {}, "x", 5]) {
      expect(loadSnapshot({ ...snapshot, policies })).toMatchObject({
        problems: [{ path: "policies", expected: "a list" }],
      });
    }
  });

  test("with one damaged policy is refused as a whole, and the policy is named by its place", () => {
    const policies = [
      ...snapshot.policies,
      { app: "shop", document: { name: "x", limits: [{ ...smallestLimit, quota: 0 }] } },
      { app: "Shop", document: smallestDocument },
      { app: "shop" },
      null,
      { app: "a".repeat(64), document: smallestDocument },
    ];
    const { snapshot: read, problems } = loadSnapshot({ ...snapshot, policies });
    expect(read).toBeUndefined();
    expect(problems.map(({ path, got }) => `${path}: ${got}`)).toEqual([
      "policies[2].document.limits[0].quota: 0",
      'policies[3].app: "Shop"',
      "policies[4].document: nothing",
      "policies[5]: null",
      `policies[6].app: "${"a".repeat(64)}"`,
    ]);
  });

  test("has no bans and no callers if it does not mention them", () => {
    expect(loadSnapshot(snapshot).snapshot).toMatchObject({ bans: [], callers: [] });
  });

  test("contains bans and callers", () => {
    const bans = [
      { id: "1", app: "shop", cidr: "203.0.113.0/24", untilSeconds: 1_800_000_000 },
      { id: "2", app: "shop", policy: "books", key: ["*", "vip-42"], untilSeconds: 1_800_000_000 },
      { id: "3", app: "shop", policy: "books", key: [], untilSeconds: 0 },
    ];
    const callers = [
      { app: "shop", sha256: "0a".repeat(32) },
      { app: "bank", sha256: "ff".repeat(32), expiresAtSeconds: 1_800_000_000 },
    ];
    expect(loadSnapshot({ ...snapshot, bans, callers })).toMatchObject({ problems: [], snapshot: { bans, callers } });
  });

  test("with an invalid ban or caller is refused, and each fault is named by its place", () => {
    const ban = { id: "1", app: "shop", cidr: "10.0.0.0/8", untilSeconds: 1 };
    const { cidr: _, ...ofNobody } = ban;
    const bans = [
      { ...ban, cidr: "10.0.0.0/33" },
      { ...ban, policy: "books", key: ["a"] },
      { ...ofNobody, policy: "books" },
      ofNobody,
      { ...ban, untilSeconds: "soon" },
      { ...ofNobody, policy: "books", key: ["a", 5] },
      null,
    ];
    const callers = [{ app: "Shop", sha256: "0a".repeat(32) }, { app: "shop", sha256: "0A".repeat(32) }, "x"];
    const { problems } = loadSnapshot({ ...snapshot, bans, callers });
    expect(problems.map(({ path, got }) => `${path}: ${got}`).sort()).toEqual([
      'bans[0].cidr: "10.0.0.0/33"',
      "bans[1]: cidr policy key",
      "bans[2]: policy",
      "bans[3]: none of them",
      'bans[4].untilSeconds: "soon"',
      "bans[5].key[1]: 5",
      "bans[6]: null",
      'callers[0].app: "Shop"',
      `callers[1].sha256: "${"0A".repeat(32)}"`,
      'callers[2]: "x"',
    ]);
    for (const entries of [null, "x", 5, { app: "shop" }]) {
      expect(loadSnapshot({ ...snapshot, bans: entries }).problems).toMatchObject([{ path: "bans" }]);
      expect(loadSnapshot({ ...snapshot, callers: entries }).problems).toMatchObject([{ path: "callers" }]);
    }
  });

  test("has the zones of its schedules, and is refused without them", () => {
    const schedule = { timezone: "Europe/Berlin", windows: [{ from: "09:00", to: "18:00" }] };
    const policies = [{ app: "shop", document: { ...smallestDocument, schedule } }];
    const read = (zones: unknown) => loadSnapshot({ ...snapshot, policies, zones });
    const good = [
      [0, 60],
      [100, 120],
    ];
    expect(read({ "Europe/Berlin": good, "Europe/Paris": 5 }).snapshot?.policies[0]?.schedule?.transitions).toEqual(
      good,
    );
    for (const wrong of [undefined, [], {}, 5, [[0]], [[0, 60, 1]], [[0, "60"]], [[0.5, 60]], [[0, 1440]], [null]]) {
      expect(read({ "Europe/Berlin": wrong }).problems).toMatchObject([{ path: "zones.Europe/Berlin" }]);
    }
    expect(read(undefined).problems).toEqual([
      {
        path: "zones.Europe/Berlin",
        expected: "a list of [seconds since the epoch, minutes before UTC]",
        got: "nothing",
      },
    ]);
    for (const zones of [null, 5, "x"]) expect(read(zones).problems).toMatchObject([{ path: "zones" }]);
    for (const timezone of ["constructor", "toString"]) {
      const named = [{ app: "shop", document: { ...smallestDocument, schedule: { ...schedule, timezone } } }];
      expect(loadSnapshot({ ...snapshot, policies: named }).problems).toMatchObject([{ path: `zones.${timezone}` }]);
    }
  });

  test("never makes the reader throw, whatever it is", () => {
    const anything = fc.anything({ withNullPrototype: true });
    const nearly = fc.record({
      format: fc.oneof(fc.constant(1), anything),
      epoch: fc.oneof(fc.constant("e"), anything),
      revision: fc.oneof(fc.constant(1), anything),
      policies: fc.oneof(fc.array(fc.record({ app: anything, document: anything })), anything),
      bans: fc.oneof(fc.array(fc.record({ id: anything, cidr: anything })), anything),
      callers: fc.oneof(fc.array(fc.record({ app: anything, sha256: anything })), anything),
    });
    fc.assert(
      fc.property(fc.oneof(nearly, anything), (message) => {
        const { snapshot: read, problems } = loadSnapshot(message);
        expect(read === undefined).toBe(problems.length > 0);
      }),
      { numRuns: 2_000, examples: [[{ format: { toString: 1 } }]] },
    );
  });
});
