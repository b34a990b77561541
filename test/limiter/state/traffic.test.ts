// A snapshot that lists the realms of apps: which policies apply to a request, and where bans of networks apply.

import { describe, expect, test } from "vitest";
import { isBannedAddress } from "../../../limiter/src/compiled/bans.ts";
import { candidates, type PolicyIndex } from "../../../limiter/src/index/policy-index.ts";
import { isBanEntry } from "../../../limiter/src/state/traffic.ts";
import {
  frameText,
  HeldState,
  type LoadedState,
  loadSnapshot,
  loadText,
} from "../../fixtures/documents/loaded-state.ts";
import { smallestDocument } from "../policies.ts";

const policy = (app: string, name: string, more: object = {}) => ({
  app,
  document: { ...smallestDocument, name, ...more },
});
const crm = { app: "crm", realm: { hosts: ["crm.test"], paths: ["/api"] } };
const within = { match: { hosts: ["crm.test"], paths: ["/api/x"] } };
const ban = (app: string) => ({ id: `of-${app}`, app, cidr: "192.0.2.0/24", untilSeconds: 100 });
const otherLayout = "a text with another layout, or one that is not JSON";
const head = { type: "snapshot", format: 1, epoch: "e", revision: 1 };

function read(parts: { apps?: unknown; bans?: unknown; policies?: unknown[] }): LoadedState {
  const { snapshot, problems } = loadSnapshot({ ...head, policies: [], ...parts });
  expect(problems).toEqual([]);
  return snapshot as LoadedState;
}

const met = (index: PolicyIndex, host: string, path: string) =>
  (index.needsHost || index.needsPath ? candidates(index, host, path) : index.everywhere).map((one) =>
    isBanEntry(one) ? `bans of ${one.app}` : `${one.app}/${one.name}`,
  );

describe("policies", () => {
  test("of an app without a realm can be asked for by name, and apply to no request", () => {
    const { index, policiesByName } = read({
      apps: [{ app: "sms" }],
      policies: [policy("sms", "vendor"), policy("default", "all"), policy("old", "legacy")],
    });
    expect(met(index, "any.test", "/")).toEqual(["default/all", "old/legacy"]);
    expect(policiesByName["sms"]?.["vendor"]?.name).toBe("vendor");
  });

  test("apply as before if no app is listed, as with an older control plane", () => {
    const policies = [policy("sms", "vendor"), policy("crm", "off", { mode: "off" })];
    for (const apps of [undefined, []]) {
      const { index } = read({ apps, policies, bans: [ban("crm")] });
      expect(met(index, "any.test", "/")).toEqual(["crm/off", "sms/vendor"]);
    }
  });
});

describe("a ban of a network", () => {
  const policies = [
    policy("crm", "x", within),
    policy("crm", "off", { ...within, mode: "off" }),
    policy("sms", "vendor"),
  ];

  test("applies in the whole realm of its app, before any policy, and not outside", () => {
    const { index } = read({ apps: [crm, { app: "sms" }], policies, bans: [ban("crm"), ban("sms")] });
    expect(met(index, "crm.test", "/api")).toEqual(["bans of crm"]);
    expect(met(index, "crm.test", "/api/other")).toEqual(["bans of crm"]);
    expect(met(index, "crm.test", "/api/x")).toEqual(["bans of crm", "crm/x"]);
    expect(met(index, "crm.test", "/apix")).toEqual([]);
    expect(met(index, "other.test", "/api/x")).toEqual([]);
    const [entry] = candidates(index, "crm.test", "/api");
    expect(isBannedAddress(entry?.bans as never, "192.0.2.7", 99)).toBe(true);
    expect(isBannedAddress(entry?.bans as never, "192.0.2.7", 100)).toBe(false);
  });

  test("applies to the policies of its app in the check API, with or without a realm", () => {
    const { policiesByName } = read({ apps: [crm, { app: "sms" }], policies, bans: [ban("crm"), ban("sms")] });
    for (const one of [policiesByName["sms"]?.["vendor"], policiesByName["crm"]?.["x"]]) {
      expect(isBannedAddress(one?.bans as never, "192.0.2.7", 99)).toBe(true);
    }
  });

  test("of an app whose realm is every host and path applies everywhere", () => {
    const { index } = read({ apps: [{ app: "crm", realm: {} }], bans: [ban("crm")] });
    expect(met(index, "any.test", "/")).toEqual(["bans of crm"]);
    const root = read({ apps: [{ app: "crm", realm: { paths: ["/"] } }], bans: [ban("crm")] });
    expect(met(root.index, "any.test", "/x")).toEqual(["bans of crm"]);
  });
});

