// The part of LuaJIT's ffi that is used here for packed memory.

interface Ffi {
  "new"(this: void, type: string, size: number): LuaTable<number, number>;
  copy(this: void, to: LuaTable<number, number>, from: string, bytes: number): void;
  fill(this: void, to: LuaTable<number, number>, bytes: number): void;
  string(this: void, from: LuaTable<number, number>, bytes: number): string;
}

export const ffi = require("ffi") as Ffi;
