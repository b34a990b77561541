// Finds a key that comes twice in one object of a JSON text; JSON.parse would keep the last without a word.

/** @param json a text that JSON.parse accepts. @returns the first repeated key, or undefined */
export function repeatedKey(json: string): string | undefined {
  // For each open bracket: the keys so far of an object, undefined for an array.
  const open: (Set<string> | undefined)[] = [];
  let keyComes = false;
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case "{":
        open.push(new Set());
        keyComes = true;
        break;
      case "[":
        open.push(undefined);
        keyComes = false;
        break;
      case "}":
      case "]":
        open.pop();
        keyComes = false;
        break;
      case ",":
        keyComes = open.at(-1) !== undefined;
        break;
      case '"': {
        const end = endOfString(json, i);
        if (keyComes) {
          const key = JSON.parse(json.slice(i, end + 1)) as string;
          const keys = open.at(-1);
          if (keys?.has(key) === true) return key;
          keys?.add(key);
          keyComes = false;
        }
        i = end;
        break;
      }
    }
  }
  return undefined;
}

function endOfString(json: string, start: number): number {
  let i = start + 1;
  while (i < json.length && json[i] !== '"') i += json[i] === "\\" ? 2 : 1;
  return i;
}
