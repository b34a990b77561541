import fc from "fast-check";
import { expect, test } from "vitest";
import { maxExact, multiplyDivide } from "../../../limiter/src/algorithms/wide-multiply.ts";

const upTo = (bits: number) =>
  fc.oneof(
    fc.integer({ min: 0, max: bits }).chain((digits) => fc.bigInt({ min: 0n, max: 2n ** BigInt(digits) - 1n })),
    fc.constantFrom(0n, 1n, 2n ** BigInt(bits) - 1n),
  );

test("multiplyDivide agrees with BigInt for all factors below 2^37 and 2^46 and divisors below 2^46", () => {
  const divisor = upTo(46).filter((value) => value > 0n);
  fc.assert(
    fc.property(upTo(37), upTo(46), divisor, (a, b, by) => {
      const quotient = (a * b) / by;
      fc.pre(quotient < BigInt(maxExact));
      expect(multiplyDivide(Number(a), Number(b), Number(by))).toEqual({
        quotient: Number(quotient),
        remainder: Number((a * b) % by),
      });
    }),
    { numRuns: 20_000 },
  );
});

test("multiplyDivide is exact on both sides of 2^53, where its method changes", () => {
  const nearBorder = fc.tuple(
    fc.bigInt({ min: 2n ** 20n, max: 2n ** 31n }),
    fc.bigInt({ min: -3n, max: 3n }),
    fc.bigInt({ min: 1n, max: 2n ** 31n }),
  );
  fc.assert(
    fc.property(nearBorder, ([a, off, by]) => {
      const b = 2n ** 53n / a + off;
      expect(multiplyDivide(Number(a), Number(b), Number(by))).toEqual({
        quotient: Number((a * b) / by),
        remainder: Number((a * b) % by),
      });
    }),
    { numRuns: 5_000 },
  );
});

test("2^31 units of a window of 366 days fit 2^31 times into it", () => {
  expect(multiplyDivide(2 ** 31, 31_622_400_000_000, 2 ** 31)).toEqual({ quotient: 31_622_400_000_000, remainder: 0 });
});

test("a quotient beyond 2^53 is as near as a number can be", () => {
  const { quotient } = multiplyDivide(2 ** 31 - 1, 31_622_400_000_000, 7);
  const exact = ((2n ** 31n - 1n) * 31_622_400_000_000n) / 7n;
  expect(Math.abs(quotient - Number(exact)) / Number(exact)).toBeLessThan(1e-15);
});
