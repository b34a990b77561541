// Tests which reports other control planes are told of.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MergedKeys, mostOf } from "../../../control-plane/src/activity/merged-keys.ts";
import { UntoldReports } from "../../../control-plane/src/activity/untold-reports.ts";
import { lineOf, listOf } from "./lines.ts";

const mostOfGateway = 1_024 * 1_024;
const bytesOf = (rows: readonly string[]) => rows.reduce((sum, row) => sum + Buffer.byteLength(row), 0);
/** Names of 60 characters, in which the number of the gateway comes first. */
const longName = (gateway: number, line: number) => `${gateway}-${line}`.padEnd(60, "x");
const linesOf = (gateway: number, length: number) =>
  Array.from({ length }, (_, line) => lineOf(longName(gateway, line)));

describe("what gateways have reported", () => {
  it("comes once and in order, in rows that are small enough for a database, whatever its keys are", () => {
    const report = fc.record({
      traffic: fc.nat(500).map((length) => linesOf(0, length)),
      keys: fc.array(fc.nat(200).map(listOf), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(report, { maxLength: 8 }), (reports) => {
        const untold = new UntoldReports();
        for (const [gateway, report] of reports.entries()) untold.add(`g${gateway}`, report);
        const { rows, leftOut } = untold.take();
        const all = reports.flatMap(({ traffic, keys }) => [...traffic, ...keys]);
        expect(rows.flatMap((row) => JSON.parse(row))).toEqual(all);
        for (const row of rows) expect(Buffer.byteLength(row)).toBeLessThanOrEqual(262_145);
        expect([leftOut, untold.take().rows]).toEqual([undefined, []]);
      }),
      { numRuns: 20 },
    );
  });

  it("is left out beyond a megabyte of a gateway, and what is left out is counted", () => {
    const untold = new UntoldReports();
    untold.add("liar", { traffic: linesOf(0, 10_000), keys: [] });
    untold.add("liar", { traffic: [], keys: [listOf(100), listOf(100)] });
    untold.add("other", { traffic: linesOf(1, 2), keys: [listOf(1)] });
    const { rows, leftOut } = untold.take();
    const lines = rows.flatMap((row) => JSON.parse(row) as { policy: string }[]);
    expect(bytesOf(rows)).toBeLessThan(mostOfGateway + 10_000);
    expect(bytesOf(rows)).toBeGreaterThan(mostOfGateway - 10_000);
    expect(lines.slice(-3).map(({ policy }) => policy.slice(0, 3))).toEqual(["1-0", "1-1", "p"]);
    expect(leftOut).toEqual({ gateway: "liar", traffic: 10_000 - (lines.length - 3), keys: 2 });
    untold.add("liar", { traffic: linesOf(0, 1), keys: [] });
    expect(untold.take()).toEqual({ rows: [JSON.stringify(linesOf(0, 1))], leftOut: undefined });
  });

  it("has long lists of keys in parts that no database refuses, and which mean the same together", () => {
    const untold = new UntoldReports();
    const list = listOf(1_500);
    const keys = list.keys.map((key, i) => `${i} ${key}`);
    const whole = { ...list, keys, counts: keys.map((_, i) => 2_000 - i), error: 3, unlisted: 5 };
    untold.add("gateway", { traffic: [], keys: [whole] });
    const { rows, leftOut } = untold.take();
    expect(leftOut).toBeUndefined();
    for (const row of rows) expect(Buffer.byteLength(row)).toBeLessThanOrEqual(262_145);
    const parts = rows.flatMap((row) => JSON.parse(row) as (typeof whole)[]);
    expect(parts.length).toBeGreaterThan(4);
    const [here, there] = [new MergedKeys(4_000), new MergedKeys(4_000)];
    here.add(whole);
    for (const part of parts) there.add(part);
    expect(mostOf([there], 2_000)).toEqual(mostOf([here], 2_000));
    expect(mostOf([there], 10).others).toBe(2_000 - 10 + 3);
  });

  it("has no key that a database may refuse", () => {
    const untold = new UntoldReports();
    const list = { ...listOf(1), keys: ["x".repeat(300_000)] };
    untold.add("liar", { traffic: [], keys: [list] });
    expect(untold.take()).toEqual({ rows: [], leftOut: { gateway: "liar", traffic: 0, keys: 1 } });
  });

  it("has a bound for all gateways, at which those lose theirs who have reported most", () => {
    const untold = new UntoldReports();
    untold.add("honest", { traffic: linesOf(9, 100), keys: [] });
    for (let round = 0; round < 3; round++) {
      for (let liar = 0; liar < 100; liar++) untold.add(`liar-${liar}`, { traffic: linesOf(liar, 1_000), keys: [] });
    }
    const { rows, leftOut } = untold.take();
    const told = rows.flatMap((row) => JSON.parse(row) as { policy: string }[]);
    expect(told.slice(0, 100)).toEqual(linesOf(9, 100));
    expect(bytesOf(rows)).toBeLessThan(8.5 * 1_024 * 1_024);
    expect(leftOut?.traffic).toBe(100 + 300_000 - told.length);
  });
});
