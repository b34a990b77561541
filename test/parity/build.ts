// Builds from a tree of sources what the runtimes play: the gateway's Lua, the traces in Lua, and the bundle for the browser.
// The tree is the project, or a copy of it in which one line is deliberately broken.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import * as tstl from "typescript-to-lua";
import { build as bundle, type Rollup } from "vite";
import type { Break } from "./breaks.ts";
import type { RuntimeName } from "./runtimes.ts";

export const project = resolve(import.meta.dirname, "../..");

export interface Build {
  /** The directory in which the Lua runs; it has `gateway/dist` and `test`. */
  readonly root: string;
  /** The traces in Lua, one module per file. */
  readonly luaDir: string;
  readonly trace: string;
  /** Empty if no browser plays. */
  readonly browserScript: string;
  remove(): void;
}

/** @param broken the break to make first; undefined: none, and `gateway/dist` is used as it is */
export async function build(broken: Break | undefined, runtimes: readonly RuntimeName[]): Promise<Build> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-parity-"));
  const root = broken === undefined ? project : brokenCopy(directory, broken, runtimes);
  const luaDir = join(directory, "lua");
  mkdirSync(luaDir);
  const lua = tracesInLua(root);
  for (const [name, text] of lua) writeFileSync(join(luaDir, `${name}.lua`), text);
  return {
    root,
    luaDir,
    trace: lua.get("trace") as string,
    browserScript: runtimes.includes("browser") ? await browserBundle(root) : "",
    remove: () => rmSync(directory, { recursive: true }),
  };
}

/** Copies the sources with a break, and builds the gateway there. @returns where */
export function brokenCopy(
  directory: string,
  { file, line, becomes }: Pick<Break, "file" | "line" | "becomes">,
  runtimes: readonly RuntimeName[],
): string {
  const root = join(directory, "broken");
  mkdirSync(root);
  const tests = ["test/parity", "test/oracle", "test/gateway", "test/fixtures/openresty"];
  for (const part of ["limiter", "gateway", ...tests, "tsconfig.base.json", "package.json"]) {
    cpSync(join(project, part), join(root, part), {
      recursive: true,
      filter: (source) => !/\/(node_modules|dist)$/.test(source),
    });
  }
  symlinkSync(join(project, "node_modules"), join(root, "node_modules"));
  const path = join(root, file);
  const parts = readFileSync(path, "utf8").split(line);
  if (parts.length !== 2) throw new Error(`${file}: expected one line with "${line}", got ${parts.length - 1}`);
  writeFileSync(path, parts.join(becomes));
  const command = [join(root, "gateway/build/build.ts")];
  if (!runtimes.includes("redis") && !runtimes.includes("lua5.1")) command.push("--without-redis-scripts");
  execFileSync(process.execPath, command, { cwd: root, stdio: "pipe" });
  return root;
}

/** Compiles the traces like the gateway's own modules, so that they name each other in the same way. */
function tracesInLua(root: string): Map<string, string> {
  const emitted = new Map<string, string>();
  const modules = ["test/parity/trace", "test/parity/memory-player", "limiter/src/algorithms/memory-ring"];
  const { diagnostics } = tstl.transpileFiles(
    modules.map((module) => join(root, `${module}.ts`)),
    {
      rootDir: root,
      outDir: "/",
      strict: true,
      skipLibCheck: true,
      rewriteRelativeImportExtensions: true,
      types: ["@typescript-to-lua/language-extensions"],
      typeRoots: [join(project, "node_modules")],
      luaTarget: tstl.LuaTarget.Lua51,
      luaLibImport: tstl.LuaLibImportKind.Inline,
      noImplicitSelf: true,
      noHeader: true,
    },
    (fileName, text) => {
      const module = modules.find((name) => fileName.endsWith(`/${name}.lua`));
      if (module !== undefined) emitted.set(module.slice(module.lastIndexOf("/") + 1), text);
    },
  );
  const [fault] = diagnostics;
  if (fault !== undefined) throw new Error(`${fault.file?.fileName}: ${JSON.stringify(fault.messageText)}`);
  return emitted;
}

async function browserBundle(root: string): Promise<string> {
  const output = (await bundle({
    configFile: false,
    logLevel: "error",
    root,
    build: { write: false, lib: { entry: join(root, "test/parity/browser.ts"), formats: ["iife"], name: "parity" } },
  })) as Rollup.RollupOutput[];
  const [chunk] = output.flatMap((one) => one.output);
  if (chunk?.type !== "chunk") throw new Error("vite made no script of test/parity/browser.ts");
  return chunk.code;
}