test("a list of apps with an invalid one is refused, and each problem names its place", () => {
  const apps = [
    { app: "Crm" },
    { app: "a", realm: null },
    { app: "b", realm: { paths: ["/x/"], hosts: "a" } },
    { app: "c", realm: { redirects: [] } },
    { app: "d", legacy: true },
    null,
    "x",
    {},
    { app: "e" },
    { app: "e" },
  ];
  const { snapshot, problems } = loadSnapshot({ ...head, policies: [], apps });
  expect(snapshot).toBeUndefined();
  expect(problems.map(({ path }) => path)).toEqual([
    "apps[0].app",
    "apps[1].realm",
    "apps[2].realm.hosts",
    "apps[2].realm.paths[0]",
    "apps[3].realm.redirects",
    "apps[4].legacy",
    "apps[5]",
    "apps[6]",
    "apps[7].app",
    "apps[9]",
  ]);
  for (const entries of [null, "x", 5, { app: "crm" }]) {
    expect(loadSnapshot({ ...head, policies: [], apps: entries }).problems).toMatchObject([
      { path: "", got: otherLayout },
    ]);
  }
});

describe("in a text of lines", () => {
  const text = (apps: readonly object[], policies: readonly object[]) => frameText({ ...head, apps, policies });
  const policies = [policy("crm", "x", within), policy("sms", "vendor")];

  test("apps are on lines of their own, and are left out if there are none", () => {
    const from = text([crm, { app: "sms" }], policies);
    expect(JSON.parse(from).apps).toEqual([crm, { app: "sms" }]);
    expect(Object.values(loadText(from).snapshot?.apps ?? {})).toEqual([crm, { app: "sms" }]);
    // Gateways from before there were realms can read this.
    expect(text([], policies)).not.toContain("apps");
    expect(loadText(text([], policies)).problems).toEqual([]);
    for (const other of [
      from.replace('{"app":"sms"}', '{"app":sms}'),
      from.replace('"revision":1', '"revision":1,"apps":[]'),
    ]) {
      expect(other).not.toBe(from);
      expect(loadText(other).problems).toMatchObject([{ path: "", got: otherLayout }]);
    }
  });

  test("a realm that is set or removed changes which policies apply, and recompiles none", () => {
    const held = new HeldState();
    const { state } = held;
    const reached = () => met(state.index, "crm.test", "/api/x");
    held.take(text([], policies));
    const before = state.policiesByName["crm"]?.["x"];
    expect(reached()).toEqual(["sms/vendor", "crm/x"].sort((a, b) => (a.slice(4) < b.slice(4) ? -1 : 1)));
    held.take(text([{ app: "sms" }], policies));
    expect(reached()).toEqual(["crm/x"]);
    held.take(text([], policies));
    expect(reached()).toEqual(["sms/vendor", "crm/x"]);
    expect(state.policiesByName["crm"]?.["x"]).toBe(before);
  });

  test("the bans of an app come and go with its realm and with its bans", () => {
    const held = new HeldState();
    const reached = (parts: object) => {
      expect(held.take(frameText({ ...head, policies, ...parts })).problems).toEqual([]);
      return [met(held.state.index, "crm.test", "/api"), met(held.state.index, "crm.test", "/api/x")];
    };
    const apps = [crm, { app: "sms" }];
    expect(reached({ apps })).toEqual([[], ["crm/x"]]);
    expect(reached({ apps, bans: [ban("crm")] })).toEqual([["bans of crm"], ["bans of crm", "crm/x"]]);
    expect(reached({ apps: [{ app: "crm" }, { app: "sms" }], bans: [ban("crm")] })).toEqual([[], []]);
    expect(reached({ apps, bans: [ban("crm")] })).toEqual([["bans of crm"], ["bans of crm", "crm/x"]]);
    expect(reached({ apps, bans: [ban("sms")] })).toEqual([[], ["crm/x"]]);
  });
});
