// A list that the Lua spreads (unpack) is short. LuaJIT fails on one of some 8,000 elements, and what a client sends is as long as the client wants.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Each list that is spread whole, with what bounds it. */
const bounded = {
  calendarUnits: "a constant",
  callBuckets: "a constant",
  credentials: "a user and a password",
  filesOfEarlierVersions: "a constant",
  "debt.units": "one for each limit of a policy",
  values: "one for each part of a key",
  all: "the time zones of a policy",
};

test("only lists with a bound are spread", () => {
  const lua = readFileSync(join(import.meta.dirname, "../../gateway/dist/sluice.lua"), "utf8");
  const spread = [...lua.matchAll(/(?<![.\w])unpack\(\s*([\w.]+)\s*\)/g)].map(([, list]) => list);
  expect(spread.sort()).toEqual(Object.keys(bounded).sort());
});
