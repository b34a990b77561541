import { describe, expect, it } from "vitest";
import { FleetChanges, type GatewayState } from "../../../control-plane/src/activity/fleet-changes.ts";

const state = (revision: number): GatewayState => ({ connected: true, revision, refused: undefined });
const told = (changes: FleetChanges, number: number, begun = 0) =>
  [...changes.since(number, begun)].map(({ id, connected, revision }) => [id, connected, revision]);

describe("changes of the fleet", () => {
  it("are told in their order, each gateway once with its last state", () => {
    const changes = new FleetChanges();
    changes.update(
      new Map([
        ["a", state(1)],
        ["b", state(1)],
        ["c", state(1)],
      ]),
    );
    expect(told(changes, 0).map(([id]) => id)).toEqual(["a", "b", "c"]);
    const seen = changes.newest;
    changes.update(
      new Map([
        ["a", state(2)],
        ["b", state(1)],
        ["c", state(1)],
      ]),
    );
    changes.update(
      new Map([
        ["a", state(2)],
        ["b", state(1)],
        ["c", state(2)],
      ]),
    );
    changes.update(
      new Map([
        ["a", state(3)],
        ["b", state(1)],
        ["c", state(2)],
      ]),
    );
    expect(told(changes, seen)).toEqual([
      ["c", true, 2],
      ["a", true, 3],
    ]);
    expect(told(changes, changes.newest)).toEqual([]);
  });

  it("are told from where a stream has stopped, also if more have come meanwhile", () => {
    const changes = new FleetChanges();
    changes.update(
      new Map([
        ["a", state(1)],
        ["b", state(1)],
        ["c", state(1)],
      ]),
    );
    const [first] = changes.since(0, 0);
    changes.update(
      new Map([
        ["a", state(2)],
        ["b", state(1)],
        ["c", state(1)],
      ]),
    );
    expect(told(changes, first?.number ?? 0)).toEqual([
      ["b", true, 1],
      ["c", true, 1],
      ["a", true, 2],
    ]);
  });

  it("say that a gateway has gone to those who knew it, for some time", () => {
    const changes = new FleetChanges();
    changes.update(new Map([["a", state(1)]]));
    const seen = changes.newest;
    changes.update(new Map());
    expect(told(changes, seen)).toEqual([["a", false, 0]]);
    expect(told(changes, 0, changes.newest)).toEqual([]);
    for (let i = 0; i < 201; i++) changes.update(new Map());
    expect(told(changes, seen)).toEqual([]);
    changes.update(new Map([["a", state(1)]]));
    expect(told(changes, seen)).toEqual([["a", true, 1]]);
  });
});
