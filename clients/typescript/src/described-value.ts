// What came in place of what was expected, as errors show it.

/** Returns a value as an error shows it, on one short line. */
export function described(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value === null)
    return typeof value === "string" ? cut(JSON.stringify(value)) : String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : "an object";
}

function cut(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
