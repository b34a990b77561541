// Blocks of named lists of networks: what a list has after a change, and which changes are refused.

import { describe, expect, test } from "vitest";
import { noPause } from "../../../limiter/src/basics/pause.ts";
import { isBannedAddress, type PolicyBans } from "../../../limiter/src/compiled/bans.ts";
import { type CompiledPolicy, isExemptAddress } from "../../../limiter/src/compiled/compile.ts";
import { noFindings, type Problem } from "../../../limiter/src/document/problems.ts";
import type { RangeBlocks } from "../../../limiter/src/key/address-ranges.ts";
import type { NetworkLists } from "../../../limiter/src/key/network-lists.ts";
import { type ChangedLists, changedLists } from "../../../limiter/src/state/changed-lists.ts";
import type { GoneEntry, SnapshotNetworks } from "../../../limiter/src/state/entries.ts";
import { policyNamed } from "../../../limiter/src/state/policy-state.ts";
import { frameText, HeldState } from "../../fixtures/documents/loaded-state.ts";
import { smallestDocument } from "../policies.ts";

/** 10.0.0.0/24, 11.0.0.0/24 and 12.0.0.0/24. */
const ten = "0a0000000a0000ff";
const eleven = "0b0000000b0000ff";
const twelve = "0c0000000c0000ff";
/** The ranges of 2001:db8::/112 and 2001:db8:1::/112. */
const db8 = "20010db800000000000000000000000020010db800000000000000000000ffff";
const db8One = "20010db800010000000000000000000020010db800010000000000000000ffff";

const v4 = (networks: string, ranges: string, app = "shop"): SnapshotNetworks => ({
  app,
  networks,
  family: "ipv4",
  ranges,
});
const v6 = (networks: string, ranges: string): SnapshotNetworks => ({ app: "shop", networks, family: "ipv6", ranges });
const gone = (networks: string, from: string, app = "shop"): GoneEntry => ({ app, networks, from });

interface Step {
  readonly gone?: readonly GoneEntry[];
  readonly set?: readonly SnapshotNetworks[];
}

function change(lists: NetworkLists, step: Step, pause = noPause): { changed: ChangedLists; problems: Problem[] } {
  const findings = noFindings();
  const changed = changedLists(lists, step.gone ?? [], step.set ?? [], findings, pause);
  return { changed, problems: findings.problems };
}

/** @returns the lists that a change touches, as they are after it */
function listsAfter(lists: NetworkLists, step: Step): Record<string, RangeBlocks | "no block"> {
  const { changed, problems } = change(lists, step);
  expect(problems).toEqual([]);
  return Object.fromEntries(Object.entries(changed).map(([key, list]) => [key, list.after ?? "no block"]));
}

