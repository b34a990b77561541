// Reads the syntax of nginx's configuration: directives, the blocks in them, and blocks of Lua. nginx has accepted the text before.

import { blockEnd } from "./lua-code.ts";

export interface Directive {
  readonly name: string;
  /** Its parameters, without quotes. */
  readonly words: readonly string[];
  /** Where it is, as FILE:LINE. */
  readonly place: string;
  /** What its block has; undefined: it has none, or one of Lua. */
  readonly inner: readonly Directive[] | undefined;
  /** The code of its block, if the block is of Lua. */
  readonly lua: string | undefined;
}

interface Cursor {
  readonly text: string;
  readonly file: string;
  at: number;
  /** The line of `lineAt`. */
  line: number;
  lineAt: number;
}

export function readDirectives(text: string, file: string): Directive[] {
  return directivesAt({ text, file, at: 1, line: 1, lineAt: 1 });
}

/** Reads up to the end of the block, or of the text. */
function directivesAt(cursor: Cursor): Directive[] {
  const found: Directive[] = [];
  for (;;) {
    skipBlanks(cursor);
    const place = placeOf(cursor);
    const words: string[] = [];
    let end = character(cursor);
    while (end !== "" && end !== ";" && end !== "{" && end !== "}") {
      words.push(readWord(cursor));
      skipBlanks(cursor);
      end = character(cursor);
    }
    cursor.at += 1;
    const [name = "", ...parameters] = words;
    if (end === "{") found.push({ name, words: parameters, place, ...blockAt(cursor, name) });
    else if (end === ";") found.push({ name, words: parameters, place, inner: undefined, lua: undefined });
    else return found;
  }
}

function blockAt(cursor: Cursor, name: string): Pick<Directive, "inner" | "lua"> {
  if (!name.endsWith("_by_lua_block")) return { inner: directivesAt(cursor), lua: undefined };
  const end = blockEnd(cursor.text, cursor.at);
  const lua = string.sub(cursor.text, cursor.at, end - 1);
  cursor.at = end + 1;
  return { inner: undefined, lua };
}

function character({ text, at }: Cursor): string {
  return string.sub(text, at, at);
}

function skipBlanks(cursor: Cursor): void {
  for (;;) {
    const [, last] = string.find(cursor.text, "^%s+", cursor.at);
    if (last !== undefined) cursor.at = last + 1;
    if (character(cursor) !== "#") return;
    const [lineEnd] = string.find(cursor.text, "\n", cursor.at, true);
    cursor.at = lineEnd ?? cursor.text.length + 1;
  }
}

/** A word ends at a blank, `;` or `{`, unless it is quoted. The brace of `${name}` is a part of it. */
function readWord(cursor: Cursor): string {
  const first = character(cursor);
  const quote = first === '"' || first === "'" ? first : undefined;
  if (quote !== undefined) cursor.at += 1;
  const pieces: string[] = [];
  for (;;) {
    const next = character(cursor);
    if (next === "" || next === quote) break;
    if (quote === undefined && (string.find(next, "[%s;]")[0] !== undefined || next === "{")) break;
    const two = string.sub(cursor.text, cursor.at, cursor.at + 1);
    if (next === "\\") {
      pieces.push(unescaped(two));
      cursor.at += 2;
    } else if (two === "${") {
      pieces.push(two);
      cursor.at += 2;
    } else {
      pieces.push(next);
      cursor.at += 1;
    }
  }
  if (quote !== undefined) cursor.at += 1;
  return pieces.join("");
}

function unescaped(two: string): string {
  const escaped = string.sub(two, 2);
  if (escaped === "t") return "\t";
  if (escaped === "r") return "\r";
  if (escaped === "n") return "\n";
  return escaped === '"' || escaped === "'" || escaped === "\\" ? escaped : two;
}

function placeOf(cursor: Cursor): string {
  const [, lines] = string.gsub(string.sub(cursor.text, cursor.lineAt, cursor.at - 1), "\n", "");
  cursor.line += lines;
  cursor.lineAt = cursor.at;
  return `${cursor.file}:${string.format("%d", cursor.line)}`;
}

/** Writes a directive without a block as nginx reads it. */
export function written({ name, words }: Directive): string {
  const quoted = words.map((word) => `"${string.gsub(word, '[\\\\"]', "\\%0")[0]}"`);
  return `${[name, ...quoted].join(" ")};`;
}
