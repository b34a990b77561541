// Compiled policies, limits and schedules never change. Parts of the gateway keep their state beside them, in weak tables: the
// collector removes an entry together with its key, so that nothing is left of policies that are gone.

/** A table whose values must not refer to their keys. */
export function weakTable<Key extends object, Value>(): LuaTable<Key, Value | undefined> {
  return setmetatable(new LuaTable<Key, Value | undefined>(), { __mode: "k" });
}
