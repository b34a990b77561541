// Describes a wrong value in an error.

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
