// Finds what is wrong with the keys of a JSON text's objects: of a key that comes twice, JSON.parse would keep the last
// without a word, and an object of ten thousand keys takes as long to look at as a hundred policies.

import { maxFields, tooManyFields } from "./bounds.ts";

/** @param json a text that JSON.parse accepts. @returns the first fault, as a clause, or undefined */
export function faultOfKeys(json: string): string | undefined {
  // For each open bracket: the keys so far of an object, once there is one.
  const open: (Set<string> | undefined)[] = [];
  const isObject: boolean[] = [];
  let keyComes = false;
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case "{":
        open.push(undefined);
        isObject.push(true);
        keyComes = true;
        break;
      case "[":
        open.push(undefined);
        isObject.push(false);
        keyComes = false;
        break;
      case "}":
      case "]":
        open.pop();
        isObject.pop();
        keyComes = false;
        break;
      case ",":
        keyComes = isObject.at(-1) === true;
        break;
      case '"': {
        const end = endOfString(json, i);
        if (keyComes) {
          const key = textOf(json, i, end);
          const keys = open.at(-1) ?? new Set();
          if (keys.has(key)) return twice(key);
          if (keys.size === maxFields) return tooManyFields;
          open[open.length - 1] = keys.add(key);
          keyComes = false;
        }
        i = end;
        break;
      }
    }
  }
  return undefined;
}

export function twice(key: string): string {
  return `the key ${JSON.stringify(key.slice(0, 80))} comes twice in one object`;
}

/** What most keys say, they say without escapes. */
function textOf(json: string, start: number, end: number): string {
  const inner = json.slice(start + 1, end);
  return inner.includes("\\") ? (JSON.parse(json.slice(start, end + 1)) as string) : inner;
}

function endOfString(json: string, start: number): number {
  let i = start + 1;
  while (i < json.length && json[i] !== '"') i += json[i] === "\\" ? 2 : 1;
  return i;
}
