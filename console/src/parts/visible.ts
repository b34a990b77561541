// Shows texts that strangers or other systems have written, such as keys of clients and ids of consumers, so that what is read is what is
// there: invisible characters get their number, and letters that run from right to left do not turn what is around them.

const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** Hebrew, Arabic and their relatives. */
const fromRightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
/** FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE. */
const [isolate, endOfIsolate] = ["\u2068", "\u2069"];

export function visible(text: string): string {
  const seen = text.replace(invisible, (one) => `[U+${hex(one.codePointAt(0) ?? 0)}]`);
  return fromRightToLeft.test(seen) ? isolate + seen + endOfIsolate : seen;
}

function hex(code: number): string {
  return code.toString(16).toUpperCase().padStart(4, "0");
}
