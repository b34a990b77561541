// A change of a state touches what it is about and nothing else, and afterwards the state is as if it had always been so.

import { describe, expect, test } from "vitest";
import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import { isBannedAddress, isBannedKey } from "../../../limiter/src/compiled/bans.ts";
import { type CompiledPolicy, isExemptAddress } from "../../../limiter/src/compiled/compile.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import type { ZoneTransition } from "../../../limiter/src/document/schedule.ts";
import { candidates, indexPolicies } from "../../../limiter/src/index/policy-index.ts";
import { noBans } from "../../../limiter/src/state/ban-book.ts";
import {
  type Change,
  commitChange,
  newChange,
  type PreparedChange,
  prepareChange,
} from "../../../limiter/src/state/change.ts";
import type { AppPolicy } from "../../../limiter/src/state/entries.ts";
import {
  emptyState,
  nowhere,
  type PolicyState,
  policyNamed as stored,
} from "../../../limiter/src/state/policy-state.ts";
import { isBanEntry } from "../../../limiter/src/state/traffic.ts";
import { policyNamed } from "../policies.ts";

function change(state: PolicyState, parts: Partial<Change>, pause: Pause = noPause): PreparedChange {
  const position = { ...nowhere, epoch: "e", revision: state.position.revision + 1 };
  const findings = noFindings();
  const prepared = prepareChange(state, { ...newChange(position), ...parts }, findings, pause);
  expect(findings.problems).toEqual([]);
  commitChange(state, prepared);
  return prepared;
}

function stateOf(...changes: readonly Partial<Change>[]): PolicyState {
  const state = emptyState();
  for (const one of changes) change(state, one);
  return state;
}

const policy = (app: string, name: string, fields: Record<string, unknown> = {}): AppPolicy => ({
  app,
  policy: policyNamed(name, fields),
});
const many = (count: number, fields: Record<string, unknown> = {}, app = "many") =>
  Array.from({ length: count }, (_, i) => policy(app, `p${String(i).padStart(3, "0")}`, fields));
const ofAddress = (id: string, app: string, cidr = "192.0.2.0/24") => ({ id, app, cidr, untilSeconds: 100 });
const ofKey = (id: string, name: string, value: string) => ({
  id,
  app: "shop",
  policy: name,
  key: [value],
  untilSeconds: 100,
});
const users = { key: ["header:x-user"] };

const find = (state: PolicyState, name: string, app = "shop") => stored(state, app, name) as CompiledPolicy;
const bans = (state: PolicyState, name: string, address: string, app = "shop") => {
  const { bans: ofPolicy } = find(state, name, app);
  return ofPolicy !== undefined && isBannedAddress(ofPolicy, address, 0);
};
const bansKey = (state: PolicyState, name: string, value: string) => {
  const { bans: ofPolicy } = find(state, name);
  return ofPolicy !== undefined && isBannedKey(ofPolicy, [value], 0);
};
const namesOf = (policies: readonly CompiledPolicy[]) => policies.map(({ app, name }) => `${app}/${name}`).sort();
/** @returns what the index has for a request, each as often as it is there */
const met = (state: PolicyState, host: string, path = "/") =>
  (state.index.needsHost || state.index.needsPath ? candidates(state.index, host, path) : state.index.everywhere)
    .map((one) => (isBanEntry(one) ? `bans of ${one.app}` : `${one.app}/${one.name}`))
    .sort();

