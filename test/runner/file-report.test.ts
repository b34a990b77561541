// The reporter in a real run of vitest.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { projectDir } from "../../launch/settings.ts";
import { type FileReport, type RunReport, readReport, reportVariable } from "./file-report.ts";

const files = {
  "passes.test.js": "test('adds', () => { expect(1 + 1).toBe(2); });",
  "fails.test.js": `
    describe("numbers", () => {
      test("adds", () => { expect(1 + 1).toBe(3); });
      test("waits", async () => { await new Promise(() => {}); }, 50);
      test("passes", () => {});
    });`,
  "throws-late.test.js": `
    test("passes, and leaves work behind", async () => {
      setTimeout(() => { throw new Error("too late"); });
      await new Promise((resolve) => setTimeout(resolve, 100));
    });`,
  "does-not-load.test.js": "throw new Error('no such thing');",
  "cannot-prepare.test.js": "beforeAll(() => { throw new Error('no server'); }); test('asks', () => {});",
};

const directory = mkdtempSync(join(tmpdir(), "sluice-file-report-"));
let report: RunReport;

function reportOf(file: keyof typeof files): FileReport | undefined {
  return report.files.find((one) => one.file === file);
}

beforeAll(async () => {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  writeFileSync(join(directory, "vitest.config.js"), "export default { test: { globals: true, name: 'samples' } };");
  const path = join(directory, "report.json");
  const options = ["run", `--root=${directory}`, `--reporter=${join(import.meta.dirname, "file-report.ts")}`];
  await new Promise((resolve) => {
    const env = { ...process.env, [reportVariable]: path };
    execFile(process.execPath, [join(projectDir, "node_modules/vitest/vitest.mjs"), ...options], { env }, resolve);
  });
  report = readReport(path);
});

afterAll(() => rmSync(directory, { recursive: true }));

test("a file that passes is reported with its project and its tests", () => {
  expect(reportOf("passes.test.js")).toMatchObject({ project: "samples", passed: 1, failures: [] });
});

test("each failed test is reported by its whole name and its error", () => {
  expect(reportOf("fails.test.js")).toMatchObject({
    passed: 1,
    failures: [
      { test: "numbers > adds", error: expect.stringContaining("expected 2 to be 3") },
      { test: "numbers > waits", error: expect.stringContaining("timed out in 50ms") },
    ],
  });
});

test("an error that nobody caught belongs to the file that caused it", () => {
  expect(reportOf("throws-late.test.js")?.failures).toMatchObject([{ error: expect.stringContaining("too late") }]);
  expect(report.errors).toEqual([]);
});

test("a file that does not load, or whose preparation fails, is reported as failed", () => {
  expect(reportOf("does-not-load.test.js")?.failures).toMatchObject([
    { error: expect.stringContaining("no such thing") },
  ]);
  expect(reportOf("cannot-prepare.test.js")?.failures).toMatchObject([{ error: expect.stringContaining("no server") }]);
});