describe("after a change, a list has", () => {
  test("the blocks that are set, in the order of their addresses, for each version of IP", () => {
    const set = [
      v6("office", db8One),
      v4("office", eleven),
      v4("office", ten),
      v6("office", db8),
      v4("office", twelve),
    ];
    expect(listsAfter({}, { set })).toEqual({ "shop:office": { v4: [ten, eleven, twelve], v6: [db8, db8One] } });
  });

  test("the blocks that it had, with the new ones between them", () => {
    const office = { v4: [ten, twelve], v6: [db8] };
    expect(listsAfter({ "shop:office": office }, { set: [v4("office", eleven)] })).toEqual({
      "shop:office": { v4: [ten, eleven, twelve], v6: [db8] },
    });
    // What decides meanwhile stays as it is.
    expect(office).toEqual({ v4: [ten, twelve], v6: [db8] });
  });

  test("a block in place of the former one that began at the same address", () => {
    const lists = { "shop:office": { v4: [ten, eleven], v6: [db8, db8One] } };
    const wideTen = "0a0000000a00ffff";
    const wideDb8 = "20010db800000000000000000000000020010db80000000000000000ffffffff";
    expect(listsAfter(lists, { set: [v4("office", wideTen), v6("office", wideDb8)] })).toEqual({
      "shop:office": { v4: [wideTen, eleven], v6: [wideDb8, db8One] },
    });
  });

  test("no block that is gone", () => {
    const lists = { "shop:office": { v4: [ten, eleven], v6: [db8, db8One] } };
    const all = [gone("office", "0a000000"), gone("office", "20010db8000100000000000000000000")];
    expect(listsAfter(lists, { gone: all })).toEqual({ "shop:office": { v4: [eleven], v6: [db8] } });
  });

  test("a block that is gone and set again", () => {
    const lists = { "shop:office": { v4: [ten, eleven], v6: [] } };
    expect(listsAfter(lists, { gone: [gone("office", "0a000000")], set: [v4("office", ten)] })).toEqual({
      "shop:office": { v4: [ten, eleven], v6: [] },
    });
  });

  test("nothing if its last block is gone, or if it was not there", () => {
    expect(listsAfter({ "shop:office": { v4: [ten], v6: [] } }, { gone: [gone("office", "0a000000")] })).toEqual({
      "shop:office": "no block",
    });
    expect(listsAfter({}, { gone: [gone("office", "0a000000")] })).toEqual({ "shop:office": "no block" });
  });

  test("addresses of one version of IP if the last block of the other is gone", () => {
    const lists = { "shop:office": { v4: [ten], v6: [db8] } };
    expect(listsAfter(lists, { gone: [gone("office", "0a000000")] })).toEqual({ "shop:office": { v4: [], v6: [db8] } });
    expect(listsAfter(lists, { gone: [gone("office", db8.slice(0, 32))] })).toEqual({
      "shop:office": { v4: [ten], v6: [] },
    });
  });
});

describe("a change", () => {
  const lists = {
    "shop:office": { v4: [ten], v6: [] },
    "shop:crawlers": { v4: [ten], v6: [] },
    "bank:office": { v4: [ten], v6: [] },
  };

  test("of one list touches no list of another name, or of another app", () => {
    expect(listsAfter(lists, { set: [v4("office", eleven)] })).toEqual({
      "shop:office": { v4: [ten, eleven], v6: [] },
    });
    expect(listsAfter(lists, { gone: [gone("office", "0a000000", "bank")] })).toEqual({ "bank:office": "no block" });
  });

  test("may be of several lists", () => {
    const step = {
      gone: [gone("office", "0a000000"), gone("crawlers", "0a000000")],
      set: [v4("office", eleven), v4("office", twelve), v4("office", twelve, "bank")],
    };
    expect(listsAfter(lists, step)).toEqual({
      "shop:office": { v4: [eleven, twelve], v6: [] },
      "shop:crawlers": "no block",
      "bank:office": { v4: [ten, twelve], v6: [] },
    });
  });

  test("of other entries touches no list", () => {
    const others: GoneEntry[] = [{ app: "shop" }, { app: "shop", policy: "office" }, { ban: "1" }, { caller: "c" }];
    expect(listsAfter(lists, { gone: others })).toEqual({});
  });
});

describe("a change is refused", () => {
  test("if two blocks that it sets have addresses in common", () => {
    const inTen = "0a0000f00a000fff";
    const { problems } = change({}, { set: [v4("office", inTen), v4("office", ten)] });
    expect(problems).toEqual([
      { path: "n:shop:office:0a0000f0", expected: "ranges of addresses after 0a0000ff", got: "0a0000f0" },
    ]);
  });

  test("if a block that it sets has the last address of one that stays", () => {
    const fromLast = "0a0000ff0a000fff";
    const { problems } = change(
      { "shop:office": { v4: [ten, twelve], v6: [] } },
      { set: [v4("office", fromLast), v4("office", eleven)] },
    );
    expect(problems).toEqual([
      { path: "n:shop:office:0a0000ff", expected: "ranges of addresses after 0a0000ff", got: "0a0000ff" },
    ]);
  });

  test("if a block ends after the next one begins, in ranges of IPv6 too", () => {
    const wideDb8 = "20010db800000000000000000000000020010db8000100000000000000000000";
    const { problems } = change({ "shop:office": { v4: [], v6: [db8One] } }, { set: [v6("office", wideDb8)] });
    expect(problems).toEqual([
      {
        path: "n:shop:office:20010db8000100000000000000000000",
        expected: "ranges of addresses after 20010db8000100000000000000000000",
        got: "20010db8000100000000000000000000",
      },
    ]);
  });

  test("but not if blocks only touch, or if the one in the way is gone", () => {
    const touching = "0a0001000a0001ff";
    expect(listsAfter({ "shop:office": { v4: [ten], v6: [] } }, { set: [v4("office", touching)] })).toEqual({
      "shop:office": { v4: [ten, touching], v6: [] },
    });
    const step = { gone: [gone("office", "0a000000")], set: [v4("office", "0a0000800a00ffff")] };
    expect(listsAfter({ "shop:office": { v4: [ten], v6: [] } }, step)).toEqual({
      "shop:office": { v4: ["0a0000800a00ffff"], v6: [] },
    });
  });
});

