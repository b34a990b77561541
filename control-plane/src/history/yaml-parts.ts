// Writes a document as YAML in parts, because the library takes some ten milliseconds for a long one.

import { stringify } from "yaml";

/** Of JSON: what the library writes within a millisecond or two. */
const mostCharacters = 2_000;

/** @param value as JSON has it @returns lists of lines, which together are the same YAML, but for where a long text is folded */
export function* yamlParts(value: unknown): Generator<readonly string[]> {
  if (sizeOf(value) <= mostCharacters || typeof value !== "object" || value === null) {
    yield linesOf(value);
    return;
  }
  const isList = Array.isArray(value);
  /** Small ones, which the library writes together. */
  let some: [string, unknown][] = [];
  let characters = 0;
  const take = () => {
    const lines = some.length === 0 ? [] : linesOf(isList ? some.map(([, item]) => item) : Object.fromEntries(some));
    some = [];
    characters = 0;
    return lines;
  };
  for (const [name, item] of Object.entries(value)) {
    const size = sizeOf(item);
    if (characters + size > mostCharacters) yield take();
    const head = isList ? [] : linesOf({ [name]: [0] }).slice(0, -1);
    // A name may take several lines.
    if (size <= mostCharacters || typeof item !== "object" || head.length > 1) {
      some.push([name, item]);
      characters += size;
      continue;
    }
    yield take();
    yield head;
    let isFirst = isList;
    for (const lines of yamlParts(item)) {
      yield lines.map((line) => {
        const before = isFirst ? "- " : line === "" ? "" : "  ";
        isFirst = false;
        return before + line;
      });
    }
  }
  yield take();
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}

function linesOf(value: unknown): string[] {
  return stringify(value, { aliasDuplicateObjects: false }).replace(/\n$/, "").split("\n");
}
