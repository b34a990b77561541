import { describe, expect, test } from "vitest";
import { capacity, rateOf, shareOf } from "../../limiter/src/algorithms/rate.ts";
import { second } from "./counter.ts";

const bucket = rateOf({ name: "a", algorithm: "token-bucket", quota: 7, windowUs: second, burst: 20 });
const window = rateOf({ name: "b", algorithm: "fixed-window", quota: 7, windowUs: second, burst: 7 });

describe("a limit's rate", () => {
  test("is of the algorithm that the limit names", () => {
    expect(bucket.algorithm).toBe("token-bucket");
    expect(window.algorithm).toBe("fixed-window");
  });

  test("can give at once: a bucket its burst, a window its quota", () => {
    expect(capacity(bucket)).toBe(20);
    expect(capacity(window)).toBe(7);
  });
});

describe("one node's share of a rate", () => {
  test("is the whole for one node", () => {
    expect(shareOf(bucket, 1)).toEqual(bucket);
    expect(shareOf(window, 1)).toEqual(window);
  });

  test("is rounded down, so that all shares together are no more than the whole", () => {
    expect(shareOf(bucket, 3)).toMatchObject({ quota: 2, windowUs: second, burst: 6 });
    expect(shareOf(window, 3)).toMatchObject({ quota: 2, windowUs: second });
  });

  test("is at least one unit", () => {
    expect(shareOf(bucket, 100)).toMatchObject({ quota: 1, burst: 1 });
    expect(shareOf(window, 100)).toMatchObject({ quota: 1 });
  });
});
