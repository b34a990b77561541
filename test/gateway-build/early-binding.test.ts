// A module bound early does the same as before, and LuaJIT sees what its functions call. Every source here runs both ways.

import { describe, expect, test } from "vitest";
import { early, resultOf, type Sources } from "./fixture.ts";

/** @returns the module bound early, once both ways have given the same result */
function bound(sources: Sources): string {
  const modules = early(sources);
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

  test("stays declared ahead if two functions call each other", () => {
    const module = bound(`
      export function result(): unknown { return [even(10), even(7)]; }
      function even(n: number): boolean { return n === 0 || odd(n - 1); }
      function odd(n: number): boolean { return n !== 0 && even(n - 1); }
    `);
    expect(module).toMatch(/^local (even|odd)$/m);
  });

  test("may be called while the module is loaded", () => {
    const module = bound(`
      export function result(): unknown { return made; }
      const base = 3;
      const made = make(base);
      function make(n: number): number { return n + step(); }
      function step(): number { return 4; }
    `);
    expect(resultOf(module)).toBe("7");
  });

  test("reads a list of others' elements and more when all of them are in it", () => {
    const module = bound({
      "main.ts": `
        export function result(): unknown { return all; }
        const some = ["a", "b"];
        const all = [...some, "c", ...some, "d"];
      `,
    });
    expect(resultOf(module)).toBe('{"a","b","c","a","b","d"}');
  });

  test("may share its name with a local elsewhere", () => {
    bound(`
      export function cost(n: number): number { return n * 2; }
      export function result(): unknown { const double = cost(4); { const cost = 1; return [double, cost]; } }
    `);
  });
});

test("a variable that changes stays a variable", () => {
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

test("an export that is computed is read by its local, and one that changes from where it is", () => {
  const module = bound(`
    export const names = ["a", "b"];
    export const first = names[0];
    export let count = 1;
    export function add(): void { count += names.length; }
    export function result(): unknown { add(); return [names, first, count]; }
  `);
  expect(module).toMatch(/local names = .*____exports\.names = names\n.*local first = names\[1\]/s);
  expect(module).not.toMatch(/local count/);
  expect(module).not.toMatch(/____exports\.(names|first)(?! =)/);
});

test("imports from two modules of one base name are what each of them exports", () => {
  bound({
    "main.ts": `
      import { one } from "./in/part.ts";
      import { two } from "./out/part.ts";
      export function result(): unknown { return [one(), two()]; }
    `,
    "in/part.ts": "export function one(): number { return 1; }",
    "out/part.ts": "export function two(): number { return 2; }",
  });
});

test("a library's functions are read once", () => {
  const module = bound("export function result(): unknown { return [Math.floor(2.5), Math.max(1, Math.floor(3.5))]; }");
  expect(module.match(/math\.\w+/g)).toEqual(["math.floor", "math.max"]);
});

test("a global function is read once, unless the module has one of that name", () => {
  const module = bound("export function result(): unknown { return [String(1), String(true)]; }");
  expect(module).toMatch(/^local tostring = tostring$/m);
  const own = bound(
    "export function result(): unknown { return type(2); } function type(n: number): number { return n; }",
  );
  expect(own).not.toContain("local type = type");
});

test("a text is joined in one expression", () => {
  const module = bound(`
    export function result(): unknown { return text("a", 2, ["c"]); }
    function text(a: string, b: number, c: string[]): string { return \`\${a}=\${b};\` + (a + c[0]) + (b + 1); }
  `);
  expect(module).toContain('return a .. "=" .. tostring(b) .. ";" .. a .. c[1] .. tostring(b + 1)');
});

test("a comment stays with the code that it describes", () => {
  const module = bound(`
    /** The answer. */
    export function result(): unknown { return part(); }
    function part(): number { return 42; }
  `);
  expect(module).toMatch(/local function part.*The answer.*local function result/s);
});
