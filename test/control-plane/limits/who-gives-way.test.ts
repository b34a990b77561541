// Who gives way when all places are taken.

import { expect, it } from "vitest";
import { type Taken, whoGivesWay } from "../../../control-plane/src/limits/who-gives-way.ts";

const of = (app: string, name: string, size = 1): Taken => ({ app, name, size });

it("the largest of the name with the most gives way, in the app with the most", () => {
  const taken = [
    of("one", "ann", 5),
    of("two", "bob", 3),
    of("two", "cid", 1),
    of("two", "cid", 3),
    of("two", "cid", 2),
  ];
  expect(whoGivesWay(taken, of("three", "dan"))).toBe(taken[3]);
});

it("of equals, the last one gives way", () => {
  const taken = [of("one", "ann"), of("one", "ann"), of("one", "ann")];
  expect(whoGivesWay(taken, of("two", "bob"))).toBe(taken[2]);
});

it("an app gets no more by many names, and a name keeps no other of its app out", () => {
  const taken = [of("one", "ann", 2), ...Array.from({ length: 8 }, (_, i) => of("two", `t${i}`))];
  expect(whoGivesWay(taken, of("three", "dan"))?.app).toBe("two");
  expect(whoGivesWay(taken, of("two", "new"))).toBeUndefined();
  expect(whoGivesWay([of("one", "ann", 2)], of("one", "bob"))).toMatchObject({ name: "ann" });
});

it("nobody gives way to whoever would have as much as the one with the most", () => {
  const taken = [of("one", "ann", 4), of("two", "bob", 3)];
  expect(whoGivesWay(taken, of("two", "bob", 1))).toBeUndefined();
  expect(whoGivesWay(taken, of("one", "ann", 1))).toBeUndefined();
  expect(whoGivesWay(taken, of("three", "cid", 4))).toBeUndefined();
  expect(whoGivesWay(taken, of("three", "cid", 3))).toBe(taken[0]);
  expect(whoGivesWay([], of("one", "ann"))).toBeUndefined();
});
