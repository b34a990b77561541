import { expect, test } from "vitest";
import type { FileReport } from "./file-report.ts";
import { outcomeOf } from "./outcome.ts";

const green = (file: string, passed = 2): FileReport => ({ project: "units", file, seconds: 1, passed, failures: [] });
const red = (file: string): FileReport => ({
  ...green(file, 1),
  failures: [{ test: "counts", error: "AssertionError: expected 1 to be 2" }],
});
const noOthers = [{ passed: 0, failed: 0 }];

function said(paragraphs: readonly string[], beginning: string): string | undefined {
  return paragraphs.find((text) => text.startsWith(beginning));
}

test("a run whose files all pass counts their tests and those of the other suites", () => {
  const { passed, failed, paragraphs } = outcomeOf(
    [{ files: [green("a"), green("b")], errors: [] }],
    [],
    [{ passed: 3, failed: 0 }],
  );
  expect([passed, failed]).toEqual([7, 0]);
  expect(said(paragraphs, "unstable")).toBeUndefined();
});

test("a file that passes when it runs again is told as unstable with its first error, and does not fail the run", () => {
  const { passed, failed, paragraphs } = outcomeOf(
    [{ files: [red("a"), green("b")], errors: [] }],
    [green("a")],
    noOthers,
  );
  expect([passed, failed]).toEqual([4, 0]);
  expect(said(paragraphs, "unstable")).toContain("a (units): counts: AssertionError: expected 1 to be 2");
  expect(said(paragraphs, "the failed tests")).toBeUndefined();
});

test("a file that fails again fails the run", () => {
  const { passed, failed, paragraphs } = outcomeOf(
    [{ files: [red("a"), green("b")], errors: [] }],
    [red("a")],
    noOthers,
  );
  expect([passed, failed]).toEqual([3, 1]);
  expect(said(paragraphs, "unstable")).toBeUndefined();
  expect(said(paragraphs, "the failed tests")).toContain("a (units)");
});

test("a file that did not run again fails the run", () => {
  expect(outcomeOf([{ files: [red("a")], errors: [] }], [], noOthers).failed).toBe(1);
});

test("a second chance in one project says nothing of the same file in another", () => {
  const elsewhere = { ...red("a"), project: "on mariadb" };
  expect(outcomeOf([{ files: [red("a"), elsewhere], errors: [] }], [green("a")], noOthers).failed).toBe(1);
});

test.each([
  { unstable: 3, failed: 0 },
  { unstable: 4, failed: 4 },
])("$unstable unstable files make $failed failures", ({ unstable, failed }) => {
  const names = Array.from({ length: unstable }, (_, i) => `f${i}`);
  const outcome = outcomeOf(
    [{ files: names.map(red), errors: [] }],
    names.map((name) => green(name)),
    noOthers,
  );
  expect(outcome.failed).toBe(failed);
});

test("errors outside of all files and other suites' failures fail the run", () => {
  const { failed, paragraphs } = outcomeOf(
    [{ files: [green("a")], errors: ["vitest ended"] }],
    [],
    [{ passed: 0, failed: 2 }],
  );
  expect(failed).toBe(3);
  expect(said(paragraphs, "the failed tests")).toContain("outside of all files: vitest ended");
});
