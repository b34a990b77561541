// Plays two thousand requests of npm run spellings: with seeds that are always the same, and with seeds of the day, which are printed.

import { beforeAll, expect, it } from "vitest";
import { inWords } from "./compare.ts";
import { compareWithServers, type Result } from "./trial.ts";

const always = 2026;
const ofTheDay = Number(new Date().toISOString().slice(0, 10).replaceAll("-", ""));
const seeds = [always, always + 1, ofTheDay, ofTheDay + 1];

let result: Result;
beforeAll(async () => {
  console.log(`spellings: seeds ${seeds.join(", ")}`);
  result = await compareWithServers({ seeds, signal: new AbortController().signal, say: console.log });
});

it("counts whatever a client writes under the value that a server reads, or answers 400", () => {
  expect(result.differences.map(inWords)).toEqual([]);
});

it("reads in LuaJIT what it reads in Node", () => {
  expect(result.ofRuntimes).toEqual([]);
});

it("has requests that each server reads, and that Sluice counts", () => {
  expect(Object.keys(result.read)).toHaveLength(28);
  for (const [server, read] of Object.entries(result.read)) expect([server, read > 100]).toEqual([server, true]);
  for (const { sent, counted } of Object.values(result.byKind)) expect(counted).toBeGreaterThan(sent / 50);
});
