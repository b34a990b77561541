// YAML 1.2 by its core schema alone, to JSON: one document without tags, without directives but %YAML 1.2, without merge
// keys. The length of a text does not bound what it costs to read: this runs where it can be stopped (yaml-thread.ts).

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
import { twice } from "./json-keys.ts";

export type YamlReading = { readonly json: string } | { readonly refusal: string };

/** Why a text is refused, and from which character on. */
class Refusal extends Error {
  readonly position: number;

  constructor(position: number, message: string) {
    super(message);
    this.position = position;
  }
}

/** @returns the document as JSON, or why there is none: a clause that names the line */
export function readYaml(text: string): YamlReading {
  try {
    const document = compose(text);
    checkNode(document.contents, { characters: text.length, anchors: new Map() });
    // The library's own bound counts aliases, each for itself, and not what they stand for.
    return { json: JSON.stringify(document.toJS({ maxAliasCount: -1 })) };
  } catch (error) {
    if (error instanceof Refusal) return { refusal: `line ${lineOf(text, error.position)}: ${error.message}` };
    // A text that the library itself stumbles over is not to be told from one that was made for it.
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
    // The library would compare each key with each other one; `checkKeys` looks them up.
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
  for (const lexeme of new Lexer().lex(text)) {
    take(parser.next(lexeme));
    // What is open: the document, each list and object, a scalar. Nothing has recursed into them yet.
    if (parser.stack.length > maxDepth + 2) throw new Refusal(parser.offset, tooDeep);
  }
  take(parser.end());
  keep(composer.end(true, text.length));
  return found as unknown as Document.Parsed;
}

/** A text's length with its aliases written out. */
interface Expansion {
  characters: number;
  /** What each anchor stands for, in characters: the newest of its name. */
  readonly anchors: Map<string, number>;
}

/** Expands nothing. Deep is no deeper than the parser let it be. */
function checkNode(node: unknown, expansion: Expansion): void {
  if (isAlias(node)) checkAlias(node, expansion);
  if (!isScalar(node) && !isCollection(node)) return;
  const [from, to] = node.range ?? [0, 0];
  if (node.tag !== undefined) {
    throw new Refusal(from, `tags are not read, and there is ${shortened(node.tag)}; a text is written in quotes`);
  }
  const before = expansion.characters;
  if (isScalar(node)) {
    if (typeof node.value === "number" && !Number.isFinite(node.value)) {
      throw new Refusal(from, `${shortened(node.source ?? "")} is a number that JSON does not have`);
    }
  } else {
    if (isMap(node)) checkKeys(node.items, from);
    for (const item of node.items) {
      checkNode(isPair(item) ? item.key : item, expansion);
      if (isPair(item)) checkNode(item.value, expansion);
    }
  }
  if (node.anchor !== undefined) expansion.anchors.set(node.anchor, to - from + expansion.characters - before);
}

/** An anchor is known once what it stands for has ended: none stands for a part of itself. */
function checkAlias({ source, range }: Alias, expansion: Expansion): void {
  const from = range?.[0] ?? 0;
  const characters = expansion.anchors.get(source);
  if (characters === undefined) throw new Refusal(from, `nothing before it is called &${shortened(source)}`);
  expansion.characters += characters;
  if (expansion.characters > maxBodyBytes) {
    throw new Refusal(from, `with its aliases written out, the YAML is longer than ${maxBodyBytes / 1024} KiB`);
  }
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

/** The library repeats what it did not understand, in whole. */
function shortened(message: string): string {
  return message.length > 120 ? `${message.slice(0, 120)}…` : message;
}
