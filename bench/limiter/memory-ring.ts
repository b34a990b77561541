// Compiles limiter/src/algorithms/memory-ring.ts to Lua: only Node and the browser have counters in memory, so the gateway is
// built without them.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LuaLibImportKind, LuaTarget, transpileString } from "typescript-to-lua";

const source = join(import.meta.dirname, "../../limiter/src/algorithms/memory-ring.ts");

export function compileMemoryRing(luaDir: string): void {
  // `npm run lint` checks its types: alone it lacks its imports, which bench/lua/bundle.lua provides.
  const { file } = transpileString(readFileSync(source, "utf8"), {
    luaTarget: LuaTarget.LuaJIT,
    luaLibImport: LuaLibImportKind.Inline,
    noImplicitSelf: true,
    noHeader: true,
  });
  if (file?.lua === undefined) throw new Error("memory-ring.ts: expected Lua");
  writeFileSync(join(luaDir, "memory_ring.lua"), file.lua);
}
