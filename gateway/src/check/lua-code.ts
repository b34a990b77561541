// Reads Lua code as far as this needs: where a block ends, and which functions of Sluice it names. Braces and names in strings and comments
// count for nothing, as for nginx.

type Kind = "comment" | "string" | "code";

/** @returns the place after the comment, the string or the character that begins at `at` */
function pieceEnd(text: string, at: number): LuaMultiReturn<[next: number, kind: Kind]> {
  const isComment = string.sub(text, at, at + 1) === "--";
  const [, , equals] = string.find(text, "^%[(=*)%[", isComment ? at + 2 : at);
  if (equals !== undefined) return $multi(placeAfter(text, `]${equals}]`, at), isComment ? "comment" : "string");
  if (isComment) return $multi(placeAfter(text, "\n", at), "comment");
  const quote = string.sub(text, at, at);
  if (quote !== '"' && quote !== "'") return $multi(at + 1, "code");
  let end = at + 1;
  while (end <= text.length && string.sub(text, end, end) !== quote) {
    end += string.sub(text, end, end) === "\\" ? 2 : 1;
  }
  return $multi(end + 1, "string");
}

function placeAfter(text: string, mark: string, from: number): number {
  const [, last] = string.find(text, mark, from, true);
  return (last ?? text.length) + 1;
}

/** @param at the place after the brace that opens a block @returns the place of the brace that closes it */
export function blockEnd(text: string, at: number): number {
  let depth = 1;
  let place = at;
  while (place <= text.length) {
    const character = string.sub(text, place, place);
    if (character === "{") depth += 1;
    else if (character === "}") depth -= 1;
    if (depth === 0) return place;
    const [next] = pieceEnd(text, place);
    place = next;
  }
  return text.length + 1;
}

/** Returns the code without comments and blanks around it, and without strings that are no name, as the one in `sluice["log"]` is. */
export function bareCode(text: string): string {
  const pieces: string[] = [];
  let place = 1;
  while (place <= text.length) {
    const [next, kind] = pieceEnd(text, place);
    const piece = string.sub(text, place, next - 1);
    const isLeftOut = kind === "string" && string.find(piece, "^[\"'][%w_]+[\"']$")[0] === undefined;
    pieces.push(kind === "comment" ? " " : isLeftOut ? '""' : piece);
    place = next;
  }
  return pieces.join("").trim();
}

/** Returns the fields of a variable that the code calls, such as `log` in `sluice.log()`. */
export function calledFields(code: string, variable: string): string[] {
  const called: string[] = [];
  for (const [owner, name = ""] of string.gmatch(code, "([%w_.]*)%s*[.]%s*([%a_][%w_]*)%s*%(")) {
    if (owner === variable && !called.includes(name)) called.push(name);
  }
  return called;
}

/** Returns whether the code names a field, such as `log` in `sluice.log()`. Fields of `ngx` are others. */
export function namesField(code: string, field: string): boolean {
  for (const [owner, name] of string.gmatch(code, "([%w_]*)%s*[.:%[]%s*[\"']?([%a_][%w_]*)")) {
    if (name === field && owner !== "ngx") return true;
  }
  return false;
}
