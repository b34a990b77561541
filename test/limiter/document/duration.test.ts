import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatDuration, parseDuration } from "../../../limiter/src/document/duration.ts";
import { readVectors } from "../../parity/vectors.ts";

describe("a duration", () => {
  for (const { text, us } of readVectors("durations").valid) {
    test(`"${text}" is ${us} µs`, () => expect(parseDuration(text)).toBe(us));
  }
  for (const text of readVectors("durations").invalid) {
    test(`${JSON.stringify(text)} is none`, () => expect(parseDuration(text)).toBeUndefined());
  }

  test("is formatted in the largest unit that divides it", () => {
    const texts = [1, 999, 1_000, 1_001, 60_000, 90_000, 3_600_000, 5_400_000, 86_400_000, 172_800_000, 90_000_000];
    expect(texts.map((ms) => formatDuration(ms * 1_000))).toEqual([
      "1ms",
      "999ms",
      "1s",
      "1001ms",
      "1m",
      "90s",
      "1h",
      "90m",
      "1d",
      "2d",
      "25h",
    ]);
  });

  test("that was formatted is read as the same", () => {
    const durations = fc.integer({ min: 1, max: 366 * 86_400_000 }).map((ms) => ms * 1_000);
    fc.assert(
      fc.property(durations, (us) => {
        expect(parseDuration(formatDuration(us))).toBe(us);
      }),
    );
  });
});
