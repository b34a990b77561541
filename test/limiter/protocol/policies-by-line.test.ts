import { expect, it } from "vitest";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { addLine, noLines, policyOfLine } from "../../../limiter/src/protocol/policies-by-line.ts";

const count = 5000;

it("finds the policy of every line in any order, and of no other line", () => {
  const lines = noLines();
  const made = Array.from({ length: count }, (_, i) => ({ app: `app${i}` }) as CompiledPolicy);
  made.forEach((policy, i) => {
    addLine(lines, `line ${i}`, policy);
  });
  const forwards = made.map((_, i) => policyOfLine(lines, `line ${i}`));
  expect(forwards).toEqual(made);
  const strides = made.map((_, i) => policyOfLine(lines, `line ${(i * 1999) % count}`)?.app);
  expect(strides).toEqual(made.map((_, i) => `app${(i * 1999) % count}`));
  expect(policyOfLine(lines, `line ${count}`)).toBeUndefined();
  expect(policyOfLine(noLines(), "line 0")).toBeUndefined();
});

it("keeps no table larger than one that grows in a fraction of a millisecond", () => {
  const lines = noLines();
  for (let i = 0; i < count; i++) addLine(lines, `line ${i}`, {} as CompiledPolicy);
  expect(lines.parts.map((part) => Object.keys(part).length)).toEqual([1024, 1024, 1024, 1024, 904]);
});
