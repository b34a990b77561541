// What control planes tell each other of their gateways' traffic, in parts.

import fc from "fast-check";
import { expect, it } from "vitest";
import type { ActivityReport } from "../../../control-plane/src/activity/activity.ts";
import { rowsOf, turnsOf } from "../../../control-plane/src/activity/report-parts.ts";

const counts = { admitted: 1, refused: 0, shadowRefused: 0, delayed: 0, degraded: 0 };
const lineOf = (policy: string) => ({ app: "a", policy, fromMs: 0, toMs: 1, counts });
const listOf = (key: string, keys: number) => ({
  app: "a",
  policy: "p",
  key: [key],
  result: "refused" as const,
  keys: Array(keys).fill("\u0001".repeat(100)),
  counts: Array(keys).fill(1),
  error: 0,
  unlisted: 0,
});
const reports = fc.array(
  fc.record({
    traffic: fc.array(fc.constantFrom("p", "long".repeat(15)).map(lineOf), { maxLength: 900 }),
    keys: fc.array(
      fc.nat(500).map((keys) => listOf("ip", keys)),
      { maxLength: 30 },
    ),
  }),
  { maxLength: 4 },
);
const joined = (all: readonly ActivityReport[]) => ({
  traffic: all.flatMap(({ traffic }) => traffic),
  keys: all.flatMap(({ keys }) => keys),
});

it("rows have every line once, in order, and are small enough for a database, of whatever keys", () => {
  fc.assert(
    fc.property(reports, (all) => {
      const rows = [...rowsOf(all)];
      expect(joined(rows)).toEqual(joined(all));
      for (const row of rows) expect(Buffer.byteLength(JSON.stringify(row))).toBeLessThan(1_000_000);
    }),
    { numRuns: 20 },
  );
});

it("what is taken over without a pause is no more than a gateway reports in a message", () => {
  fc.assert(
    fc.property(reports, (all) => {
      const turns = [...turnsOf(joined(all))];
      expect(joined(turns)).toEqual(joined(all));
      for (const { traffic, keys } of turns) {
        expect(traffic.length + keys.length).toBeLessThanOrEqual(500);
        expect(keys.reduce((sum, { keys }) => sum + keys.length, 0)).toBeLessThanOrEqual(3_000);
      }
    }),
    { numRuns: 20 },
  );
});
