// Builds one bundle of the gateway that has every mutant in it. Stryker's instrumenter puts each mutant beside the original, behind a test of
// its number: `sluiceMutant == 17 and … or …`. So one build does for thousands of mutants.

import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import ts from "typescript";
import * as tstl from "typescript-to-lua";
import { projectDir } from "../../../launch/settings.ts";
import { SetupError } from "../../../launch/step.mjs";
import type { Mutant } from "../scores.ts";

/** What a mutant is besides what its tests say of it. */
export type Place = Pick<Mutant, "mutatorName" | "location"> & {
  /** From 1; the bundle knows it by this. */
  readonly number: number;
  readonly file: string;
  readonly replacement: string;
};

interface MutatedBundle {
  readonly path: string;
  readonly mutants: readonly Place[];
}

/** What we use of @stryker-mutator/instrumenter, which only test/mutation/node_modules has. */
interface Instrumented {
  readonly files: readonly { readonly name: string; readonly content: string }[];
  readonly mutants: readonly {
    readonly id: string;
    readonly fileName: string;
    readonly mutatorName: string;
    readonly replacement: string;
    readonly status?: string;
    readonly location: Mutant["location"];
  }[];
}

interface SyntaxPath {
  readonly node: { readonly type: string; readonly value?: unknown; readonly quasis?: readonly Quasi[] };
  readonly parent: { readonly type: string; readonly callee?: { readonly name?: string } } | undefined;
}

interface Quasi {
  readonly value: { readonly raw: string };
}

const testsMutant = "stryMutAct_9fa48";
const countsReached = "stryCov_9fa48";
const header = `// @ts-nocheck
declare function ${testsMutant}(this: void, id: string): boolean;
declare function ${countsReached}(this: void, ...ids: string[]): void;
`;

/** TypeScriptToLua goes by types, which are lost where a mutant stands between a condition and what it makes sure. */
const typesLost: readonly (readonly [RegExp, string])[] = [
  [/\breply\.length\b/g, "(reply as string).length"],
  [/\breply\[0\]/g, "(reply as readonly number[])[0]"],
];

/** Texts for people: which words they have is no behaviour. */
const textsForPeople = {
  shouldIgnore({ node, parent }: SyntaxPath): string | undefined {
    const text = node.type === "TemplateLiteral" ? node.quasis?.map(({ value }) => value.raw).join("x") : node.value;
    if (typeof text !== "string" || (node.type !== "StringLiteral" && node.type !== "TemplateLiteral"))
      return undefined;
    if (/\w \w/.test(text) || parent?.callee?.name === "warnSparingly") return "a text for people";
    return undefined;
  },
};

/**
 * @param mutated the files with mutants, from the project's directory
 * @param directory where the bundle is written, and found again while nothing has changed
 */
export async function buildMutatedBundle(mutated: readonly string[], directory: string): Promise<MutatedBundle> {
  const path = join(directory, "mutated.lua");
  const known = join(directory, "mutated.json");
  const inputs = hashOf([
    "gateway/src/**/*.ts",
    "limiter/src/**/*.ts",
    "gateway/tsconfig.json",
    "test/mutation/gateway/mutated-bundle.ts",
  ]);
  const key = `${inputs} ${mutated.join(" ")}`;
  if (existsSync(known)) {
    const before = JSON.parse(readFileSync(known, "utf8")) as { key: string; mutants: Place[] };
    if (before.key === key) return { path, mutants: before.mutants };
  }
  const { files, mutants } = await instrument(mutated);
  const changed = new Map(files.map(({ name, content }) => [join(projectDir, name), header + withTypes(content)]));
  mkdirSync(directory, { recursive: true });
  writeFileSync(path, numbered(compile(changed)));
  const places = mutants.filter(({ status }) => status !== "Ignored").map(placeOf);
  writeFileSync(known, JSON.stringify({ key, mutants: places }));
  return { path, mutants: places };
}

function hashOf(patterns: readonly string[]): string {
  const hash = createHash("sha256");
  for (const file of patterns.flatMap((pattern) => globSync(pattern, { cwd: projectDir })).sort()) {
    hash.update(`${file}\n`).update(readFileSync(join(projectDir, file)));
  }
  return hash.digest("hex");
}

async function instrument(mutated: readonly string[]): Promise<Instrumented> {
  const place = join(projectDir, "test/mutation/node_modules/@stryker-mutator/instrumenter/dist/src/index.js");
  const { Instrumenter } = await import(place);
  const silent = { isDebugEnabled: () => false, debug() {}, info() {}, warn: console.warn };
  return new Instrumenter(silent).instrument(
    mutated.map((name) => ({ name, mutate: true, content: readFileSync(join(projectDir, name), "utf8") })),
    { plugins: null, excludedMutations: [], ignorers: [textsForPeople], noHeader: true },
  );
}

function withTypes(content: string): string {
  return typesLost.reduce((text, [lost, typed]) => text.replace(lost, typed), content);
}

/** As gateway/build does it, but without early binding: it moves declarations away from the mutants of their values. */
function compile(changed: ReadonlyMap<string, string>): string {
  const configuration = tstl.parseConfigFileWithSystem(join(projectDir, "gateway/tsconfig.json"));
  const host = ts.createCompilerHost(configuration.options);
  const readUnchanged = host.readFile.bind(host);
  host.readFile = (name) => changed.get(resolve(name)) ?? readUnchanged(name);
  const program = ts.createProgram(configuration.fileNames, configuration.options, host);
  const faults = ts.getPreEmitDiagnostics(program);
  let bundle: string | undefined;
  new tstl.Transpiler().emit({
    program,
    writeFile: (name, text) => {
      if (basename(name) === "sluice.lua") bundle = text;
    },
  });
  if (bundle === undefined || faults.length > 0) {
    throw new SetupError(
      `the mutants do not compile: ${ts.flattenDiagnosticMessageText(faults[0]?.messageText, "\n")}`,
    );
  }
  return bundle;
}

/** Makes the calls of Stryker's helper functions comparisons with a local of the bundle, which cost next to nothing. */
function numbered(bundle: string): string {
  const comparing = bundle.replaceAll(
    new RegExp(`${testsMutant}\\("(\\d+)"\\)`, "g"),
    (_, id) => `(sluiceMutant == ${Number(id) + 1})`,
  );
  const counting = comparing.replaceAll(
    new RegExp(`${countsReached}\\(([^)]*)\\)`, "g"),
    (_, ids: string) => `sluiceReached(${ids.replaceAll(/"(\d+)"/g, (__, id) => String(Number(id) + 1))})`,
  );
  return `local sluiceMutant, sluiceReached = sluiceMutant, sluiceReached\n${counting}`;
}

function placeOf({ id, fileName, mutatorName, replacement, location }: Instrumented["mutants"][number]): Place {
  const { start, end } = location;
  const from1 = ({ line, column }: Mutant["location"]["start"]) => ({ line: line + 1, column: column + 1 });
  return {
    number: Number(id) + 1,
    file: fileName,
    mutatorName,
    replacement,
    location: { start: from1(start), end: from1(end) },
  };
}