describe("requests go first between any two blocks", () => {
  const pauses = (lists: NetworkLists, step: Step) => {
    let count = 0;
    change(lists, step, () => {
      count += 1;
    });
    return count;
  };

  test("where they are read, where they stay, and where they are compared with their neighbours", () => {
    expect(pauses({}, {})).toBe(0);
    // It is read.
    expect(pauses({}, { gone: [gone("office", "0a000000")] })).toBe(1);
    // One is read, the other one stays and is compared.
    expect(pauses({ "shop:office": { v4: [eleven], v6: [] } }, { gone: [gone("office", "0a000000")] })).toBe(3);
    // It is read, looked at for each version of IP, and compared.
    expect(pauses({}, { set: [v4("office", ten)] })).toBe(4);
  });
});

describe("a gateway that holds a list", () => {
  const head = { format: 1, epoch: "e", proof: "p", edition: "1" };
  const document = { ...smallestDocument, exempt: { cidrs: ["@office"] } };
  const ban = { id: "1", app: "shop", cidr: "@office", untilSeconds: 100 };

  function held() {
    const state = new HeldState();
    const first = { ...head, type: "snapshot", revision: 1, networks: [v4("office", ten)], bans: [ban] };
    expect(state.take(frameText({ ...first, policies: [{ app: "shop", document }] })).problems).toEqual([]);
    const policy = () => policyNamed(state.state, "shop", "books") as CompiledPolicy;
    return {
      policy,
      meets: (address: string) => [
        isExemptAddress(policy(), address),
        isBannedAddress(policy().bans as PolicyBans, address, 99),
      ],
      take: (networks: object[], left: object[] = []) =>
        state.take(
          frameText({
            ...head,
            type: "delta",
            revision: 2,
            from: { epoch: "e", revision: 1, edition: "1" },
            policyCount: 1,
            networks,
            bans: [],
            callers: [],
            policies: [],
            gone: left,
          }),
        ),
    };
  }

  test("exempts and bans whoever is on it after a change, without compiling a policy again", () => {
    const { policy, meets, take } = held();
    const before = policy();
    expect([meets("10.0.0.7"), meets("11.0.0.7")]).toEqual([
      [true, true],
      [false, false],
    ]);
    const left = [gone("office", "0a000000")];
    expect(take([v4("office", eleven)], left).problems).toEqual([]);
    expect([meets("10.0.0.7"), meets("11.0.0.7")]).toEqual([
      [false, false],
      [true, true],
    ]);
    expect(policy()).toBe(before);
  });

  test("exempts and bans nobody by it when its last block is gone", () => {
    const { meets, take } = held();
    expect(take([], [gone("office", "0a000000")]).problems).toEqual([]);
    expect(meets("10.0.0.7")).toEqual([false, false]);
  });

  test("goes on with what it holds if the blocks of a change overlap", () => {
    const { meets, take } = held();
    const { problems } = take([v4("office", "0a0000800a00ffff")]);
    expect(problems.map(({ path }) => path)).toEqual(["n:shop:office:0a000080"]);
    expect([meets("10.0.0.7"), meets("10.0.200.7")]).toEqual([
      [true, true],
      [false, false],
    ]);
  });
});
