import { expect, it } from "vitest";
import { FairLine } from "../../../control-plane/src/bodies/fair-line.ts";

it("a full line of tokens with one item each gives one place away, and nobody else loses a turn", () => {
  const line = new FairLine<string>();
  for (let i = 0; i < 256; i++) line.add({ owner: "crowd", token: `${i}` }, `crowd ${i}`);
  const lost = line.add({ owner: "other", token: "o" }, "other");
  expect(lost).toMatch(/^crowd/);
  const taken: (string | undefined)[] = [];
  for (let i = 0; i < 256; i++) taken.push(line.take());
  expect(taken.indexOf("other")).toBe(1);
  expect(new Set(taken)).toEqual(
    new Set(["other", ...Array.from({ length: 256 }, (_, i) => `crowd ${i}`)].filter((one) => one !== lost)),
  );
  expect(line.take()).toBeUndefined();
});
