// Converts YAML 1.2 to JSON by the core schema alone: one document without tags, without merge keys, and without directives
// other than %YAML 1.2. The length of a text does not bound the time to read it, so this runs in a thread that can be
// stopped (yaml-thread.ts).

import {
  type Alias,
  Composer,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  Lexer,
  Parser,
} from "yaml";
import { maxBodyBytes, maxDepth, maxFields, tooDeep, tooManyFields } from "./bounds.ts";
import { twice } from "./json-faults.ts";

/** A refusal has a line, unless it is of the document as a whole. */
export type YamlReading = { readonly json: string } | { readonly refusal: string; readonly line?: number };

/**
 * The most words, brackets, spaces and line ends, each of which becomes an object. A policy of 256 KiB has fewer; a text
 * "1,1,1,…" of that size has many more.
 */
const maxMarks = 160_000;

/** Why a text is refused, and the position of the character where the problem begins. */
class Refusal extends Error {
  readonly position: number;

  constructor(position: number, message: string) {
    super(message);
    this.position = position;
  }
}

/**
 * @param firstLine the line of the body that the text begins on
 * @returns the document as JSON, or why there is none: a clause that names the line
 */
export function readYaml(text: string, firstLine = 1): YamlReading {
  try {
    const document = compose(text);
    checkNode(document.contents, 0, { characters: text.length, anchors: new Map() });
    // The library's own bound is switched off: it counts each alias as one, not what the alias stands for.
    return { json: JSON.stringify(document.toJS({ maxAliasCount: -1 })) };
  } catch (error) {
    if (error instanceof Refusal) {
      // What is missing at the end is missing on the last line, not on one after it.
      const line = firstLine - 1 + lineOf(text, Math.min(error.position, text.trimEnd().length));
      return { refusal: `line ${line}: ${error.message}`, line };
    }
    // A text on which the library itself fails cannot be told apart from one that was made for that purpose.
    return { refusal: `the parser gives it up: ${shortened((error as Error).message)}` };
  }
}

function compose(text: string): Document.Parsed {
  const parser = new Parser();
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    resolveKnownTags: false,
    merge: false,
    // The library would compare each key with every other one; `checkKeys` uses a set instead.
    uniqueKeys: false,
  });
  let found: Document.Parsed | undefined;
  const keep = (documents: Iterable<Document.Parsed>) => {
    for (const document of documents) {
      if (found !== undefined) throw new Refusal(document.range[0], "a second document begins");
      const [error] = document.errors;
      if (error !== undefined) throw new Refusal(error.pos[0], shortened(error.message));
      found = document;
    }
  };
  const take = (tokens: ReturnType<Parser["next"]>) => {
    for (const token of tokens) {
      if (token.type === "error") throw new Refusal(token.offset, shortened(token.message));
      if (token.type === "directive" && !/^%YAML[ \t]+1\.2$/.test(token.source)) {
        throw new Refusal(token.offset, "the only directive that is read is %YAML 1.2");
      }
      keep(composer.next(token));
    }
  };
  let marks = 0;
  for (const lexeme of new Lexer().lex(text)) {
    marks += 1;
    if (marks > maxMarks) throw new Refusal(parser.offset, `more than ${maxMarks} words and marks stand before this`);
    take(parser.next(lexeme));
    // The stack contains what is open: the document, each list and object, and a scalar. No code has recursed into them yet.
    if (parser.stack.length > maxDepth + 2) throw new Refusal(parser.offset, tooDeep);
  }
  take(parser.end());
  keep(composer.end(true, text.length));
  return found as unknown as Document.Parsed;
}

/** The size of a text with its aliases written out. */
interface Expansion {
  characters: number;
  /** Keyed by anchor: the size of what it stands for. A later anchor of the same name replaces an earlier one. */
  readonly anchors: Map<string, { readonly characters: number; readonly height: number }>;
}

/**
 * Checks a node without expanding aliases. It recurses no deeper than the parser allowed.
 *
 * @param depth how many lists and objects contain the node
 * @returns the levels of nesting below and including the node, with its aliases written out
 */
function checkNode(node: unknown, depth: number, expansion: Expansion): number {
  if (isAlias(node)) return checkAlias(node, depth, expansion);
  if (!isScalar(node) && !isCollection(node)) return 0;
  const [from, to] = node.range ?? [0, 0];
  if (node.tag !== undefined) {
    const tag = shortened(node.tag.replace("tag:yaml.org,2002:", "!!"));
    throw new Refusal(from, `tags are not read, and there is ${tag}; a text is written in quotes`);
  }
  const before = expansion.characters;
  let height = 0;
  if (isScalar(node)) {
    if (typeof node.value === "number" && !Number.isFinite(node.value)) {
      throw new Refusal(from, `${shortened(node.source ?? "")} is a number that JSON does not have`);
    }
  } else {
    if (depth === maxDepth) throw new Refusal(from, tooDeep);
    if (isMap(node)) checkKeys(node.items, from);
    for (const item of node.items) {
      height = Math.max(height, checkNode(isPair(item) ? item.key : item, depth + 1, expansion));
      if (isPair(item)) height = Math.max(height, checkNode(item.value, depth + 1, expansion));
    }
    height += 1;
  }
  if (node.anchor !== undefined) {
    expansion.anchors.set(node.anchor, { characters: to - from + expansion.characters - before, height });
  }
  return height;
}

/** An anchor becomes known when its node ends, so an anchor never stands for a part of itself. */
function checkAlias({ source, range }: Alias, depth: number, expansion: Expansion): number {
  const from = range?.[0] ?? 0;
  const meant = expansion.anchors.get(source);
  if (meant === undefined) throw new Refusal(from, `nothing before it is called &${shortened(source)}`);
  if (depth + meant.height > maxDepth) throw new Refusal(from, `with its aliases written out, ${tooDeep}`);
  expansion.characters += meant.characters;
  if (expansion.characters > maxBodyBytes) {
    throw new Refusal(from, `with its aliases written out, the YAML is longer than ${maxBodyBytes / 1024} KiB`);
  }
  return meant.height;
}

function checkKeys(pairs: readonly { readonly key: unknown }[], from: number): void {
  if (pairs.length > maxFields) throw new Refusal(from, tooManyFields);
  const seen = new Set<string>();
  for (const { key } of pairs) {
    if (!isScalar(key) || key.value === null) throw new Refusal(from, "a key of an object is no plain value");
    const name = String(key.value);
    const at = key.range?.[0] ?? from;
    if (name === "__proto__") throw new Refusal(at, 'the key "__proto__" is not accepted');
    if (seen.has(name)) throw new Refusal(at, twice(name));
    seen.add(name);
  }
}

function lineOf(text: string, position: number): number {
  let line = 1;
  for (let i = text.indexOf("\n"); i >= 0 && i < position; i = text.indexOf("\n", i + 1)) line += 1;
  return line;
}

/** The library's messages repeat what it did not understand in full. */
function shortened(message: string): string {
  return message.length > 120 ? `${message.slice(0, 120)}…` : message;
}
