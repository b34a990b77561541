// The minutes of traffic that the chart shows.

import { expect, it } from "vitest";
import { columnsOf, newestOf, shownSeconds, withPoints } from "../../console/src/parts/traffic/traffic-window.ts";

const point = (second: number, admitted: number, refused = 0) => ({
  at: new Date(second * 1_000).toISOString(),
  admitted,
  refused,
  shadowRefused: 0,
  delayed: 0,
  degraded: 0,
});

it("a second without traffic is zero, and one that comes twice counts once, as it came last", () => {
  const window = withPoints(withPoints(new Map(), [point(1_000, 5), point(1_002, 7, 1)]), [point(1_002, 8, 2)]);
  const [seconds, admitted, refused] = columnsOf(window, 1_003) as [number[], number[], number[]];
  expect(seconds).toHaveLength(shownSeconds);
  expect(seconds.slice(-4)).toEqual([1_000, 1_001, 1_002, 1_003]);
  expect(admitted.slice(-4)).toEqual([5, 0, 8, 0]);
  expect(refused.slice(-4)).toEqual([0, 0, 2, 0]);
});

it("keeps no more than what is shown, so an hour takes the memory of five minutes", () => {
  let window: ReturnType<typeof withPoints> = new Map();
  for (let second = 0; second < 3_600; second++) window = withPoints(window, [point(second, 1)]);
  expect(window.size).toBe(shownSeconds);
  expect(Math.min(...window.keys())).toBe(3_600 - shownSeconds);
});

it("the figure of now is the higher of the two newest seconds, and zero once nothing is reported any more", () => {
  const window = withPoints(new Map(), [point(1_000, 9, 4), point(1_001, 5), point(1_002, 7, 1)]);
  expect(newestOf(window, 1_003)).toMatchObject({ admitted: 7, refused: 1 });
  expect(newestOf(window, 1_006)).toMatchObject({ admitted: 7 });
  expect(newestOf(window, 1_010)).toMatchObject({ admitted: 0, refused: 0 });
  expect(newestOf(new Map(), 1_010)).toMatchObject({ admitted: 0 });
});
