// How deep a JSON text nests, before anything that recurses gets to see it.

const quote = 34;
const backslash = 92;

/** @param text need not be JSON: what lies between its brackets is for the parser to refuse */
export function nestsDeeper(text: string, most: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === backslash) i += 1;
      else if (code === quote) inString = false;
    } else if (code === quote) {
      inString = true;
    } else if (code === 91 || code === 123) {
      depth += 1;
      if (depth > most) return true;
    } else if (code === 93 || code === 125) {
      depth -= 1;
    }
  }
  return false;
}