describe("policies", () => {
  test("that are replaced stay one policy each, in the index too", () => {
    const state = stateOf({ policies: [policy("shop", "a"), policy("shop", "b")] });
    const untouched = find(state, "b");
    const prepared = change(state, { policies: [policy("shop", "a", { priority: 5 }), policy("shop", "c")] });
    expect([prepared.policyCount, state.policyCount]).toEqual([3, 3]);
    expect(met(state, "any.test")).toEqual(["shop/a", "shop/b", "shop/c"]);
    expect(find(state, "a").policy.priority).toBe(5);
    expect(find(state, "b")).toBe(untouched);
  });

  test("that are gone leave no trace, and may not have been there", () => {
    const state = stateOf({ policies: [policy("shop", "a"), policy("shop", "b"), policy("bank", "a")] });
    const gone = [
      { app: "shop", policy: "a" },
      { app: "bank", policy: "a" },
      { app: "bank", policy: "other" },
      { app: "none", policy: "a" },
    ];
    const prepared = change(state, { gone });
    expect([prepared.policyCount, state.policyCount]).toEqual([1, 1]);
    expect(namesOf(prepared.policiesGone)).toEqual(["bank/a", "shop/a"]);
    expect(Object.keys(state.policiesByName)).toEqual(["shop"]);
    expect(met(state, "any.test")).toEqual(["shop/b"]);
  });

  test.each([
    ["as a policy", { policies: [policy("shop", "a", { priority: 5 })] }],
    [
      "as a text that is read later",
      { written: { entries: [{ name: "p:shop:a", text: "" }], read: () => policy("shop", "a", { priority: 5 }) } },
    ],
  ])("that are gone and set are replaced: %s", (_, set) => {
    const state = stateOf({ policies: [policy("shop", "a", users)], bans: [ofKey("1", "a", "ann")] });
    const prepared = change(state, { ...set, gone: [{ app: "shop", policy: "a" }, { ban: "1" }] });
    expect([prepared.policiesGone, prepared.policyCount, state.policyCount]).toEqual([[], 1, 1]);
    expect(prepared.bansGone).toEqual(["1"]);
    expect(find(state, "a").policy.priority).toBe(5);
    expect(find(state, "a").bans).toBeUndefined();
    expect(met(state, "any.test")).toEqual(["shop/a"]);
  });

  test("that turn out to be invalid when they are read are left out", () => {
    const state = stateOf({ written: { entries: [{ name: "p:shop:a", text: "" }], read: () => undefined } });
    expect(state.policyCount).toBe(0);
  });

  test("are compiled again if a time zone changes that they go by, and only these", () => {
    const zones: Record<string, ZoneTransition[]> = { "Europe/Berlin": [[0, 60]], "Asia/Tokyo": [[0, 540]] };
    const by = (timezone: string) => ({ schedule: { timezone, windows: [{ from: "09:00", to: "18:00" }] } });
    const monthly = { algorithm: "fixed-window", quota: 5, window: "month", timezone: "Europe/Berlin" };
    const state = stateOf({
      zones,
      policies: [
        policy("shop", "plain"),
        policy("shop", "berlin", by("Europe/Berlin")),
        policy("shop", "tokyo", by("Asia/Tokyo")),
        policy("shop", "both", { ...by("Asia/Tokyo"), limits: [monthly] }),
        policy("shop", "headers", { match: { headers: { "x-tier": ["free"] } } }),
      ],
    });
    const prepared = change(state, { zones: { "Europe/Berlin": [[0, 120]] } });
    expect(namesOf(prepared.policiesSet)).toEqual(["shop/berlin", "shop/both"]);
    expect(find(state, "berlin").schedule?.transitions).toEqual([[0, 120]]);
    expect(change(state, { zones: { "America/Lima": [[0, -300]] } }).policiesSet).toEqual([]);
    expect(Object.keys(state.zones)).toEqual(["Europe/Berlin", "Asia/Tokyo", "America/Lima"]);
  });

  test("are not put into force without their time zone", () => {
    const state = emptyState();
    const windows = [{ from: "09:00", to: "18:00" }];
    const policies = [policy("shop", "a", { schedule: { timezone: "Asia/Tokyo", windows } })];
    const findings = noFindings();
    prepareChange(state, { ...newChange(nowhere), policies }, findings, noPause);
    const expected = "a list of [seconds since the epoch, minutes ahead of UTC]";
    expect(findings.problems).toEqual([{ path: "zones.Asia/Tokyo", expected, got: "nothing" }]);
  });
});

