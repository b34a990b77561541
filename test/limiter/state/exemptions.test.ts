// Exemptions of apps in a state of policies: whom they concern, and which policies are compiled again when they change.

import { describe, expect, test } from "vitest";
import { type CompiledPolicy, isExemptAddress, isExemptKey } from "../../../limiter/src/compiled/compile.ts";
import { policyNamed as stored } from "../../../limiter/src/state/policy-state.ts";
import { frameText, HeldState } from "../../fixtures/documents/loaded-state.ts";
import { smallestDocument } from "../policies.ts";

const policy = (app: string, name: string, more: object = {}) => ({
  app,
  document: { ...smallestDocument, name, ...more },
});
const office = { cidrs: ["192.0.2.0/24"], keys: [{ part: "header:X-User", pattern: "health-*" }] };
const users = { key: ["header:x-user"] };
const head = { format: 1, epoch: "e", proof: "p", edition: "1" };

/** A state whose apps exempt some, and a function that changes them. */
function held(apps: object[], policies: object[]) {
  const state = new HeldState();
  let revision = 1;
  const first = state.take(frameText({ ...head, type: "snapshot", revision, apps, bans: [], callers: [], policies }));
  expect(first.problems).toEqual([]);
  return {
    find: (app: string, name: string) => stored(state.state, app, name) as CompiledPolicy,
    /** @returns which policies were compiled again */
    change(changed: object, gone: object[] = []): string[] {
      const from = { epoch: "e", revision, edition: "1" };
      revision += 1;
      const lists = { apps: [changed], bans: [], callers: [], policies: [], gone };
      const taken = state.take(
        frameText({ ...head, type: "delta", revision, from, policyCount: policies.length, ...lists }),
      );
      expect(taken.problems).toEqual([]);
      return (taken.prepared?.policiesSet ?? []).map(({ app, name }) => `${app}/${name}`).sort();
    },
  };
}

const all = { realm: {} };

describe("exemptions of an app", () => {
  test("concern its own policies, and those of app default concern all", () => {
    const { find } = held(
      [
        { app: "shop", ...all, exempt: office },
        { app: "default", everywhere: true, exempt: { cidrs: ["2001:db8::/32"] } },
      ],
      [policy("shop", "a", users), policy("bank", "a", users), policy("default", "a", users)],
    );
    const exempts = (app: string) => [
      isExemptAddress(find(app, "a"), "192.0.2.7"),
      isExemptAddress(find(app, "a"), "::ffff:192.0.2.7"),
      isExemptAddress(find(app, "a"), "2001:db8::7"),
      isExemptAddress(find(app, "a"), "198.51.100.7"),
      isExemptKey(find(app, "a"), ["health-1"]),
    ];
    expect(exempts("shop")).toEqual([true, true, true, false, true]);
    expect(exempts("bank")).toEqual([false, false, true, false, false]);
    expect(exempts("default")).toEqual([false, false, true, false, false]);
  });

  test("by key values concern each part of this name, in policies that have it", () => {
    const { find } = held(
      [{ app: "shop", ...all, exempt: { keys: [{ part: "header:x-user", pattern: "ann" }] } }],
      [policy("shop", "second", { key: ["path", "header:x-user"] }), policy("shop", "other", { key: ["path"] })],
    );
    expect(isExemptKey(find("shop", "second"), ["/", "ann"])).toBe(true);
    expect(isExemptKey(find("shop", "second"), ["ann", "bob"])).toBe(false);
    expect(find("shop", "other").exempt).toBeUndefined();
    expect(find("shop", "other").policy.fastPath).toBe(true);
    expect(find("shop", "second").policy.fastPath).toBe(false);
  });

  test("are added to the policy's own", () => {
    const own = { key: ["header:x-user"], exempt: { cidrs: ["10.0.0.0/8"], keys: [["bob"]] } };
    const { find, change } = held([{ app: "shop", ...all, exempt: office }], [policy("shop", "a", own)]);
    const exempts = () => [
      isExemptAddress(find("shop", "a"), "10.1.1.1"),
      isExemptAddress(find("shop", "a"), "192.0.2.1"),
      isExemptKey(find("shop", "a"), ["bob"]),
      isExemptKey(find("shop", "a"), ["health-"]),
    ];
    expect(exempts()).toEqual([true, true, true, true]);
    expect(change({ app: "shop", ...all })).toEqual(["shop/a"]);
    expect(exempts()).toEqual([true, false, true, false]);
  });
});

describe("a change of an app", () => {
  const policies = [
    policy("shop", "a", users),
    policy("shop", "b"),
    policy("bank", "a", users),
    policy("default", "a"),
  ];

  test("compiles its policies again if it changes the exemptions, and all policies if it is app default", () => {
    const { find, change } = held([{ app: "shop", ...all, exempt: office }], policies);
    expect(change({ app: "shop", ...all, exempt: { cidrs: ["192.0.2.1"] } })).toEqual(["shop/a", "shop/b"]);
    expect(change({ app: "default", everywhere: true, exempt: office })).toEqual([
      "bank/a",
      "default/a",
      "shop/a",
      "shop/b",
    ]);
    expect(isExemptKey(find("bank", "a"), ["health-1"])).toBe(true);
    expect(change({ app: "bank", realm: { hosts: ["bank.test"] } }, [{ app: "default" }])).toHaveLength(4);
    expect(find("bank", "a").exempt).toBeUndefined();
    expect(find("bank", "a").policy.fastPath).toBe(true);
    expect(isExemptAddress(find("shop", "b"), "192.0.2.1")).toBe(true);
  });

  test("compiles nothing again if the exemptions say the same", () => {
    const { change } = held([{ app: "shop", ...all, exempt: office }], policies);
    const same = { cidrs: ["192.0.2.0/24"], keys: [{ part: "header:x-user", pattern: "health-*" }] };
    expect(change({ app: "shop", realm: { hosts: ["shop.test"] }, exempt: same })).toEqual([]);
    expect(change({ app: "bank", ...all, exempt: { cidrs: [], keys: [] } })).toEqual([]);
  });
});

test("an app that has everything stays so while it exempts somebody", () => {
  const state = new HeldState();
  const apps = [{ app: "default", everywhere: true, exempt: office }];
  state.take(frameText({ ...head, type: "snapshot", revision: 1, apps, policies: [policy("default", "a")] }));
  expect(state.state.index.everywhere.map(({ name }) => name)).toEqual(["a"]);
});

test.each([
  [{ cidrs: ["10.0.0.0/33"] }, "apps[0].exempt.cidrs[0]"],
  [{ keys: [{ part: "ip", pattern: "*" }] }, "apps[0].exempt.keys[0].part"],
  [{ keys: [{ part: "host", pattern: "a*b" }] }, "apps[0].exempt.keys[0].pattern"],
])("a gateway refuses exemptions that it does not understand: %j", (exempt, path) => {
  const apps = [{ app: "shop", exempt }];
  const { problems } = new HeldState().take(frameText({ ...head, type: "snapshot", revision: 1, apps, policies: [] }));
  expect(problems.map((problem) => problem.path)).toEqual([path]);
});
