// Finds faults of a JSON text that JSON.parse accepts: too deep nesting, too many parts, or a key twice in one object, of
// which JSON.parse silently keeps the last. Reads each character once, before the text is parsed.

import { maxDepth, maxFields, maxValues, tooDeep, tooManyFields, tooManyValues } from "./bounds.ts";

const quote = 34;
const comma = 44;
const openList = 91;
const backslash = 92;
const closeList = 93;
const openObject = 123;
const closeObject = 125;

/** @param text may be invalid JSON, which the parser reports @returns the first fault, as a clause, or undefined */
export function faultOfJson(text: string): string | undefined {
  let depth = 0;
  let values = 1;
  // Indexed by depth: whether the open value is an object, and the object's keys so far, as soon as there is one.
  const isObject: boolean[] = [false];
  const keysAt: (Set<string> | undefined)[] = [undefined];
  let keyComes = false;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case openObject:
      case openList:
        if (depth === maxDepth) return tooDeep;
        depth += 1;
        values += 1;
        keyComes = text.charCodeAt(i) === openObject;
        isObject[depth] = keyComes;
        keysAt[depth] = undefined;
        break;
      case closeObject:
      case closeList:
        if (depth > 0) depth -= 1;
        keyComes = false;
        break;
      case comma:
        values += 1;
        keyComes = isObject[depth] === true;
        break;
      case quote: {
        const end = endOfString(text, i);
        if (keyComes) {
          const key = textOf(text, i, end);
          const keys = keysAt[depth] ?? new Set();
          if (keys.has(key)) return twice(key);
          if (keys.size === maxFields) return tooManyFields;
          keysAt[depth] = keys.add(key);
          keyComes = false;
        }
        i = end;
        break;
      }
    }
    if (values > maxValues) return tooManyValues;
  }
  return undefined;
}

export function twice(key: string): string {
  return `the key ${JSON.stringify(key.slice(0, 80))} comes twice in one object`;
}

/** Most keys contain no escapes and need no parsing. */
function textOf(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end);
  if (!inner.includes("\\")) return inner;
  try {
    return JSON.parse(text.slice(start, end + 1)) as string;
  } catch {
    return inner;
  }
}

/** Returns the index of the quote that ends the string, or the text's length. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end >= 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

/** A quote is escaped if an odd number of backslashes precedes it. */
function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before -= 1;
  return (at - before) % 2 === 0;
}
