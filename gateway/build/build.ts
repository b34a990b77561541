// Compiles TypeScript to Lua, into gateway/dist. The gateway becomes sluice.lua for nginx (LuaJIT). Every Redis script becomes
// flat Lua 5.1: sluice_redis_scripts.lua has them all with their SHA-1, and sluice_redis_scripts.json has the same for the
// control plane. The script sluice-check runs sluice_check.lua. Any diagnostic of the compiler, even a warning, fails the build. README.md explains the passes.
// With --without-redis-scripts it makes only sluice.lua, in half the time: for tests that need no more.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import ts from "typescript";
import * as tstl from "typescript-to-lua";
import { algorithms } from "../../limiter/src/document/policy-shape.ts";
import { earlyBinding } from "./early-binding.ts";
import { flattenScript, headerOf, type LuaModule } from "./flatten.ts";

const gateway = resolve(import.meta.dirname, "..");
const dist = join(gateway, "dist");

/** A script for Redis: an exported function that is called with KEYS and ARGV, compiled for one choice of its constants. */
interface RedisScript {
  readonly name: string;
  readonly file: string;
  readonly function: string;
  readonly constants?: Readonly<Record<string, string>>;
}

const redisScripts: readonly RedisScript[] = [
  { name: "charge", file: "src/redis-scripts/charge.ts", function: "chargeCounters", constants: { LEASED: "no" } },
  {
    name: "charge_leased",
    file: "src/redis-scripts/charge.ts",
    function: "chargeCounters",
    constants: { LEASED: "yes" },
  },
  { name: "charge_up_to", file: "src/redis-scripts/charge-up-to.ts", function: "chargeCountersUpTo" },
  { name: "lease", file: "src/redis-scripts/lease.ts", function: "exchangeLease" },
  { name: "peek", file: "src/redis-scripts/peek.ts", function: "peekCounters" },
  { name: "refund", file: "src/redis-scripts/refund.ts", function: "refundCounters" },
  {
    name: "charge_deferred",
    file: "src/redis-scripts/charge-deferred.ts",
    function: "chargeDeferredCounters",
    constants: { LEASED: "no" },
  },
  {
    name: "charge_deferred_leased",
    file: "src/redis-scripts/charge-deferred.ts",
    function: "chargeDeferredCounters",
    constants: { LEASED: "yes" },
  },
  { name: "top_up", file: "src/redis-scripts/top-up.ts", function: "topUpCounters" },
  { name: "renew", file: "src/redis-scripts/renew.ts", function: "renewCounter" },
  { name: "note_hold", file: "src/redis-scripts/note-hold.ts", function: "noteHold" },
  { name: "renew_hold", file: "src/redis-scripts/renew-hold.ts", function: "renewHold" },
  { name: "release_hold", file: "src/redis-scripts/release-hold.ts", function: "releaseHold" },
  // A window of the calendar is written as a fixed-window, and a bucket with a slow start as a token-bucket. Both have an algorithm of their own.
  ...[...algorithms, "calendar-window", "shaped-bucket"].map((algorithm) => ({
    name: `charge_${algorithm.replaceAll("-", "_")}`,
    file: "src/redis-scripts/charge-batch.ts",
    function: "chargeBatch",
    constants: { ALGORITHM: algorithm },
  })),
];

interface Compiled {
  /** Lua text, keyed by the path that the compiler would write it to. */
  readonly emitted: Map<string, string>;
  readonly modules: LuaModule[];
}

function compile(project: string, plugins: readonly tstl.Plugin[] = []): Compiled {
  const configuration = tstl.parseConfigFileWithSystem(join(gateway, project));
  failOn(configuration.errors);
  const program = ts.createProgram(configuration.fileNames, configuration.options);
  failOn(ts.getPreEmitDiagnostics(program));
  const emitted = new Map<string, string>();
  const modules: LuaModule[] = [];
  const { diagnostics } = new tstl.Transpiler().emit({
    program,
    writeFile: (fileName, text) => emitted.set(fileName, text),
    plugins: [
      ...plugins,
      {
        afterPrint: (_program, _options, _host, files) => {
          for (const { fileName, luaAst, sourceFiles } of files) {
            if (luaAst) modules.push({ path: fileName, file: luaAst, header: headerOf(sourceFiles?.[0]?.text ?? "") });
          }
        },
      },
    ],
  });
  failOn(diagnostics);
  return { emitted, modules };
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

/** More than half of a deeply nested script would be blanks, which each worker and Redis keep. */
function withoutIndentation(lua: string): string {
  return lua.replace(/^ +/gm, "");
}

const files = new Map<string, string>();
for (const [path, text] of compile("tsconfig.json", [earlyBinding]).emitted) files.set(basename(path), text);

if (!process.argv.includes("--without-redis-scripts")) {
  for (const [path, text] of compile("tsconfig.check.json").emitted) files.set(basename(path), text);
  files.set("sluice-check", readFileSync(join(gateway, "src/check/sluice-check.sh"), "utf8"));
  const { modules } = compile("tsconfig.redis-scripts.json");
  const scripts = redisScripts.map(({ name, file, function: called, constants }) => {
    const source = withoutIndentation(
      flattenScript(modules, { path: join(gateway, file), function: called }, constants),
    );
    return { name, sha1: createHash("sha1").update(source).digest("hex"), source };
  });
  const luaEntries = scripts.map(
    ({ name, sha1, source }) => `  ${name} = { sha1 = "${sha1}", source = [==[\n${source}]==] },\n`,
  );
  files.set("sluice_redis_scripts.lua", `return {\n${luaEntries.join("")}}\n`);
  const jsonEntries = Object.fromEntries(scripts.map(({ name, sha1, source }) => [name, { sha1, source }]));
  files.set("sluice_redis_scripts.json", `${JSON.stringify(jsonEntries)}\n`);
}

// Each file is replaced in one step, so that an nginx that starts meanwhile reads either the old file or the new one.
mkdirSync(dist, { recursive: true });
for (const [name, lua] of files) {
  writeFileSync(join(dist, `${name}.${process.pid}`), lua, { mode: name === "sluice-check" ? 0o755 : 0o644 });
  renameSync(join(dist, `${name}.${process.pid}`), join(dist, name));
}
