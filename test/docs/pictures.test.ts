// The pictures show what the code does: this test draws them again from the current limiter.

import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { pictures } from "../../docs/pictures/draw.ts";
import { mostInAWindow, outcomeOf } from "../../docs/pictures/trace.ts";

const directory = resolve(import.meta.dirname, "../../docs/pictures");
const drawn = pictures();

it("are those that the code draws, and no other", () => {
  expect(globSync("*.svg", { cwd: directory }).sort()).toEqual([...drawn.keys()].sort());
});

it.each([...drawn.keys()])("%s is what `npm run pictures` draws", (name) => {
  expect(readFileSync(resolve(directory, name), "utf8")).toBe(drawn.get(name));
});

it.each([...drawn])("%s has a title and a description, and loads nothing from elsewhere", (_, svg) => {
  expect(svg).toMatch(/<title id="title">.+<\/title>\n {2}<desc id="description">.+<\/desc>/);
  expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(/https?:|url\(|@import|@font-face|href/);
});

it("one trace shows the differences between the algorithms", () => {
  const most = (algorithm: Parameters<typeof outcomeOf>[0]) => mostInAWindow(outcomeOf(algorithm)).count;
  expect(most("fixed-window")).toBe(20);
  expect(most("sliding-window")).toBe(10);
  expect(most("sliding-log")).toBe(10);
  expect(most("token-bucket")).toBe(19);
  expect(most("leaky-bucket")).toBe(10);
  expect(Math.max(...outcomeOf("concurrency").levels)).toBe(10);
});
