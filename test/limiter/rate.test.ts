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
    expect(shareOf(bucket, 1, 1)).toEqual(bucket);
    expect(shareOf(window, 1, 1)).toEqual(window);
  });

  test("is rounded down, so that all shares together are no more than the whole", () => {
    expect(shareOf(bucket, 3, 1)).toMatchObject({ quota: 2, windowUs: second, burst: 6 });
    expect(shareOf(window, 3, 1)).toMatchObject({ quota: 2, windowUs: second });
  });

  test("has room for one request, or it would refuse them all", () => {
    expect(shareOf(bucket, 100, 1)).toMatchObject({ quota: 1, burst: 1 });
    expect(shareOf(window, 100, 1)).toMatchObject({ quota: 1 });
    expect(shareOf(bucket, 100, 5)).toMatchObject({ quota: 1, burst: 5 });
    expect(shareOf(window, 100, 5)).toMatchObject({ quota: 5 });
    expect(shareOf(bucket, 3, 5)).toMatchObject({ quota: 2, burst: 6 });
  });
});
