// Runs small TypeScript sources twice in Lua 5.1: as the compiler emits them, with all their functions, and flattened to one
// body. Both must give the same reply, after the same calls of Redis in the same order.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import ts from "typescript";
import * as tstl from "typescript-to-lua";
import { earlyBinding } from "../../gateway/build/early-binding.ts";
import { flattenScript, headerOf, type LuaModule } from "../../gateway/build/flatten.ts";

export interface Run {
  readonly script: string;
  /** The reply of the flattened script; the next field: the arguments of redis.call, as Lua source. */
  readonly reply: string;
  readonly calls: readonly string[];
}

const declarations = `
declare const redis: { call(this: void, ...values: unknown[]): any };
declare function tonumber(this: void, value: unknown): number | undefined;
`;

/** redis.call returns its last argument, except that INCR returns the number of calls so far. */
const runtime = `
local function show(value)
  if type(value) == "number" then return string.format("%.17g", value) end
  if type(value) ~= "table" then return type(value) == "string" and string.format("%q", value) or tostring(value) end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do keys[i] = (type(key) == "string" and key .. "=" or "") .. show(value[key]) end
  return "{" .. table.concat(keys, ",") .. "}"
end
local function run(script)
  local calls = {}
  local redis = { call = function(...)
    local shown = {}
    for i = 1, select("#", ...) do shown[i] = show((select(i, ...))) end
    calls[#calls + 1] = table.concat(shown, " ")
    if (...) == "INCR" then return #calls end
    return (select(select("#", ...), ...))
  end }
  setfenv(script, setmetatable({ redis = redis, KEYS = { "k1", "k2" }, ARGV = { "7", "12", "x" }, CONSTANTS }, { __index = _G }))
  local ok, reply = pcall(script)
  io.write(ok and show(reply) or "error", "\\n", #calls, "\\n")
  for _, call in ipairs(calls) do io.write(call, "\\n") end
end
`;

export type Sources = string | Readonly<Record<string, string>>;

const filesOf = (sources: Sources) => (typeof sources === "string" ? { "main.ts": sources } : sources);

const options: tstl.CompilerOptions = {
  luaTarget: tstl.LuaTarget.Lua51,
  luaLibImport: tstl.LuaLibImportKind.RequireMinimal,
  noImplicitSelf: true,
  noHeader: true,
  strict: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  skipLibCheck: true,
  rewriteRelativeImportExtensions: true,
  types: [resolve(import.meta.dirname, "../../node_modules/@typescript-to-lua/language-extensions")],
};

const folder = "/fixture/";
const libraries = new Map<string, ts.SourceFile | undefined>();

/** Sources are checked once: the compiler takes longer to check them than to emit Lua. */
const checked = new Set<Sources>();

function transpile(sources: Sources, more: tstl.CompilerOptions, plugins: tstl.Plugin[] = []): string[] {
  // The declarations are on the last lines, so that a leading comment stays the first.
  const texts = new Map(Object.entries(filesOf(sources)).map(([name, text]) => [folder + name, text + declarations]));
  const all = { ...options, ...more } as ts.CompilerOptions;
  const host = ts.createCompilerHost(all);
  const { getSourceFile } = host;
  host.fileExists = (name) => texts.has(name) || ts.sys.fileExists(name);
  const isFolder = (name: string) => [...texts.keys()].some((path) => path.startsWith(`${name.replace(/\/$/, "")}/`));
  host.directoryExists = (name) => isFolder(name) || ts.sys.directoryExists(name);
  host.readFile = (name) => texts.get(name) ?? ts.sys.readFile(name);
  host.getSourceFile = (name, version) => {
    const text = texts.get(name);
    if (text !== undefined) return ts.createSourceFile(name, text, version, true);
    if (!libraries.has(name)) libraries.set(name, getSourceFile(name, version));
    return libraries.get(name);
  };
  const program = ts.createProgram([...texts.keys()], all, host);
  const written: string[] = [];
  const emitHost = {
    ...ts.sys,
    fileExists: host.fileExists,
    readFile: host.readFile,
    getCurrentDirectory: () => folder,
    writeFile: () => undefined,
  };
  const { diagnostics } = new tstl.Transpiler({ emitHost }).emit({
    program,
    plugins,
    writeFile: (_name, text) => written.push(text),
  });
  const [error] = [...(checked.has(sources) ? [] : ts.getPreEmitDiagnostics(program)), ...diagnostics];
  checked.add(sources);
  if (error)
    throw new Error(`the fixture does not compile: ${ts.flattenDiagnosticMessageText(error.messageText, " ")}`);
  return written;
}

export function modulesOf(sources: Sources): LuaModule[] {
  const modules: LuaModule[] = [];
  const plugin: tstl.Plugin = {
    afterPrint: (_program, _options, _host, files) => {
      for (const { fileName, luaAst, sourceFiles } of files) {
        if (luaAst) modules.push({ path: fileName, file: luaAst, header: headerOf(sourceFiles?.[0]?.text ?? "") });
      }
    },
  };
  transpile(sources, {}, [plugin]);
  return modules;
}

export function flattened(sources: Sources, constants?: Record<string, string>, called = "script"): string {
  return flattenScript(modulesOf(sources), { path: `${folder}main.ts`, function: called }, constants);
}

/** @returns Lua that makes the module as the compiler emits it */
export function unflattened(sources: Sources): string {
  const entry = { luaBundle: "bundle.lua", luaBundleEntry: `${folder}main.ts`, outDir: folder, rootDir: folder };
  const [bundle] = transpile(sources, entry);
  if (bundle === undefined) throw new Error("the fixture was not bundled");
  return bundle;
}

export function runLua(lua: string, constants: Readonly<Record<string, string>> = {}): string[] {
  const globals = Object.entries(constants).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const program = runtime.replace("CONSTANTS", globals.join(", ")) + lua;
  const output = execFileSync("lua5.1", ["-"], { input: program, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  return output.trimEnd().split("\n");
}

/** @throws if the flattened script does anything else than the functions that it was made of */
export function run(sources: Sources, constants: Record<string, string> = {}): Run {
  const script = flattened(sources, constants);
  const quoted = (lua: string) => `[==[\n${lua}]==]`;
  const outcome = runLua(`run(assert(loadstring(${quoted(script)})))`, constants);
  const plain = `local load = assert(loadstring(${quoted(unflattened(sources))}))
    run(function() setfenv(load, getfenv(1)) return load().script(KEYS, ARGV) end)`;
  const expected = runLua(plain, constants);
  if (outcome.join("\n") !== expected.join("\n")) {
    throw new Error(`the script differs: ${outcome.join(" | ")}\nexpected: ${expected.join(" | ")}\n${script}`);
  }
  const [reply = "", , ...calls] = outcome;
  return { script, reply, calls };
}

/** Compiles a module as for nginx, with early binding and without; of several sources, their bundle. */
export function early(sources: Sources): { readonly early: string; readonly late: string } {
  const entry = { luaBundle: "bundle.lua", luaBundleEntry: `${folder}main.ts`, outDir: folder, rootDir: folder };
  const options = { luaTarget: tstl.LuaTarget.LuaJIT, ...(typeof sources === "string" ? {} : entry) };
  const compiled = (plugins: tstl.Plugin[]) => transpile(sources, options, plugins)[0] ?? "";
  return { early: compiled([earlyBinding]), late: compiled([]) };
}

/** @returns what `luajit` prints when the module's export `result` is called */
export function resultOf(module: string): string {
  const program = `${runtime}\nio.write(show((function(...) ${module} end)().result()))`;
  return execFileSync("luajit", ["-"], { input: program, encoding: "utf8" });
}
