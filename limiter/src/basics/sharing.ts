// Ten thousand policies say the same in most places. Values that are equal and never change are kept once, so that requests of
// different policies use the same memory, and what is made of a value is not made for each request.

import { emptyTable } from "./table.ts";

/** The table is emptied when there are more, so that values of policies that are gone are not kept for ever. */
const mostKnown = 1000;

export interface Sharing<Value> {
  known: Record<string, Value | undefined>;
  count: number;
}

export function sharing<Value>(): Sharing<Value> {
  return { known: emptyTable<Value | undefined>(), count: 0 };
}

/**
 * Returns the first value that was made for this name. Code that runs often looks into `known` first: LuaJIT compiles no code that makes
 * the closure.
 *
 * @param name the same only for equal values
 */
export function shared<Value>(among: Sharing<Value>, name: string | number, make: () => Value): Value {
  let value = among.known[name];
  if (value !== undefined) return value;
  value = make();
  if (among.count >= mostKnown) {
    among.known = emptyTable();
    among.count = 0;
  }
  among.known[name] = value;
  among.count += 1;
  return value;
}

/** Returns a text that is the same only for equal values. @param value a text, a number, a boolean, undefined, or a list or record of such */
export function textOfValue(value: unknown): string {
  if (typeof value === "string") return `${value.length}:${value}`;
  if (typeof value !== "object" || value === null) return `${value}`;
  let text = "";
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) text += `${textOfValue(item)},`;
    return `[${text}]`;
  }
  const record = value as Readonly<Record<string, unknown>>;
  const names: string[] = [];
  for (const name in record) names.push(name);
  for (const name of names.sort()) {
    if (record[name] !== undefined) text += `${name}=${textOfValue(record[name])},`;
  }
  return `{${text}}`;
}

const lists = sharing<readonly string[]>();

/** Returns the first list of these texts. It must not change. */
export function sharedList(texts: readonly string[]): readonly string[] {
  let name = "";
  for (const text of texts) name += `${text.length}:${text}`;
  return lists.known[name] ?? shared(lists, name, () => texts);
}
