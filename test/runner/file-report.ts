// What one run of vitest says of its test files. A reporter writes it for the process that started vitest: vitest's own JSON names
// neither the project of a file nor the errors outside of tests.

import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

/** Where vitest is told to write its report. */
export const reportVariable = "TEST_REPORT_FILE";

export interface FileReport {
  /** A project of vitest.config.ts. */
  readonly project: string;
  /** Relative to the project's directory. */
  readonly file: string;
  readonly seconds: number;
  readonly passed: number;
  readonly failures: readonly Failure[];
}

export interface Failure {
  /** The whole name of the test, or undefined if the file failed outside of its tests. */
  readonly test: string | undefined;
  readonly error: string;
}

export interface RunReport {
  readonly files: readonly FileReport[];
  /** Errors that belong to no file. */
  readonly errors: readonly string[];
}

export default class ReportOfFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const path = process.env[reportVariable];
    if (path === undefined) throw new Error(`expected the path of the report in ${reportVariable}`);
    const strays = unhandled.map((error) => ({
      file: error["VITEST_TEST_PATH"] as string | undefined,
      text: textOf(error),
    }));
    const files = modules.map((module) => {
      const own = strays.filter(({ file }) => file === module.moduleId);
      return reportOf(
        module,
        own.map(({ text }) => text),
      );
    });
    const known = new Set(modules.map(({ moduleId }) => moduleId));
    const errors = strays.filter(({ file }) => file === undefined || !known.has(file)).map(({ text }) => text);
    writeFileSync(path, JSON.stringify({ files, errors } satisfies RunReport));
  }
}

/** @throws if vitest wrote none, because it could not start or was killed */
export function readReport(path: string): RunReport {
  return JSON.parse(readFileSync(path, "utf8"));
}

function reportOf(module: TestModule, strays: readonly string[]): FileReport {
  const failures: Failure[] = [...module.errors().map(textOf), ...strays].map((error) => ({ test: undefined, error }));
  let passed = 0;
  for (const test of module.children.allTests()) {
    const { state, errors } = test.result();
    if (state === "passed") passed += 1;
    if (state === "failed") failures.push({ test: test.fullName, error: errors.map(textOf).join("; ") });
  }
  for (const suite of module.children.allSuites()) {
    for (const error of suite.errors()) failures.push({ test: suite.fullName, error: textOf(error) });
  }
  const { project, moduleId } = module;
  const seconds = module.diagnostic().duration / 1000;
  return { project: project.name, file: relative(project.config.root, moduleId), seconds, passed, failures };
}

function textOf({ stack, name, message }: SerializedError): string {
  return stack?.includes(message) === true ? stack : `${name}: ${message}`;
}