describe("bans", () => {
  test("that are gone leave the book as if there had been none", () => {
    const state = stateOf(
      { policies: [policy("shop", "a", users)] },
      { bans: [ofAddress("1", "shop"), ofKey("2", "a", "ann"), ofAddress("3", "default")] },
    );
    expect([bans(state, "a", "192.0.2.7"), bansKey(state, "a", "ann")]).toEqual([true, true]);
    expect(state.bannedEverywhere).toBeDefined();
    const prepared = change(state, { gone: [{ ban: "1" }, { ban: "2" }, { ban: "3" }, { ban: "unknown" }] });
    expect(prepared.bansGone).toEqual(["1", "2", "3"]);
    expect(state.bans).toEqual(noBans(state.networkLists));
    expect(find(state, "a").bans).toBeUndefined();
    expect(state.bannedEverywhere).toBeUndefined();
  });

  test("of a network compile policies again when the first one comes and the last one goes", () => {
    const state = stateOf({ policies: [policy("shop", "a"), policy("bank", "a")] });
    expect(namesOf(change(state, { bans: [ofAddress("1", "shop")] }).policiesSet)).toEqual(["shop/a"]);
    expect(change(state, { bans: [ofAddress("2", "shop", "198.51.100.0/24")] }).policiesSet).toEqual([]);
    expect(bans(state, "a", "198.51.100.7")).toBe(true);
    expect(change(state, { gone: [{ ban: "1" }] }).policiesSet).toEqual([]);
    expect(["192.0.2.7", "198.51.100.7"].map((address) => bans(state, "a", address))).toEqual([false, true]);
    expect(namesOf(change(state, { gone: [{ ban: "2" }] }).policiesSet)).toEqual(["shop/a"]);
    expect(find(state, "a").bans).toBeUndefined();
  });

  test("of a network by app default hold everywhere and compile nothing again", () => {
    const state = stateOf({ policies: [policy("shop", "a"), policy("default", "a")] });
    expect(change(state, { bans: [ofAddress("1", "default")] }).policiesSet).toEqual([]);
    expect(state.bannedEverywhere).toBeDefined();
  });

  test("of a list of networks hold for whoever is on it", () => {
    const state = stateOf(
      { policies: [policy("shop", "a")] },
      { bans: [ofAddress("1", "shop", "@crawlers")] },
      { networks: [{ app: "shop", networks: "crawlers", family: "ipv4", ranges: "c0000200c00002ff" }] },
    );
    expect(["192.0.2.7", "192.0.3.7"].map((address) => bans(state, "a", address))).toEqual([true, false]);
  });

  test("may be of a policy that is not there", () => {
    const state = stateOf({ bans: [ofKey("1", "a", "ann")] }, { policies: [policy("shop", "a", users)] });
    expect(bansKey(state, "a", "ann")).toBe(true);
  });

  test("that are replaced hold no more, for whomever they were", () => {
    const state = stateOf({
      policies: [policy("shop", "a", users), policy("shop", "b", users)],
      bans: [ofKey("1", "a", "ann"), ofAddress("2", "shop")],
    });
    change(state, { bans: [ofKey("1", "b", "ann")] });
    expect([bansKey(state, "a", "ann"), bansKey(state, "b", "ann")]).toEqual([false, true]);
    change(state, { bans: [ofKey("1", "b", "bob")] });
    expect([bansKey(state, "b", "ann"), bansKey(state, "b", "bob")]).toEqual([false, true]);
    change(state, { bans: [ofKey("2", "a", "eve")] });
    expect([bans(state, "a", "192.0.2.7"), bans(state, "b", "192.0.2.7")]).toEqual([false, false]);
    expect(find(state, "b").bans?.networks).toBeUndefined();
    expect(bansKey(state, "a", "eve")).toBe(true);
    change(state, { bans: [ofAddress("2", "shop")] });
    expect([bans(state, "a", "192.0.2.7"), bansKey(state, "a", "eve")]).toEqual([true, false]);
  });

  test("that are gone and set hold as they are set", () => {
    const state = stateOf({ policies: [policy("shop", "a")], bans: [ofAddress("1", "shop")] });
    const prepared = change(state, { gone: [{ ban: "1" }], bans: [ofAddress("1", "shop", "198.51.100.0/24")] });
    expect(prepared.policiesSet).toEqual([]);
    expect(["192.0.2.7", "198.51.100.7"].map((address) => bans(state, "a", address))).toEqual([false, true]);
    change(state, { policies: [policy("shop", "a", { priority: 2 })] });
    expect(bans(state, "a", "198.51.100.7")).toBe(true);
  });
});

