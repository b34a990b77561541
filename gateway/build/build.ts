// TypeScript to Lua: gateway/dist/sluice.lua for nginx (LuaJIT), and the Redis scripts (Lua 5.1) flat, with their SHA-1,
// in gateway/dist/sluice_redis_scripts.lua. Anything that the compiler says, a warning too, fails the build.

import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import ts from "typescript";
import * as tstl from "typescript-to-lua";
import { flatten } from "./flatten.ts";

const gateway = resolve(import.meta.dirname, "..");
const dist = join(gateway, "dist");

interface Emitted {
  readonly source: string;
  readonly lua: string;
}

function compile(project: string): Emitted[] {
  const configuration = tstl.parseConfigFileWithSystem(join(gateway, project));
  failOn(configuration.errors);
  const program = ts.createProgram(configuration.fileNames, configuration.options);
  failOn(ts.getPreEmitDiagnostics(program));
  const emitted: Emitted[] = [];
  const { diagnostics } = new tstl.Transpiler().emit({
    program,
    writeFile: (fileName, text) => emitted.push({ source: fileName, lua: text }),
  });
  failOn(diagnostics);
  return emitted;
}

function failOn(diagnostics: readonly ts.Diagnostic[]): void {
  if (diagnostics.length === 0) return;
  const host: ts.FormatDiagnosticsHost = {
    getCurrentDirectory: () => process.cwd(),
    getCanonicalFileName: (name) => name,
    getNewLine: () => "\n",
  };
  process.stderr.write(ts.formatDiagnosticsWithColorAndContext(diagnostics, host));
  process.exit(1);
}

/** The modules that a script is made of, every module behind those it imports. */
function inImportOrder(program: Emitted[], entry: string): string[] {
  const luaOf = (module: string) => {
    const found = program.find(({ source }) => source.endsWith(`${module.replaceAll(".", "/")}.lua`));
    if (!found) throw new Error(`no Lua was emitted for ${module}`);
    return found.lua;
  };
  const ordered = new Map<string, string>();
  const visit = (module: string) => {
    if (ordered.has(module)) return;
    const lua = luaOf(module);
    for (const [, imported] of lua.matchAll(/require\("([^"]+)"\)/g)) visit(imported as string);
    ordered.set(module, lua);
  };
  visit(entry);
  return [...ordered.values()];
}

const files = new Map<string, string>();
for (const { source, lua } of compile("tsconfig.json")) files.set(basename(source), lua);

const script = flatten(
  inImportOrder(compile("tsconfig.redis-scripts.json"), "gateway.src.redis-scripts.charge"),
  "chargeCounters",
);
const sha1 = createHash("sha1").update(script).digest("hex");
files.set("sluice_redis_scripts.lua", `return {\n  charge = { sha1 = "${sha1}", source = [==[\n${script}]==] },\n}\n`);

// Each file is replaced in one step: an nginx that is starting meanwhile reads the old one or the new one.
mkdirSync(dist, { recursive: true });
for (const [name, lua] of files) {
  writeFileSync(join(dist, `${name}.${process.pid}`), lua);
  renameSync(join(dist, `${name}.${process.pid}`), join(dist, name));
}
