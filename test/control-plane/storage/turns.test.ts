// Who has the next turn to change the database.

import { describe, expect, it } from "vitest";
import { onBehalfOf, Turns } from "../../../control-plane/src/storage/engines/turns.ts";

function world() {
  const turns = new Turns();
  const order: string[] = [];
  /** @returns when the owner has had its turn */
  const change = (owner: string) =>
    onBehalfOf.run(owner, async () => {
      const release = await turns.take(performance.now() + 60_000);
      order.push(owner);
      await new Promise((resolve) => setImmediate(resolve));
      release?.();
    });
  return { turns, order, change };
}

describe("turns", () => {
  it("come in the order in which one owner asked for them", async () => {
    const { turns, change } = world();
    const numbers: number[] = [];
    await Promise.all([1, 2, 3].map((n) => change("one").then(() => numbers.push(n))));
    expect(numbers).toEqual([1, 2, 3]);
    expect(await turns.take(performance.now())).toBeTypeOf("function");
  });

  it("come to somebody who has had none before those who have, however many of theirs wait", async () => {
    const { order, change } = world();
    const flood = Array.from({ length: 50 }, () => change("flood"));
    await Promise.all([change("quiet"), change("other"), ...flood, change("quiet")]);
    expect(order.slice(0, 6)).toEqual(["flood", "quiet", "other", "flood", "quiet", "flood"]);
    expect(order).toHaveLength(53);
  });

  it("do not come to somebody who has waited for too long, and come to the others", async () => {
    const { turns, order, change } = world();
    const release = await turns.take(performance.now());
    const late = turns.take(performance.now() + 20);
    const next = change("next");
    expect(await late).toBeUndefined();
    release?.();
    release?.();
    await next;
    expect(order).toEqual(["next"]);
  });
});
