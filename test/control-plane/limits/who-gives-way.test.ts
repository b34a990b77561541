// Who gives way when all places are taken.

import { expect, it } from "vitest";
import { type Taken, TakenPlaces, whoGivesWay } from "../../../control-plane/src/limits/who-gives-way.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";

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

it("places of one size are counted by the same rule, whatever comes and goes", () => {
  const places = new TakenPlaces();
  let taken: Taken[] = [];
  let seed = 7;
  const below = (most: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % most;
  };
  let gaveWay = 0;
  for (let i = 0; i < 20_000; i++) {
    const app = `app${below(4)}`;
    const newcomer = of(app, `${app}-${below(4)}`);
    const expected = whoGivesWay(taken, newcomer);
    const name = places.whoGivesWay(newcomer);
    const found = taken.find((one) => one.name === name);
    expect(found === undefined).toBe(expected === undefined);
    // Of several apps with as many, either may give way, and so may either name of the app.
    const sizeOf = (what: "app" | "name", value?: string) => taken.filter((one) => one[what] === value).length;
    expect(sizeOf("app", found?.app)).toBe(sizeOf("app", expected?.app));
    const others = taken.filter((one) => one.app === found?.app);
    expect(sizeOf("name", found?.name)).toBe(Math.max(0, ...others.map((one) => sizeOf("name", one.name))));
    const gone = below(3) === 0 ? taken[below(taken.length)] : taken.length >= 40 ? found : undefined;
    if (gone !== undefined) {
      gaveWay += 1;
      taken = taken.filter((one) => one !== gone);
      places.remove(gone);
    }
    if (taken.length >= 40) continue;
    taken.push(newcomer);
    places.add(newcomer);
  }
  expect(gaveWay).toBeGreaterThan(5_000);
});

it.each([1, 4_000])("among four thousand names in %i apps, whoever gives way is found in microseconds", (apps) => {
  const places = new TakenPlaces();
  const holder = (i: number) => of(`app${i % apps}`, `name${i}`);
  for (let i = 0; i < 4_000; i++) places.add(holder(i));
  places.add(holder(7));
  const beganMs = processorMs();
  for (let i = 0; i < 1_000; i++) {
    expect(places.whoGivesWay(of("new", "new"))).toBe("name7");
    places.remove(holder(i + 10));
    places.add(holder(i + 10));
  }
  expect(processorMs() - beganMs).toBeLessThan(100);
});
