import { describe, expect, test } from "vitest";
import { type CompiledSnapshot, loadSnapshot, loadSnapshotLines } from "../../../limiter/src/protocol/load-snapshot.ts";
import { layOut } from "../../../limiter/src/protocol/snapshot-lines.ts";
import { smallestDocument } from "../policies.ts";

const head = { type: "snapshot", format: 1, epoch: "e1", revision: 7, zones: { UTC: [[0, 0]] } };
const policy = (name: string, more: object = {}) => ({ app: "shop", document: { ...smallestDocument, name, ...more } });
const ban = { id: "b1", app: "shop", cidr: "10.0.0.0/8", untilSeconds: 4e9 };

function text(policies: readonly object[], bans: readonly object[] = [], callers: readonly object[] = []): string {
  const lines = (entries: readonly object[]) => entries.map((entry) => JSON.stringify(entry));
  return layOut(JSON.stringify(head), {
    apps: [],
    bans: lines(bans),
    callers: lines(callers),
    policies: lines(policies),
  });
}

function decode(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function read(from: string, previous?: CompiledSnapshot, pause = () => {}) {
  // A piece ends at the end of a line.
  const half = from.indexOf("\n", from.length / 2) + 1;
  return loadSnapshotLines((place) => [from.slice(0, half), from.slice(half)][place], decode, previous, pause);
}

describe("a snapshot that is laid out by lines", () => {
  test("is a valid JSON document, and reads the same as one", () => {
    const from = text([policy("a"), policy("b")], [ban]);
    const whole = loadSnapshot(JSON.parse(from)).snapshot;
    const byLines = read(from)?.snapshot;
    expect({ ...byLines, source: undefined }).toEqual(whole);
    expect(byLines).toMatchObject({ epoch: "e1", revision: 7, bans: [ban], callers: [] });
  });

  test("pauses after every policy", () => {
    let pauses = 0;
    const policies = Array.from({ length: 100 }, (_, i) => policy(`p${i}`));
    read(text(policies), undefined, () => {
      pauses += 1;
    });
    expect(pauses).toBeGreaterThan(100);
  });

  test("reports a policy's problems with its place", () => {
    const reading = read(text([policy("a"), policy("b", { key: "x" })]));
    expect(reading?.problems).toMatchObject([{ path: "policies[1].document.key" }]);
  });

  test("is distinguished from a text with another layout, and from one that is not JSON", () => {
    const good = text([policy("a"), policy("b")], [ban]);
    expect(read(good)?.problems).toEqual([]);
    for (const other of [
      JSON.stringify(JSON.parse(good)),
      JSON.stringify(JSON.parse(good), undefined, 2),
      good.slice(0, -3),
      good.replace(",\n{", "\n{"),
      good.replace("\n]}", ",\n]}"),
      good.replace('"callers":[\n],\n', ""),
      good.replace('"policies"', '"bans"'),
      good.replace('"revision":7', '"revision":7,"policies":[]'),
      good.replace('"app":"shop"', '"app":shop'),
      `${good}{}\n`,
    ]) {
      expect(other).not.toBe(good);
      expect(read(other), other).toBeUndefined();
    }
  });

  test("reuses the policies whose lines are unchanged, and compiles the others", () => {
    const before = read(text([policy("a"), policy("b")]))?.snapshot;
    const after = read(text([policy("a"), policy("b", { priority: 5 })]), before)?.snapshot;
    expect(after?.policies[0]).toBe(before?.policies[0]);
    expect(after?.policies[1]).not.toBe(before?.policies[1]);
    expect(after?.policies[1]?.policy.priority).toBe(5);
  });

  test("reuses no policy for which the bans have changed, nor bans that are gone", () => {
    const policies = [policy("a"), policy("b")];
    const without = read(text(policies))?.snapshot;
    const banned = read(text(policies, [ban]), without)?.snapshot;
    expect(banned?.policies.map(({ bans }) => bans?.networks?.v4.map(({ bits }) => bits))).toEqual([[8], [8]]);
    const same = read(text([policy("a"), policy("c")], [ban]), banned)?.snapshot;
    expect(same?.policies[0]).toBe(banned?.policies[0]);
    const free = read(text(policies), banned)?.snapshot;
    expect(free?.policies.map(({ bans, fastPath }) => [bans, fastPath])).toEqual([
      [undefined, true],
      [undefined, true],
    ]);
  });
});
