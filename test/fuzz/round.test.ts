// Tests what npm run fuzz promises about its seeds, and that a round reports what it found.

import fc from "fast-check";
import { expect, it } from "vitest";
import { documentTexts } from "./document-texts.ts";
import { conversations } from "./gateway-messages.ts";
import { changed, changedBytes, changedText } from "./hostile.ts";
import { exchanges } from "./request-heads.ts";
import { playRound } from "./round.ts";
import { changedSnapshots } from "./snapshot-texts.ts";
import { Fault, type Fuzzer } from "./target.ts";

const drawn = <Input>(inputs: fc.Arbitrary<Input>, seed: number) =>
  JSON.stringify(fc.sample(inputs, { seed, numRuns: 30 }));

it.each([
  ["texts", documentTexts],
  ["conversations", conversations],
  ["heads", exchanges],
  ["snapshots", changedSnapshots],
] as [string, fc.Arbitrary<unknown>][])("draws the same %s for the same seed, and others for another", (_, inputs) => {
  expect(drawn(inputs, 7)).toBe(drawn(inputs, 7));
  expect(drawn(inputs, 8)).not.toBe(drawn(inputs, 7));
});

const finds = (isFault: (input: number[]) => boolean): Fuzzer<unknown> => ({
  inputs: fc.array(fc.nat(1000)),
  play: async (input) => {
    if (isFault(input as number[])) throw new Fault("more than 500");
  },
  show: (input) => JSON.stringify(input),
});

it("a round reports what it found, with the smallest input that shows it and the seed that plays it again", async () => {
  const fuzzer = finds((input) => input.some((one) => one > 500));
  const { finding } = await playRound("numbers", fuzzer, 7, 2_000);
  expect(finding).toEqual({ target: "numbers", seed: 7, what: "more than 500", input: "[501]" });
});

it("a round also reports a fault that does not come a second time", async () => {
  let times = 0;
  const fuzzer = finds((input) => {
    times += input.length > 0 ? 1 : 0;
    return times === 3;
  });
  expect((await playRound("numbers", fuzzer, 7, 200)).finding?.what).toBe("more than 500 (not at the second try)");
});

it("a round ends when the time is up, and reports how many inputs were played", async () => {
  const { inputs, finding } = await playRound(
    "numbers",
    finds(() => false),
    7,
    100,
  );
  expect([inputs > 0, finding]).toEqual([true, undefined]);
});

it("a round reports an input that is still under way when the time is up only if it is at fault", async () => {
  const slow = (isFault: boolean): Fuzzer<unknown> => ({
    ...finds(() => false),
    async play() {
      await new Promise((resolve) => setTimeout(resolve, 100));
      if (isFault) throw new Fault("late");
    },
  });
  expect((await playRound("numbers", slow(false), 7, 20)).finding).toBeUndefined();
  expect((await playRound("numbers", slow(true), 7, 20)).finding?.what).toBe("late");
});

it("a change affects one place of a tree, and can name a field like a prototype's", () => {
  const change = { how: "add", at: 0, name: "__proto__", value: 1 } as const;
  expect(JSON.stringify(changed({ a: [1, 2] }, change))).toBe('{"a":[1,2],"__proto__":1}');
  expect(changed({ a: [1, 2] }, { ...change, how: "replace", at: 2 })).toEqual({ a: [1, 2].with(0, 1) });
  expect(changed({ a: [1, 2] }, { ...change, how: "wrap", at: 1 })).toEqual({ a: [[1, 2]] });
});

it("a change of text can make JSON that no object could hold", () => {
  expect(changedText('{"a":2}', { how: "repeat a key", at: 0, depth: 1 })).toBe('{"a":1,"a":2}');
  expect(changedText('{"a":2}', { how: "nest", at: 0, depth: 3 })).toBe('{"a":[[[]]],"a":2}');
});

it("a change of bytes can insert, delete, cut and swap", () => {
  const change = { at: 1, length: 1, bytes: Buffer.from("-") };
  const texts = (["insert", "delete", "cut", "swap"] as const).map((how) =>
    changedBytes(Buffer.from("abc"), { ...change, how }).toString(),
  );
  expect(texts).toEqual(["a-bc", "ac", "a", "bac"]);
});