describe("apps", () => {
  const realm = { hosts: ["shop.test"] };

  test("that are gone leave no trace", () => {
    const exempt = { cidrs: ["10.0.0.0/8"] };
    const state = stateOf({ apps: [{ app: "shop", realm, exempt }], bans: [ofAddress("1", "shop")] });
    expect(met(state, "shop.test")).toEqual(["bans of shop"]);
    change(state, { gone: [{ app: "shop" }] });
    expect([state.apps, state.exemptions, state.banEntries]).toEqual([{}, {}, {}]);
    expect(Object.keys({ ...state.apps, ...state.exemptions, ...state.banEntries })).toEqual([]);
    expect(met(state, "shop.test")).toEqual([]);
  });

  test("have one entry for their bans, which stays as long as there are any", () => {
    const state = stateOf({ apps: [{ app: "shop", realm }] }, { bans: [ofAddress("1", "shop")] });
    const prepared = change(state, { bans: [ofAddress("2", "shop", "198.51.100.0/24")] });
    expect([prepared.indexLoses, prepared.indexGets]).toEqual([[], []]);
    expect(met(state, "shop.test")).toEqual(["bans of shop"]);
    change(state, { gone: [{ ban: "1" }, { ban: "2" }] });
    expect(Object.keys(state.banEntries)).toEqual([]);
    expect(met(state, "shop.test")).toEqual([]);
  });

  test("that get or lose a realm change what the index has of their policies, each once", () => {
    const state = stateOf({ apps: [{ app: "shop" }], policies: [policy("shop", "a"), policy("shop", "b")] });
    expect(met(state, "any.test")).toEqual([]);
    const unmet = change(state, { policies: [policy("shop", "a", { priority: 1 })] });
    expect([unmet.indexLoses, unmet.indexGets]).toEqual([[], []]);
    const gets = change(state, { apps: [{ app: "shop", realm: {} }], policies: [policy("shop", "a")] });
    expect([namesOf(gets.indexLoses), namesOf(gets.indexGets)]).toEqual([[], ["shop/a", "shop/b"]]);
    const same = change(state, { apps: [{ app: "shop", realm: { paths: ["/"] } }] });
    expect([same.indexLoses, same.indexGets]).toEqual([[], []]);
    const loses = change(state, { apps: [{ app: "shop" }], policies: [policy("shop", "a")] });
    expect([namesOf(loses.indexLoses), namesOf(loses.indexGets)]).toEqual([["shop/a", "shop/b"], []]);
    expect(met(state, "any.test")).toEqual([]);
  });

  test("exempt whom they did not, beside those whom app default exempts, also by a list of networks", () => {
    const state = stateOf({
      apps: [{ app: "default", everywhere: true, exempt: { cidrs: ["10.0.0.0/8"] } }],
      networks: [{ app: "shop", networks: "office", family: "ipv4", ranges: "c0000200c00002ff" }],
      policies: [policy("shop", "a")],
    });
    change(state, { apps: [{ app: "shop", realm, exempt: { cidrs: ["@office"] } }] });
    const exempt = (address: string) => isExemptAddress(find(state, "a"), address);
    expect(["10.1.1.1", "192.0.2.7", "192.0.3.7"].map(exempt)).toEqual([true, true, false]);
  });
});

describe("callers", () => {
  const caller = (sha256: string) => ({ app: "shop", sha256 });

  test("have a version that grows only when one comes or goes", () => {
    const state = stateOf({ callers: [caller("a"), caller("b")], policies: [policy("shop", "a")] });
    expect(state.callersVersion).toBe(1);
    change(state, { gone: [{ app: "shop", policy: "a" }, { app: "shop" }, { ban: "1" }] });
    expect(state.callersVersion).toBe(1);
    change(state, { gone: [{ caller: "a" }] });
    expect([state.callersVersion, Object.keys(state.callers)]).toEqual([2, ["b"]]);
    change(state, { callers: [caller("c")] });
    expect([state.callersVersion, Object.keys(state.callers)]).toEqual([3, ["b", "c"]]);
  });
});

describe("lists of networks", () => {
  const block = (from: string, to: string) => ({
    app: "shop",
    networks: "office",
    family: "ipv4" as const,
    ranges: from + to,
  });

  test("change block by block, and are gone with their last one; their app is not", () => {
    const state = stateOf({
      apps: [{ app: "shop", realm: {} }],
      networks: [block("0a000000", "0a0000ff"), block("0b000000", "0b0000ff")],
    });
    change(state, { gone: [{ app: "shop", networks: "office", from: "0a000000" }] });
    expect(state.networkLists).toEqual({ "shop:office": { v4: ["0b0000000b0000ff"], v6: [] } });
    change(state, { gone: [{ app: "shop", networks: "office", from: "0b000000" }] });
    expect(Object.keys(state.networkLists)).toEqual([]);
    expect(Object.keys(state.apps)).toEqual(["shop"]);
  });
});

