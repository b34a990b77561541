// Reads reports that other control planes have relayed, in parts.

import fc from "fast-check";
import { expect, it } from "vitest";
import { turnsOf } from "../../../control-plane/src/activity/report-parts.ts";
import { lineOf, listOf } from "./lines.ts";

it("what is taken over without a pause is no more than a gateway reports in a message", () => {
  const traffic = fc.array(fc.constant(lineOf("p")), { maxLength: 3_000 });
  const lists = fc.array(
    fc.nat(500).map((keys) => listOf(keys)),
    { maxLength: 100 },
  );
  fc.assert(
    fc.property(traffic, lists, (traffic, keys) => {
      const turns = [...turnsOf([...traffic, ...keys])];
      expect(turns.flatMap((turn) => turn.traffic)).toEqual(traffic);
      expect(turns.flatMap((turn) => turn.keys)).toEqual(keys);
      for (const { traffic, keys } of turns) {
        expect(traffic.length + keys.length).toBeLessThanOrEqual(500);
        expect(keys.reduce((sum, { keys }) => sum + keys.length, 0)).toBeLessThanOrEqual(3_000);
      }
    }),
    { numRuns: 20 },
  );
});
