// A snapshot that lists the realms of apps: which policies apply to a request, and where bans of networks apply.

import { describe, expect, test } from "vitest";
import { isBannedAddress } from "../../../limiter/src/compiled/bans.ts";
import { candidates, type PolicyIndex } from "../../../limiter/src/index/policy-index.ts";
import { type CompiledSnapshot, loadSnapshot, loadSnapshotLines } from "../../../limiter/src/protocol/load-snapshot.ts";
import { isBanEntry } from "../../../limiter/src/protocol/snapshot-apps.ts";
import { layOut } from "../../../limiter/src/protocol/snapshot-lines.ts";
import { smallestDocument } from "../policies.ts";

const policy = (app: string, name: string, more: object = {}) => ({
  app,
  document: { ...smallestDocument, name, ...more },
});
const crm = { app: "crm", realm: { hosts: ["crm.test"], paths: ["/api"] } };
const within = { match: { hosts: ["crm.test"], paths: ["/api/x"] } };
const ban = (app: string) => ({ id: `of-${app}`, app, cidr: "192.0.2.0/24", untilSeconds: 100 });
const head = { type: "snapshot", format: 1, epoch: "e", revision: 1 };

function read(parts: { apps?: unknown; bans?: unknown; policies?: unknown[] }): CompiledSnapshot {
  const { snapshot, problems } = loadSnapshot({ ...head, policies: [], ...parts });
  expect(problems).toEqual([]);
  return snapshot as CompiledSnapshot;
}

const met = (index: PolicyIndex, host: string, path: string) =>
  (index.needsHost || index.needsPath ? candidates(index, host, path) : index.everywhere).map((one) =>
    isBanEntry(one) ? `bans of ${one.app}` : `${one.app}/${one.policy.name}`,
  );

describe("policies", () => {
  test("of an app without a realm can be asked for by name, and apply to no request", () => {
    const { index, policiesByName } = read({
      apps: [{ app: "sms" }],
      policies: [policy("sms", "vendor"), policy("default", "all"), policy("old", "legacy")],
    });
    expect(met(index, "any.test", "/")).toEqual(["default/all", "old/legacy"]);
    expect(policiesByName["sms"]?.["vendor"]?.policy.name).toBe("vendor");
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
    "apps[9].app",
  ]);
  for (const entries of [null, "x", 5, { app: "crm" }]) {
    expect(loadSnapshot({ ...head, policies: [], apps: entries }).problems).toMatchObject([{ path: "apps" }]);
  }
});

describe("in a text of lines", () => {
  const lines = (entries: readonly object[]) => entries.map((entry) => JSON.stringify(entry));
  const text = (apps: readonly object[], policies: readonly object[]) =>
    layOut(JSON.stringify(head), { apps: lines(apps), bans: [], callers: [], policies: lines(policies) });
  const readText = (from: string, previous?: CompiledSnapshot) =>
    loadSnapshotLines(
      (place) => (place === 0 ? from : undefined),
      (json) => {
        try {
          return JSON.parse(json);
        } catch {
          return undefined;
        }
      },
      previous,
      () => {},
    );
  const policies = [policy("crm", "x", within), policy("sms", "vendor")];

  test("apps read the same as in the JSON document, and are left out if there are none", () => {
    const from = text([crm, { app: "sms" }], policies);
    expect(JSON.parse(from).apps).toHaveLength(2);
    const whole = loadSnapshot(JSON.parse(from)).snapshot;
    expect({ ...readText(from)?.snapshot, source: undefined }).toEqual(whole);
    // Gateways from before there were realms can read this.
    expect(text([], policies)).not.toContain("apps");
    expect(readText(text([], policies))?.problems).toEqual([]);
    for (const other of [
      from.replace('{"app":"sms"}', '{"app":sms}'),
      from.replace('"revision":1', '"revision":1,"apps":[]'),
    ]) {
      expect(other).not.toBe(from);
      expect(readText(other)).toBeUndefined();
    }
  });

  test("a realm that is set or removed changes which policies apply, and recompiles none", () => {
    const without = readText(text([], policies))?.snapshot as CompiledSnapshot;
    const withOne = readText(text([{ app: "sms" }], policies), without)?.snapshot as CompiledSnapshot;
    expect(met(without.index, "crm.test", "/api/x")).toEqual(
      ["sms/vendor", "crm/x"].sort((a, b) => (a.slice(4) < b.slice(4) ? -1 : 1)),
    );
    expect(met(withOne.index, "crm.test", "/api/x")).toEqual(["crm/x"]);
    expect(withOne.policies[0]).toBe(without.policies[0]);
  });
});
