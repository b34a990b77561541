// A module bound early does what it did, and LuaJIT sees what its functions call. Every source here runs both ways.

import { describe, expect, test } from "vitest";
import { early, resultOf, type Sources } from "./fixture.ts";

/** The module bound early, after both have given the same result. */
function bound(source: Sources): string {
  const modules = early(source);
  expect(resultOf(modules.early)).toBe(resultOf(modules.late));
  return modules.early;
}

describe("a function that is called before it is defined", () => {
  const callees = `
    export function result(): unknown { return [twice(3), seen.length]; }
    function twice(n: number): number { return 2 * once(n); }
    function once(n: number): number { seen.push(n); return n; }
    const seen: number[] = [];
  `;

  test("is declared before its callers, as a local of its own", () => {
    const module = bound(callees);
    expect(module).toMatch(/local function once.*local function twice.*local function result/s);
    expect(module).not.toMatch(/^local \w+(, \w+)*$/m);
  });

  test("finds the constants that it reads", () => {
    expect(resultOf(bound(callees))).toBe("{6,1}");
  });

  test("stays declared ahead where two call each other", () => {
    const module = bound(`
      export function result(): unknown { return [even(10), even(7)]; }
      function even(n: number): boolean { return n === 0 || odd(n - 1); }
      function odd(n: number): boolean { return n !== 0 && even(n - 1); }
    `);
    expect(module).toMatch(/^local (even|odd)$/m);
  });

  test("is called as the module is loaded", () => {
    const module = bound(`
      export function result(): unknown { return made; }
      const base = 3;
      const made = make(base);
      function make(n: number): number { return n + step(); }
      function step(): number { return 4; }
    `);
    expect(resultOf(module)).toBe("7");
  });

  test("may have the name of a local elsewhere", () => {
    bound(`
      export function cost(n: number): number { return n * 2; }
      export function result(): unknown { const double = cost(4); { const cost = 1; return [double, cost]; } }
    `);
  });
});

test("a variable that changes stays one", () => {
  const module = bound(`
    export function result(): unknown { add(2); add(3); return count; }
    function add(n: number): void { count += n; }
    let count = 1;
  `);
  expect(module).toMatch(/^local count$/m);
});

test("an export is called by its local", () => {
  const module = bound(`
    export const most = 5;
    export function least(n: number): number { return n < most ? n : most; }
    export function result(): unknown { return [least(3), least(9)]; }
  `);
  expect(module.match(/____exports\.\w+ = \w+/g)).toEqual([
    "____exports.most = most",
    "____exports.least = least",
    "____exports.result = result",
  ]);
  expect(module.replace(/____exports\.\w+ = /g, "")).not.toMatch(/____exports\./);
});

test("a library's functions are read once", () => {
  const module = bound("export function result(): unknown { return [Math.floor(2.5), Math.max(1, Math.floor(3.5))]; }");
  expect(module.match(/math\.\w+/g)).toEqual(["math.floor", "math.max"]);
});

test("a comment stays with what it says", () => {
  const module = bound(`
    /** The answer. */
    export function result(): unknown { return part(); }
    function part(): number { return 42; }
  `);
  expect(module).toMatch(/local function part.*The answer.*local function result/s);
});

test("modules of one file name, whose imports share a local, stay apart", () => {
  const module = bound({
    "main.ts": `
      import { one } from "./a/same.ts";
      import { two } from "./b/same.ts";
      export function result(): unknown { return [one(), two()]; }
    `,
    "a/same.ts": "export function one(): number { return 1; }",
    "b/same.ts": "export function two(): number { return 2; }",
  });
  expect(resultOf(module)).toBe("{1,2}");
});
