import { expect, it } from "vitest";
import { keep, newMemo } from "../../gateway/src/runtime/memo.ts";

it("keeps what is in use, and no more than so many however many names policies have had", () => {
  const memo = newMemo<string>(100);
  for (let i = 0; i < 10_000; i++) {
    const name = `policy-${i}`;
    expect(memo.kept[name] ?? keep(memo, name, name.toUpperCase())).toBe(name.toUpperCase());
    expect(memo.kept[name]).toBe(name.toUpperCase());
    expect(Object.keys(memo.kept).length).toBeLessThanOrEqual(100);
  }
});
