import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { noBans } from "../../../limiter/src/state/ban-book.ts";
import { frameText, HeldState, loadSnapshot, loadText } from "../../fixtures/documents/loaded-state.ts";
import { smallestDocument, smallestLimit } from "../policies.ts";

const otherLayout = "a text with another layout, or one that is not JSON";
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
    expect(read?.position).toEqual({ epoch: "e1", revision: 7, edition: undefined, proof: undefined });
    expect(read?.policyCount).toBe(2);
    expect(read?.policies.map(({ app, name }) => `${app}/${name}`)).toEqual(["shop/books", "bank/off"]);
    expect(read?.index.everywhere.map(({ app, name }) => `${app}/${name}`)).toEqual(["shop/books"]);
  });

  test("may have no policies, at revision 0", () => {
    expect(loadSnapshot({ format: 1, epoch: "e", revision: 0, policies: [] })).toMatchObject({
      problems: [],
      snapshot: { position: { revision: 0 }, policies: [], policyCount: 0 },
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

  test("that is not an object, or of another type, is refused with that reason", () => {
    const expected = "a snapshot or a delta, laid out in lines";
    const others = [
      { ...snapshot, type: "fleet" },
      { ...snapshot, type: null },
    ].map((other) => frameText(other));
    for (const text of ["null\n", "", "\n", '"x"\n', "5\n", "{}\n", "[],\n", "{,\n", ...others]) {
      expect(loadText(text), text).toEqual({ problems: [{ path: "", expected, got: otherLayout }] });
    }
  });

  test("has its edition and its proof, and neither if it is not a text", () => {
    expect(loadSnapshot({ ...snapshot, edition: "1.0 2026a", proof: "p" }).snapshot?.position).toEqual({
      epoch: "e1",
      revision: 7,
      edition: "1.0 2026a",
      proof: "p",
    });
    expect(loadSnapshot({ ...snapshot, edition: 5, proof: {} })).toMatchObject({
      problems: [],
      snapshot: { position: { edition: undefined, proof: undefined } },
    });
  });

  test("has an epoch that is a text", () => {
    for (const epoch of [5, undefined, null, ""]) {
      expect(loadSnapshot({ ...snapshot, epoch }).problems).toMatchObject([
        { path: "epoch", expected: "a non-empty text" },
      ]);
    }
  });

  test("has a list of policies", () => {
    for (const policies of [null, {}, "x", 5]) {
      expect(loadSnapshot({ ...snapshot, policies })).toMatchObject({
        problems: [{ path: "", expected: "a snapshot or a delta, laid out in lines" }],
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
    expect(loadSnapshot(snapshot).snapshot).toMatchObject({
      banList: [],
      callerList: [],
      bans: noBans({}),
      callers: {},
    });
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
    const { snapshot: read, problems } = loadSnapshot({ ...snapshot, bans, callers });
    expect(problems).toEqual([]);
    expect(read).toMatchObject({ banList: bans, callerList: callers });
    expect(Object.values(read?.bans.byId ?? {})).toEqual(bans);
    expect(Object.values(read?.callers ?? {})).toEqual(callers);
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
      expect(loadSnapshot({ ...snapshot, bans: entries }).problems).toMatchObject([{ path: "", got: otherLayout }]);
      expect(loadSnapshot({ ...snapshot, callers: entries }).problems).toMatchObject([{ path: "", got: otherLayout }]);
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
    const named = { "Europe/Berlin": good, "Europe/Paris": [[0, 60]] };
    expect(read(named).snapshot?.policies[0]?.schedule?.transitions).toEqual(good);
    expect(read({ "Europe/Berlin": good, "Europe/Paris": 5 }).problems).toMatchObject([{ path: "zones.Europe/Paris" }]);
    for (const wrong of [undefined, [], {}, 5, [[0]], [[0, 60, 1]], [[0, "60"]], [[0.5, 60]], [[0, 1440]], [null]]) {
      expect(read({ "Europe/Berlin": wrong }).problems).toMatchObject([{ path: "zones.Europe/Berlin" }]);
    }
    expect(read(undefined).problems).toEqual([
      {
        path: "zones.Europe/Berlin",
        expected: "a list of [seconds since the epoch, minutes ahead of UTC]",
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
      type: fc.constantFrom("snapshot", "delta"),
      epoch: fc.oneof(fc.constant("e"), anything),
      revision: fc.oneof(fc.constant(1), anything),
      policies: fc.oneof(fc.array(fc.record({ app: anything, document: anything })), anything),
      bans: fc.oneof(fc.array(fc.record({ id: anything, cidr: anything })), anything),
      callers: fc.oneof(fc.array(fc.record({ app: anything, sha256: anything })), anything),
      gone: fc.oneof(fc.array(fc.record({ app: anything, policy: anything, ban: anything })), anything),
    });
    fc.assert(
      fc.property(fc.oneof(nearly, anything), (message) => {
        const isObject = typeof message === "object" && message !== null;
        const { snapshot: read, problems } = isObject
          ? loadSnapshot(message)
          : loadText(`${JSON.stringify(message)}\n`);
        // A delta never fits: nothing is held that it could be from.
        if ((message as { type?: unknown } | null)?.type === "delta") expect(read).toBeUndefined();
        else expect(read === undefined).toBe(problems.length > 0);
      }),
      { numRuns: 2_000, examples: [[{ format: { toString: 1 } }]] },
    );
  });
});

describe("a delta", () => {
  const from = { epoch: "e1", revision: 7 };
  const delta = { type: "delta", format: 1, epoch: "e1", revision: 8, edition: "1", proof: "p8", from, policyCount: 2 };
  const ban = { id: "b1", app: "shop", cidr: "10.0.0.0/8", untilSeconds: 4e9 };
  const ofKey = { id: "b2", app: "shop", policy: "books", keyPattern: ["*"], untilSeconds: 4e9 };
  const caller = { app: "shop", sha256: "0a".repeat(32) };
  const names = ({ state }: HeldState) =>
    Object.entries(state.policiesByName).flatMap(([app, of]) => Object.keys(of).map((name) => `${app}/${name}`));

  function holding(more: object = {}): HeldState {
    const held = new HeldState();
    expect(held.take(frameText({ ...snapshot, ...more })).problems).toEqual([]);
    return held;
  }

  test("sets what it lists, and removes what it says is gone; the rest stays as it is", () => {
    const held = holding({ apps: [{ app: "sms" }], bans: [ban, ofKey], callers: [caller] });
    const stays = held.state.policiesByName["bank"]?.["off"];
    const set = [{ app: "shop", document: { ...smallestDocument, name: "films" } }];
    const gone = [{ app: "shop", policy: "books" }, { app: "sms" }, { ban: "b1" }, { caller: caller.sha256 }];
    const other = { app: "bank", sha256: "0b".repeat(32) };
    const taken = held.take(frameText({ ...delta, policies: set, gone, callers: [other] }));
    expect(taken).toMatchObject({
      misfit: false,
      problems: [],
      frame: { policyCount: 2 },
      prepared: { policyCount: 2 },
    });
    expect(names(held).sort()).toEqual(["bank/off", "shop/films"]);
    expect(held.state.policiesByName["bank"]?.["off"]).toBe(stays);
    expect(held.state).toMatchObject({ apps: {}, bans: noBans({}), policyCount: 2, callersVersion: 2 });
    expect(Object.keys(held.state.callers)).toEqual([other.sha256]);
    expect(held.state.position).toEqual({ epoch: "e1", revision: 8, edition: "1", proof: "p8" });
    expect([...held.texts.keys()].sort()).toEqual([`c:${other.sha256}`, "p:bank:off", "p:shop:films"]);
  });

  test("fits only the position that it is from, and says that it does not fit otherwise", () => {
    for (const [position, fits] of [
      [{ revision: 7 }, true],
      [{ revision: 6 }, false],
      [{ epoch: "e2" }, false],
      [{ edition: "2" }, false],
    ] as const) {
      const held = holding(position);
      const { frame, misfit, problems } = held.take(frameText(delta));
      expect([frame !== undefined, misfit, problems], JSON.stringify(position)).toEqual([fits, !fits, []]);
    }
    for (const wrong of [undefined, null, 5, "x", {}, { epoch: "e1" }, { epoch: "e1", revision: "7" }]) {
      expect(holding().take(frameText({ ...delta, from: wrong })).misfit, JSON.stringify(wrong)).toBe(true);
    }
    const ofEdition = { ...delta, from: { ...from, edition: "1" } };
    expect(holding().take(frameText(ofEdition)).misfit).toBe(true);
    expect(holding({ edition: "1" }).take(frameText(ofEdition))).toMatchObject({ misfit: false, problems: [] });
  });

  test("with a fault is refused as a whole, and each fault is named by its place", () => {
    const held = holding();
    const before = held.state.policiesByName["shop"]?.["books"];
    const faults = {
      policies: [
        { app: "shop", document: { ...smallestDocument, priority: 5 } },
        { app: "shop", document: { ...smallestDocument, name: "x", mode: "on" } },
      ],
      bans: [{ ...ban, cidr: "10.0.0.0/33" }],
      gone: [
        {},
        { policy: "books" },
        { ban: "b1", caller: "0a".repeat(32) },
        { app: "Shop" },
        { app: "shop", policy: "books", extra: 1 },
        5,
      ],
    };
    const { frame, problems } = held.take(frameText({ ...delta, ...faults }));
    expect(frame).toBeUndefined();
    expect(problems.map(({ path, got }) => `${path}: ${got}`)).toEqual([
      'bans[0].cidr: "10.0.0.0/33"',
      'policies[1].document.mode: "on"',
      "gone[0]: none of them",
      "gone[1]: policy",
      "gone[2]: ban caller",
      'gone[3].app: "Shop"',
      "gone[4].extra: 1",
      "gone[5]: 5",
    ]);
    expect(held.state.policiesByName["shop"]?.["books"]).toBe(before);
    expect(held.state.position.revision).toBe(7);
  });

  test("compiles only the policies that it sets, also if it has the time zone of others", () => {
    const schedule = { timezone: "Europe/Berlin", windows: [{ from: "09:00", to: "18:00" }] };
    const zones = { "Europe/Berlin": [[0, -60]] };
    const scheduled = ["books", "films"].map((name) => ({
      app: "shop",
      document: { ...smallestDocument, name, schedule },
    }));
    const held = holding({ policies: scheduled, zones });
    const compiled = () => ({ ...held.state.policiesByName["shop"] });
    const before = compiled();
    const policies = [{ app: "shop", document: { ...smallestDocument, schedule, priority: 1 } }];
    expect(held.take(frameText({ ...delta, policies, zones })).problems).toEqual([]);
    expect(compiled()["films"]).toBe(before["films"]);
    expect(compiled()["books"]).not.toBe(before["books"]);
    const next = { ...delta, from: { epoch: "e1", revision: 8, edition: "1" }, revision: 9, policies: [] };
    expect(held.take(frameText({ ...next, zones: { "Europe/Berlin": [[0, -120]] } })).problems).toEqual([]);
    expect(compiled()["films"]).not.toBe(before["films"]);
  });

  test("pauses often while it compiles a policy with many bans and overrides", () => {
    const many = 1_000;
    const overrides = Array.from({ length: many }, (_, place) => ({ key: [`u${place}`], mode: "off" }));
    const document = { ...smallestDocument, key: ["header:x-user"], overrides };
    const bans = Array.from({ length: many }, (_, place) => ({ ...ofKey, id: `b${place}`, keyPattern: [`u${place}`] }));
    const held = holding({ policies: [{ app: "shop", document }], bans });
    let pauses = 0;
    const taken = held.take(frameText({ ...delta, policyCount: 1, bans: [{ ...ofKey, id: "one-more" }] }), () => {
      pauses += 1;
    });
    expect([taken.problems, taken.frame === undefined]).toEqual([[], false]);
    // Each override is compiled and put into an index, each ban is taken over, sorted and put into an index.
    expect(pauses).toBeGreaterThan(5 * many);
  });

  test("that sets an entry that is gone too has it as new, without the bans of the one before", () => {
    const keyed = { app: "shop", document: { ...smallestDocument, key: ["ip"] } };
    const held = holding({ policies: [keyed, snapshot.policies[1]], bans: [ofKey] });
    expect(held.state.policiesByName["shop"]?.["books"]?.bans).toBeDefined();
    const gone = [{ app: "shop", policy: "books" }];
    expect(held.take(frameText({ ...delta, policies: [keyed], gone })).problems).toEqual([]);
    expect(held.state.policiesByName["shop"]?.["books"]?.bans).toBeUndefined();
    expect([...held.texts.keys()]).toEqual(["p:bank:off", "p:shop:books"]);
  });

  test("with a list missing or in another order is refused for its layout", () => {
    const good = frameText({ ...delta, gone: [{ app: "shop", policy: "books" }] });
    expect(holding().take(good).problems).toEqual([]);
    for (const other of [
      good.replace(/,\n"gone":\[\n.*\n\]\}/, "}"),
      good.replace('"bans"', '"apps"'),
      good.replace('"type":"delta"', '"type":"snapshot"'),
      good.replace('"revision":8', '"revision":8,"gone":[]'),
    ]) {
      expect(other).not.toBe(good);
      expect(holding().take(other).problems, other).toMatchObject([{ path: "", got: otherLayout }]);
    }
  });
});

test("a snapshot's bans stay where it does not list their policy any more, as if nothing had been held", () => {
  const bans = [{ id: "b2", app: "shop", policy: "books", key: [], untilSeconds: 4e9 }];
  const held = new HeldState();
  expect(held.take(frameText({ ...snapshot, bans })).problems).toEqual([]);
  expect(held.take(frameText({ ...snapshot, policies: [], bans })).problems).toEqual([]);
  expect(held.state).toMatchObject({ policyCount: 0, bans: { byId: { b2: bans[0] } } });
  expect([...held.texts.keys()]).toEqual(["b:b2"]);
});

test("no entry has a name with a space or a line break: it could not be told from what follows it in a store", () => {
  const ban = (id: string) => ({ id, app: "shop", cidr: "10.0.0.0/8", untilSeconds: 4e9 });
  const bans = ["a b", "a\nb", "", "\t", "a\u0000"].map(ban);
  const gone = [{ ban: "a\n-p:shop:books" }, { caller: "a\nb" }, { caller: "a" }];
  expect(loadSnapshot({ ...snapshot, bans }).problems.map(({ path }) => path)).toEqual(
    bans.map((_, i) => `bans[${i}].id`),
  );
  const zones = { "a b": [[0, 60]], "a\nb": [[0, 60]], UTC: [[0, 0]] };
  expect(loadSnapshot({ ...snapshot, zones }).problems.map(({ path }) => path)).toEqual(["zones", "zones"]);
  const held = new HeldState();
  held.take(frameText(snapshot));
  const delta = { type: "delta", format: 1, epoch: "e1", revision: 8, from: { epoch: "e1", revision: 7 }, gone };
  expect(held.take(frameText(delta)).problems.map(({ path }) => path)).toEqual([
    "gone[0].ban",
    "gone[1].caller",
    "gone[2].caller",
  ]);
});

test("an entry that a text lists twice is refused, with its place", () => {
  const ban = { id: "b1", app: "shop", cidr: "10.0.0.0/8", untilSeconds: 4e9 };
  const caller = { app: "shop", sha256: "0a".repeat(32) };
  const [books] = snapshot.policies;
  const apps = [{ app: "sms" }, { app: "sms" }];
  const twice = {
    apps,
    bans: [ban, { ...ban, cidr: "11.0.0.0/8" }],
    callers: [caller, caller],
    policies: [books, books],
  };
  expect(loadSnapshot({ ...snapshot, ...twice }).problems.map(({ path, got }) => `${path}: ${got}`)).toEqual([
    'apps[1]: "sms" again',
    'bans[1]: "b1" again',
    `callers[1]: "${caller.sha256}" again`,
    'policies[1]: "shop:books" again',
  ]);
  // Also where the gateway holds the same entries.
  const held = new HeldState();
  expect(held.take(frameText(snapshot)).problems).toEqual([]);
  const again = { ...snapshot, revision: 8, policies: [books, books] };
  expect(held.take(frameText(again)).problems).toMatchObject([{ path: "policies[1]" }]);
});

describe("a snapshot of many policies, most of which are kept as texts until they are compiled", () => {
  const many = Array.from({ length: 500 }, (_, i) => ({
    app: "shop",
    document: { ...smallestDocument, name: `p${String(i).padStart(3, "0")}`, priority: i % 7 },
  }));

  test("is in force as it is written", () => {
    const held = new HeldState();
    expect(held.take(frameText({ ...snapshot, policies: many })).problems).toEqual([]);
    expect(held.state.policyCount).toBe(many.length);
    for (const { document } of many) {
      expect(held.state.policiesByName["shop"]?.[document.name]?.policy.priority).toBe(document.priority);
    }
    expect(held.state.index.everywhere).toHaveLength(many.length);
  });

  test("is refused for what is wrong with any of them, and for one that is listed twice", () => {
    const wrong = { app: "shop", document: { ...smallestDocument, name: "wrong", priority: "high" } };
    const last = many[many.length - 1];
    const policies = [...many, wrong, last];
    const { problems, snapshot: read } = loadSnapshot({ ...snapshot, policies });
    expect(read).toBeUndefined();
    expect(problems.map(({ path }) => path)).toEqual(["policies[500].document.priority", "policies[501]"]);
  });
});
