// The policy that somebody edits: one YAML text, which the form and the text editor both change, and what is wrong with it. The limiter's
// own validator says so, field by field, while one types.

import { type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { surprisesOf, warningsOf } from "@sluice/limiter/document/warnings.ts";
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  type Node,
  parseDocument,
  stringify,
} from "yaml";

export type Json = Record<string, unknown>;
export type Path = readonly (string | number)[];

export interface Fault {
  /** The field, like "limits[0].window"; "" is the whole document. */
  readonly path: string;
  /** What is wrong with it: of YAML that cannot be read, the parser's message. */
  readonly expected: string;
  readonly got: string;
  /** Where in the text. */
  readonly from: number;
  readonly to: number;
}

export interface Draft {
  readonly text: string;
  /** Undefined: the text is no YAML, or no object. The form cannot show it then. */
  readonly document: Json | undefined;
  readonly faults: readonly Fault[];
  /** Of a document without faults: what has no effect, and what reaches further than it may seem. */
  readonly warnings: readonly Problem[];
}

/** In this order they are read most easily; what is not named here follows. */
const order = [
  "name",
  "description",
  "mode",
  "priority",
  "match",
  "key",
  "secret",
  "onMissingKey",
  "limits",
  "plans",
  "planBy",
  "defaultPlan",
  "cost",
  "scope",
];

/** Fields that may name a template of the app, which only the control plane knows. */
const fromTemplates = ["onLimit", "cost"];
const anyLimits = [{ algorithm: "fixed-window", quota: 2_147_483_648, window: "1d" }];

export function draftOf(document: Json): Draft {
  const known = order.filter((name) => name in document);
  const others = Object.keys(document).filter((name) => !order.includes(name));
  const sorted = Object.fromEntries([...known, ...others].map((name) => [name, document[name]]));
  return draftOfText(stringify(sorted, { lineWidth: 0, flowCollectionPadding: true }));
}

export function draftOfText(text: string): Draft {
  const yaml = parseDocument(text, { uniqueKeys: true, merge: false });
  const unreadable = yaml.errors[0];
  if (unreadable !== undefined) {
    const [from, to] = unreadable.pos;
    const expected = unreadable.message.split("\n")[0] ?? "";
    return unreadableDraft(text, { path: "", expected, got: "", ...within(text, from, to) });
  }
  let value: unknown;
  try {
    value = yaml.toJS({ maxAliasCount: 100 });
  } catch (error) {
    const expected = error instanceof Error ? error.message : String(error);
    return unreadableDraft(text, { path: "", expected, got: "", from: 0, to: text.length });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const fault = {
      path: "",
      expected: "fields of a policy, like limits",
      got: text.trim() === "" ? "nothing" : "no object",
    };
    return unreadableDraft(text, { ...fault, from: 0, to: text.length });
  }
  const document = value as Json;
  const { policy, problems } = validatePolicy(withoutTemplates(document));
  const faults = problems.map((problem) => ({ ...problem, ...within(text, ...placeOf(yaml, pathOf(problem.path))) }));
  // Only the control plane knows what a policy of the library supplies.
  const isWhole = typeof document["template"] !== "string";
  const warnings = policy === undefined || !isWhole ? [] : [...surprisesOf(policy, document), ...warningsOf(policy)];
  return { text, document, faults, warnings };
}

function unreadableDraft(text: string, fault: Fault): Draft {
  return { text, document: undefined, faults: [fault], warnings: [] };
}

/**
 * @param value undefined: the field is taken out
 * @returns the draft with this field; comments and the order of fields stay. A draft that cannot be read stays as it is.
 */
export function withField(draft: Draft, path: Path, value: unknown): Draft {
  if (draft.document === undefined) return draft;
  const yaml = parseDocument(draft.text);
  makeRoom(yaml, path);
  if (value !== undefined) yaml.setIn(path, yaml.createNode(value, { flow: isPlainList(value) }));
  else {
    yaml.deleteIn(path);
    for (let parent = path.slice(0, -1); parent.length > 0; parent = parent.slice(0, -1)) {
      const node = yaml.getIn(parent, true);
      if (!isMap(node) || node.items.length > 0) break;
      yaml.deleteIn(parent);
    }
  }
  return draftOfText(yaml.toString({ lineWidth: 0, flowCollectionPadding: true }));
}

/** Whatever is on the way to the field and can hold no fields, such as half-typed text, becomes an object or a list. */
function makeRoom(yaml: Document, path: Path): void {
  for (let length = 1; length < path.length; length += 1) {
    const outer = path.slice(0, length);
    const node = yaml.getIn(outer, true);
    if (node === undefined) return;
    const meant = isAlias(node) ? node.resolve(yaml)?.clone() : node;
    const isIndex = typeof path[length] === "number";
    if (isCollection(meant) && (isMap(meant) || isIndex)) {
      if (meant !== node) yaml.setIn(outer, meant);
    } else yaml.setIn(outer, yaml.createNode(isIndex ? [] : {}));
  }
}

/** @returns the value at the path, or undefined if there is none */
export function valueAt(document: Json, path: Path): unknown {
  let value: unknown = document;
  for (const step of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Json)[step];
  }
  return value;
}

/** @param text like "limits[0].window" */
export function pathOf(text: string): (string | number)[] {
  return [...text.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map(([, index, name]) =>
    index === undefined ? `${name}` : Number(index),
  );
}

/** @param path as in a fault @returns what is wrong with this field itself, or, if it is a list or an object, within it */
export function faultAt({ faults }: Draft, path: string): Fault | undefined {
  return faults.find(
    (fault) => fault.path === path || fault.path.startsWith(`${path}[`) || fault.path.startsWith(`${path}.`),
  );
}

/** What is to come from a template is left out, or stands for itself if nothing is valid without it. */
function withoutTemplates(document: Json): Json {
  const { template, ...own } = document;
  if (typeof template === "string") {
    return withoutTemplates(own["plans"] === undefined ? { limits: anyLimits, ...own } : own);
  }
  const named = fromTemplates.filter((name) => {
    const value = document[name];
    return typeof value === "object" && value !== null && "template" in value;
  });
  return Object.fromEntries(Object.entries(document).filter(([name]) => !named.includes(name)));
}

/** @returns the range of the deepest field on the path that is in the text */
function placeOf(yaml: Document, path: Path): [number, number] {
  let node: unknown = yaml.contents;
  let range: [number, number] = [0, 0];
  for (const step of path) {
    if (isSeq(node) && typeof step === "number") node = node.items[step];
    else if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && key.value === step);
      if (pair === undefined) break;
      if (isNode(pair.key)) range = rangeOf(pair.key);
      node = isPair(pair) ? pair.value : undefined;
    } else break;
    // A whole object would be too much to underline: its name says enough.
    if (isScalar(node) || (isSeq(node) && node.flow === true) || typeof step === "number")
      range = rangeOf(node as Node) ?? range;
  }
  return range;
}

function rangeOf(node: Node): [number, number] {
  const [from, to] = node.range ?? [0, 0];
  return [from, to];
}

function within(text: string, from: number, to: number): { from: number; to: number } {
  const first = Math.min(from, Math.max(0, text.length - 1));
  return { from: first, to: Math.max(first, Math.min(Math.max(to, first + 1), text.length)) };
}

function isPlainList(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item !== "object");
}
