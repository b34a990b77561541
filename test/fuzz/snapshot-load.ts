// Tests in Node the reader of snapshots and deltas, which has the same source as the gateway's: it must never throw, and whatever it
// takes must leave the same state as one snapshot with the same entries, read where nothing is held.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { isBannedAddress, isBannedKey } from "../../limiter/src/compiled/bans.ts";
import { exemptsAddress } from "../../limiter/src/compiled/exemptions.ts";
import { candidates } from "../../limiter/src/index/policy-index.ts";
import { isWithin } from "../../limiter/src/key/networks.ts";
import { layOut } from "../../limiter/src/protocol/frame-lines.ts";
import { HeldState } from "../fixtures/documents/loaded-state.ts";
import { changedBytes } from "./hostile.ts";
import {
  changedSnapshot,
  changedSnapshots,
  goodDelta,
  goodSnapshot,
  telltalePath,
  textDamage,
} from "./snapshot-texts.ts";
import { Fault, type Fuzzer, type Target } from "./target.ts";

const good = { epoch: "good", revision: 5, quota: 1234 };

const texts = fc.oneof(
  { weight: 3, arbitrary: changedSnapshots.map((snapshot) => changedSnapshot(good, snapshot)) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom(goodSnapshot(good), goodDelta(good)), textDamage)
      .map(([text, by]) => changedBytes(Buffer.from(text), ...by).toString("utf8")),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(changedSnapshots, textDamage)
      .map(([snapshot, by]) => changedBytes(Buffer.from(changedSnapshot(good, snapshot)), ...by).toString("utf8")),
  },
);

export const readingFuzzer: Fuzzer<string> = {
  inputs: texts,
  async play(text) {
    // Other fuzzers in this process get a turn.
    await setImmediate();
    assess(text);
  },
  show: (text) => JSON.stringify(text),
};

export const snapshotLoad: Target = {
  name: "snapshot-load",
  worker: "gateway",
  start: async () => readingFuzzer as Fuzzer<unknown>,
};

function assess(text: string): void {
  const held = new HeldState();
  if (held.take(goodSnapshot(good)).frame === undefined) throw new Fault("the good snapshot was not read");
  const before = held.texts.size;
  const onTop = held.take(text);
  if (onTop.frame === undefined) {
    if (onTop.problems.length === 0 && !onTop.misfit) throw new Fault("refused for no reason");
    if (held.texts.size !== before) throw new Fault("refused, and taken in part");
  }
  // Entries that are held are not read again, and the result must be the same.
  const alone = new HeldState();
  const read = alone.take(text);
  // A time zone that is held is known, even if a snapshot does not list it again.
  const lacksZone = read.problems.some(({ path, got }) => path.startsWith("zones.") && got === "nothing");
  if (read.frame !== undefined || (onTop.frame?.type === "snapshot" && !lacksZone)) {
    if (!isDeepStrictEqual(onTop.problems, read.problems) || !isDeepStrictEqual(seenIn(held), seenIn(alone)))
      throw new Fault("another reading where a snapshot with the same lines is held");
  }
  if (onTop.frame === undefined) return;
  const entries = [...held.texts.keys()].filter((name) => name.startsWith("p:")).length;
  if (held.state.policyCount !== entries) throw new Fault(`counts ${held.state.policyCount} policies of ${entries}`);
  // What is held together is a snapshot, and means the same.
  const whole = new HeldState();
  const { frame, problems } = whole.take(asSnapshot(held));
  if (frame === undefined) throw new Fault(`what is held is no snapshot: ${JSON.stringify(problems).slice(0, 300)}`);
  if (!isDeepStrictEqual(seenIn(held), seenIn(whole))) throw new Fault("another state than by one snapshot");
}

/** Writes what is held as the snapshot of its revision. */
function asSnapshot({ state, texts }: HeldState): string {
  const of = (kind: string) => [...texts].filter(([name]) => name.startsWith(kind)).map(([, text]) => text);
  const zones = Object.fromEntries(
    [...texts].filter(([name]) => name.startsWith("z:")).map(([name, text]) => [name.slice(2), JSON.parse(text)]),
  );
  const head = { type: "snapshot", format: 1, ...state.position, zones };
  const lists = {
    apps: of("a:"),
    networks: of("n:"),
    bans: of("b:"),
    callers: of("c:"),
    policies: of("p:"),
  };
  return layOut("snapshot", JSON.stringify(head), lists);
}

const addresses = ["192.0.2.1", "192.0.2.200", "198.51.100.7", "10.0.0.1", "10.1.2.3", "11.0.0.9", "2001:db8::1"];
const hosts = ["a.example", "x.b.example", "bank.example", "other.example"];
const paths = ["/", telltalePath, "/a/b", "/v1/x", "/terms", "/keyed", "/shop/x"];

/** What a state shows: its entries, how they are compiled, and which policies requests meet. */
function seenIn({ state, texts }: HeldState): unknown {
  const compiled: unknown[] = [];
  for (const [app, ofApp] of Object.entries(state.policiesByName)) {
    for (const [name, { policy, match, limits, bans, schedule, exempt }] of Object.entries(ofApp)) {
      const banned = addresses.map((address) => bans !== undefined && isBannedAddress(bans, address, 1e9));
      const exempted = addresses.map((address) => exempt !== undefined && exemptsAddress(exempt, address));
      const key = policy.key.map(() => "x");
      compiled.push([
        app,
        name,
        policy,
        match,
        limits,
        schedule?.transitions,
        banned,
        exempted,
        bans && isBannedKey(bans, key, 1e9),
      ]);
    }
  }
  const met = hosts.flatMap((host) =>
    paths.map((path) =>
      candidates(state.index, host, path).map((one) => [
        one.app,
        one.name,
        addresses.map((address) => one.bans !== undefined && isBannedAddress(one.bans, address, 1e9)),
      ]),
    ),
  );
  const { index, position, policyCount, apps, networkLists, callers, bannedEverywhere } = state;
  const everywhere = addresses.map(
    (address) => bannedEverywhere !== undefined && isWithin(bannedEverywhere, address, 1e9),
  );
  const needs = [index.needsHost, index.needsPath];
  const entries = [...texts].filter(([name]) => !name.startsWith("z:"));
  return {
    entries: sorted(entries),
    compiled: sorted(compiled),
    met,
    needs,
    everywhere,
    position,
    policyCount,
    apps: sorted(Object.entries(apps)),
    networkLists: sorted(Object.entries(networkLists)),
    callers: sorted(Object.entries(callers)),
    bans: sorted(Object.entries(state.bans.byId)),
  };
}

function sorted(list: readonly unknown[]): string[] {
  return list.map((one) => JSON.stringify(one)).sort();
}
