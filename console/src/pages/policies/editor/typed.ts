// What somebody types into a field of the form, and the value that it stands for in the document.

import { useState } from "react";

/** Keeps what is typed while it stands for the document's value, so that "1 " or an empty line may be on its way to something. */
export function useTyped<Value>(
  value: Value,
  textOf: (value: Value) => string,
  read: (text: string) => Value,
  change: (value: Value) => void,
): [string, (text: string) => void] {
  const [typed, setTyped] = useState(() => textOf(value));
  const isSame = JSON.stringify(read(typed)) === JSON.stringify(value);
  const type = (text: string) => {
    setTyped(text);
    change(read(text));
  };
  return [isSame ? typed : textOf(value), type];
}

/** @returns the number, or the text itself if it is none, for the validator to refuse; undefined for nothing */
export function numberOf(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^-?\d+$/.test(trimmed) ? Number(trimmed) : trimmed;
}

/** @param text one item in each line @returns undefined if there is none */
export function linesOf(text: string): unknown {
  const lines = text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [quotedIn(line.trim()) ?? line.trim()]));
  return lines.length === 0 ? undefined : lines;
}

/** A text that no line can have is in quotation marks, as in JSON. */
function quotedIn(line: string): unknown {
  if (!/^".*"$/.test(line)) return undefined;
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

export function textOfLines(value: unknown): string {
  return Array.isArray(value) ? value.map(lineOf).join("\n") : textOfValue(value);
}

function lineOf(value: unknown): string {
  // A new override has empty values, which are to be filled in.
  if (typeof value !== "string" || value === "") return String(value);
  return JSON.stringify(linesOf(value)) === JSON.stringify([value]) ? value : JSON.stringify(value);
}

export function textOfValue(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** @returns the text, or undefined for nothing */
export function textOrNothing(text: string): unknown {
  return text === "" ? undefined : text;
}
