// Kinds of Lua tables that a literal cannot make.

/**
 * A table whose values must not refer to their keys: the collector removes an entry together with its key.
 *
 * Compiled policies, limits and schedules never change. Parts of the gateway keep their state beside them in such tables, so that
 * nothing is left of policies that are gone.
 */
export function weakTable<Key extends object, Value>(): LuaTable<Key, Value | undefined> {
  return setmetatable(new LuaTable<Key, Value | undefined>(), { __mode: "k" });
}

/** A table whose entries the collector removes when nothing else refers to their values. */
export function weakValues<Value extends object>(): LuaTable<string, Value | undefined> {
  return setmetatable(new LuaTable<string, Value | undefined>(), { __mode: "v" });
}

const newTable = require("table.new") as (this: void, listSize: number, recordSize: number) => object;

/** An empty list with room for so many elements. A list without room is copied for its first, second, third and fifth element. */
export function listWithRoom<Element>(size: number): Element[] {
  return newTable(size, 0) as Element[];
}