describe("the index", () => {
  test("is changed in place by up to 200 changes, and made anew for more", () => {
    const state = stateOf({ policies: many(101) });
    const before = state.index;
    change(state, { policies: many(100, { priority: 1 }) });
    expect(state.index).toBe(before);
    expect(met(state, "any.test")).toHaveLength(101);
    change(state, { policies: many(101, { priority: 2 }) });
    expect(state.index).not.toBe(before);
    expect(met(state, "any.test")).toHaveLength(101);
  });

  test.each([0, 201])(
    "has the same of a small change beside %i more policies, whether or not it is made anew",
    (more) => {
      const realm = (app: string) => ({ app, realm: { hosts: [`${app}.test`] } });
      const state = stateOf({
        apps: [realm("shop"), realm("bank"), realm("mine"), { app: "sms" }, { app: "checks" }],
        bans: [ofAddress("1", "shop"), ofAddress("2", "bank"), ofAddress("3", "crm")],
        policies: [
          policy("shop", "stays"),
          policy("shop", "replaced"),
          policy("shop", "gone"),
          policy("shop", "off", { mode: "off" }),
          policy("sms", "comes"),
          policy("mine", "goes"),
          policy("checks", "never"),
        ],
      });
      const before = state.index;
      change(state, {
        gone: [{ app: "shop", policy: "gone" }, { ban: "2" }],
        apps: [{ app: "sms", realm: {} }, { app: "mine" }],
        bans: [ofAddress("4", "sms")],
        policies: [
          policy("shop", "replaced", { priority: 5 }),
          policy("checks", "new"),
          ...many(more, { match: { hosts: ["many.test"] } }),
        ],
      });
      expect(state.index === before).toBe(more === 0);
      const everywhere = ["bans of sms", "sms/comes"];
      const all = [...everywhere, "shop/replaced", "shop/stays"].sort();
      expect(met(state, "many.test")).toEqual(
        more === 0 ? all : [...all, ...many(more).map((one) => `many/${one.policy.name}`)].sort(),
      );
      expect(met(state, "shop.test")).toEqual(["bans of shop", ...all].sort());
      for (const host of ["bank.test", "mine.test", "crm.test"])
        expect([host, ...met(state, host)]).toEqual([host, ...all]);
    },
  );
});

describe("a change is prepared in short steps: it pauses", () => {
  /** @returns how often the change pauses for each of a hundred entries */
  function pausesFor(state: PolicyState, parts: Partial<Change>): number {
    let pauses = 0;
    change(state, parts, () => {
      pauses += 1;
    });
    return pauses / 100;
  }
  const hundred = <One>(one: (place: number) => One) => Array.from({ length: 100 }, (_, place) => one(place));

  test("for each entry that is gone", () => {
    expect(pausesFor(emptyState(), { gone: hundred((place) => ({ caller: `c${place}` })) })).toBe(1);
  });

  test("for each app that is set, twice: one may exempt many", () => {
    expect(pausesFor(emptyState(), { apps: hundred((place) => ({ app: `a${place}` })) })).toBe(2);
  });

  test("for each ban", () => {
    expect(pausesFor(emptyState(), { bans: hundred((place) => ofKey(`b${place}`, "a", "x")) })).toBe(1);
  });

  test("for each policy when it is compiled and when its place in the index is looked for", () => {
    const state = emptyState();
    expect(pausesFor(state, { policies: many(100) })).toBe(2);
    // Each of them also leaves its former place.
    expect(pausesFor(state, { policies: many(100, { priority: 1 }) })).toBe(3);
    const entries = hundred((place) => ({ name: `p:other:${place}`, text: String(place) }));
    const read = ({ text }: { readonly text: string }) => policy("other", `p${text}`);
    expect(pausesFor(state, { written: { entries, read } })).toBe(2);
  });

  test("for each policy of an app that gets its first ban, when it is found, compiled, and moved in the index", () => {
    expect(pausesFor(stateOf({ policies: many(100) }), { bans: [ofAddress("1", "many")] })).toBe(4 + 0.01);
  });

  test("for each policy of an app whose realm changes", () => {
    const state = stateOf({ apps: [{ app: "many", realm: {} }], policies: many(100) });
    expect(pausesFor(state, { apps: [{ app: "many", realm: { paths: ["/"] } }] })).toBe(1 + 0.02);
  });

  test("for each policy when a known time zone changes, and for none when one comes", () => {
    const state = stateOf({ policies: many(100) });
    expect(pausesFor(state, { zones: { "Asia/Tokyo": [[0, 540]] } })).toBe(0);
    expect(pausesFor(state, { zones: { "Asia/Tokyo": [[0, 600]] } })).toBe(1);
  });

  test("for each policy that stays or comes when the index is made anew, besides what that takes", () => {
    const state = stateOf({ policies: many(100, {}, "stay") });
    const anew = pausesFor(state, { policies: many(201) });
    let pauses = 0;
    const all = Object.values(state.policiesByName).flatMap((ofApp) => Object.values(ofApp));
    indexPolicies(all, () => {
      pauses += 1;
    });
    expect(Math.round(100 * anew) - pauses).toBe(2 * 201 + 100 + 201);
  });
});
