// What may stand at a place of a policy's YAML, as the limiter defines it field by field: names with their meaning, and values to choose from.

import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";

export interface Suggestion {
  readonly text: string;
  /** What it means, as the policy reference says it. */
  readonly meaning: string;
  readonly isField: boolean;
}

export interface Suggestions {
  /** Where in the text the word that is being typed begins. */
  readonly from: number;
  readonly suggestions: readonly Suggestion[];
}

const fieldBeingTyped = /^(\s*(?:- )*)([A-Za-z-]*)$/;
const valueBeingTyped = /^(\s*(?:- )*)([A-Za-z][\w-]*):\s+([\w-]*)$/;
const fieldAbove = /^(\s*(?:- )*)([A-Za-z][\w-]*):/;

/** @param at where the cursor is @returns nothing where the text is in flow style, which has no lines to go by */
export function suggestionsAt(text: string, at: number): Suggestions {
  const lineStart = text.lastIndexOf("\n", at - 1) + 1;
  const line = text.slice(lineStart, at);
  const above = text.slice(0, lineStart).split("\n").slice(0, -1);
  const value = valueBeingTyped.exec(line);
  if (value !== null) {
    const [, indent = "", name = "", typed = ""] = value;
    return { from: at - typed.length, suggestions: valuesOf(fieldOf(shapeAt(above, indent.length), name)) };
  }
  const field = fieldBeingTyped.exec(line);
  if (field === null) return { from: at, suggestions: [] };
  const [, indent = "", typed = ""] = field;
  const shape = shapeAt(above, indent.length);
  const isItem = indent.trimStart().startsWith("-");
  const suggestions = shape?.kind === "record" ? fieldsOf(shape) : isItem ? valuesOf(shape) : [];
  return { from: at - typed.length, suggestions };
}

/** @returns what holds the fields that are indented so far, beneath these lines */
function shapeAt(above: readonly string[], indent: number): Shape | undefined {
  const names: string[] = [];
  let outer = indent;
  for (let i = above.length - 1; i >= 0 && outer > 0; i--) {
    const [, before = "", name = ""] = fieldAbove.exec(above[i] ?? "") ?? [];
    if (name === "" || before.length >= outer) continue;
    names.unshift(name);
    // The field of a list's item is indented by the dash; the list itself may be as far left as its name.
    outer = before.length;
  }
  let shape: Shape | undefined = policyShape;
  for (const name of names) shape = innermost(fieldOf(shape, name));
  return shape;
}

function fieldOf(shape: Shape | undefined, name: string): Shape | undefined {
  if (shape?.kind === "map") return shape.of;
  return shape?.kind === "record" ? shape.fields[name]?.shape : undefined;
}

/** @returns of a list its items' shape; of what has several shapes the one with fields */
function innermost(shape: Shape | undefined): Shape | undefined {
  if (shape?.kind === "list") return innermost(shape.of);
  if (shape?.kind === "either") return shape.of.find(({ kind }) => kind === "record") ?? shape.of[0];
  return shape;
}

function fieldsOf({ fields }: Shape & { kind: "record" }): Suggestion[] {
  return Object.entries(fields).map(([text, { description }]) => ({ text, meaning: description, isField: true }));
}

function valuesOf(shape: Shape | undefined): Suggestion[] {
  const inner = innermost(shape);
  return inner?.kind === "choice" ? inner.of.map((text) => ({ text, meaning: "", isField: false })) : [];
}
