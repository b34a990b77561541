// Ids sort by the time at which they were made, and within a millisecond by the order of making.

import { expect, it } from "vitest";
import { newId } from "../../../control-plane/src/storage/new-id.ts";

it("sorts ids in the order in which they were made, also those of one millisecond", () => {
  const times = [1_000, 1_000, 1_000, 1_001, 1_001, 99_999, 1_795_517_461_276, 1_795_517_461_276];
  const ids = times.map(newId);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});
