// limiter/src/algorithms/memory-ring.ts as Lua: counters in memory are Node's and the browser's, so the gateway is built
// without them.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LuaLibImportKind, LuaTarget, transpileString } from "typescript-to-lua";

const source = join(import.meta.dirname, "../../limiter/src/algorithms/memory-ring.ts");

export function compileMemoryRing(luaDir: string): void {
  // Its types are checked by `npm run lint`: alone it lacks what it imports, which bench/lua/bundle.lua provides.
  const { file } = transpileString(readFileSync(source, "utf8"), {
    luaTarget: LuaTarget.LuaJIT,
    luaLibImport: LuaLibImportKind.Inline,
    noImplicitSelf: true,
    noHeader: true,
  });
  if (file?.lua === undefined) throw new Error("memory-ring.ts: expected Lua");
  writeFileSync(join(luaDir, "memory_ring.lua"), file.lua);
}
