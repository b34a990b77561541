// Which policies' keys the database keeps if there are too many.

import { describe, expect, it } from "vitest";
import { type Cut, KeptSlots } from "../../../control-plane/src/activity/kept-slots.ts";
import type { HourSlot } from "../../../control-plane/src/activity/top-keys.ts";

const number = 7;

/** Places keys of these policies in slots that have room for four. @returns the policies that have a row then */
function placed(...all: readonly (readonly [name: string, count: number])[]): {
  kept: string[];
  cuts: Cut[];
  slots: KeptSlots;
} {
  const slots = new KeptSlots(4);
  const rows = new Map<number, string>();
  for (const [name, count] of all) {
    const row = slots.place({ name, number }, { keys: ["a"], counts: [count], errors: [0], unlisted: 0 });
    if (row !== undefined) rows.set(row, name);
  }
  const cuts = [...slots.cuts];
  slots.noteStored(all.map(([name]) => ({ name, number })));
  for (const row of slots.gone) rows.delete(row);
  return { kept: [...rows.values()].sort(), cuts, slots };
}

const refused = (app: string, policies: number, count = 1) =>
  Array.from({ length: policies }, (_, i) => [`${app}/${i} [] refused`, count] as const);

describe("slots in the database", () => {
  it("have one row each, however often they change", () => {
    const { kept, cuts, slots } = placed(["a/0 [] refused", 1], ["a/0 [] refused", 2], ["a/0 [] refused", 3]);
    expect(kept).toEqual(["a/0 [] refused"]);
    expect(slots.gone).toEqual([1, 2]);
    expect(cuts).toEqual([]);
  });

  it("keep their former rows until the ones in their place are stored, however often that fails", () => {
    const slots = new KeptSlots(4);
    const [slot, other] = ["a/0 [] refused", "a/1 [] refused"].map((name) => ({ name, number })) as [
      HourSlot,
      HourSlot,
    ];
    const keys = { keys: ["a"], counts: [1], errors: [0], unlisted: 0 };
    slots.place(slot, keys);
    slots.noteStored([slot]);
    for (let i = 0; i < 3; i++) slots.place(slot, keys);
    slots.place(other, keys);
    slots.noteStored([other]);
    expect(slots.gone).toEqual([]);
    slots.noteStored([slot]);
    expect(slots.gone).toEqual([1, 2, 3]);
  });

  it("have the same share for each app, and an app that has lost some is named once", () => {
    const { kept, cuts } = placed(...refused("a", 9, 100), ...refused("b", 3));
    expect(kept.map((name) => name[0])).toEqual(["a", "a", "b", "b"]);
    expect(cuts).toEqual([
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
