// A table whose keys are chosen by strangers. A plain object would answer "constructor" and "__proto__" with what it inherits;
// this one inherits nothing. In Lua it is an ordinary empty table.

export function emptyTable<Value>(): Record<string, Value> {
  return { __proto__: null } as unknown as Record<string, Value>;
}
