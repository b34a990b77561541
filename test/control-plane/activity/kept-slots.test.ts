// Which policies' keys the database keeps if there are too many.

import { describe, expect, it } from "vitest";
import { KeptSlots } from "../../../control-plane/src/activity/kept-slots.ts";

const number = 7;

/** Places keys of these policies in slots that have room for four. @returns the policies that have a row then */
function placed(...all: readonly (readonly [name: string, count: number])[]): { kept: string[]; slots: KeptSlots } {
  const slots = new KeptSlots(4);
  const rows = new Map<number, string>();
  for (const [name, count] of all) {
    const row = slots.place({ name, number }, { keys: ["a"], counts: [count], errors: [0], unlisted: 0 });
    if (row !== undefined) rows.set(row, name);
  }
  for (const row of slots.gone) rows.delete(row);
  return { kept: [...rows.values()].sort(), slots };
}

const refused = (app: string, policies: number, count = 1) =>
  Array.from({ length: policies }, (_, i) => [`${app}/${i} [] refused`, count] as const);

describe("slots in the database", () => {
  it("have one row each, however often they change", () => {
    const { kept, slots } = placed(["a/0 [] refused", 1], ["a/0 [] refused", 2], ["a/0 [] refused", 3]);
    expect(kept).toEqual(["a/0 [] refused"]);
    expect(slots.gone).toEqual([1, 2]);
    expect(slots.takeCuts()).toEqual([]);
  });

  it("have the same share for each app, and an app that has lost some is named once", () => {
    const { kept, slots } = placed(...refused("a", 9, 100), ...refused("b", 3));
    expect(kept.map((name) => name[0])).toEqual(["a", "a", "b", "b"]);
    expect(slots.takeCuts()).toEqual([
      { app: "a", number },
      { app: "b", number },
    ]);
  });

  it("have the policies of an app that refuse most, before those that admit", () => {
    const { kept } = placed(
      ...refused("a", 3, 5),
      ["a/x [] admitted", 1_000],
      ["a/y [] refused", 6],
      ["a/z [] refused", 2],
    );
    expect(kept).toEqual(["a/0 [] refused", "a/1 [] refused", "a/2 [] refused", "a/y [] refused"]);
  });

  it("of another time have a room of their own, and are forgotten", () => {
    const { slots } = placed(...refused("a", 4));
    const keys = { keys: ["a"], counts: [1], errors: [0], unlisted: 0 };
    const place = (at: number) => slots.place({ name: "a/new [] refused", number: at }, keys);
    expect([place(number + 1) !== undefined, place(number)]).toEqual([true, undefined]);
    slots.forget(number + 1);
    expect(place(number)).toBeDefined();
  });
});
