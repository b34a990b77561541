// Runs the fuzzers of npm run fuzz for a few seconds: with one seed that is always the same, so that what it once found stays
// found, and with one of the day, which is printed.

import { beforeAll, expect, it } from "vitest";
import { fuzz, type Result, targets } from "./fuzz.ts";

const always = 2026;
const ofTheDay = Number(new Date().toISOString().slice(0, 10).replaceAll("-", ""));
const seconds = 8;
/** A finding is first made as small as possible, which takes time. */
const withinMs = 300_000;

let result: Result;
beforeAll(async () => {
  console.log(`fuzz: seeds ${always} and ${ofTheDay}`);
  const signal = new AbortController().signal;
  result = await fuzz({ seconds, seeds: [always, ofTheDay], only: [], signal, say: console.log });
}, withinMs);

it.each(targets.map(({ name }) => name))("finds nothing by %s", (name) => {
  expect(result.findings.filter(({ target }) => target === name)).toEqual([]);
  expect(result.played.find(({ target }) => target === name)?.inputs).toBeGreaterThan(0);
});

it("sees no 5xx and no stall of the control plane's event loop", () => {
  expect(result.facts.filter(({ ok }) => !ok)).toEqual([]);
});
