// Checks texts that anyone may have written, and makes them printable.

const textIsBytes = "é".length === 2;

/**
 * Returns whether the text has a UTF-8 form: no half of a surrogate pair stands alone. Lua's strings are bytes that its JSON
 * reader decoded, and that reader decodes no lone half: nothing is left to check there.
 */
export function isWellFormed(text: string): boolean {
  if (textIsBytes) return true;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (!isSurrogate(code)) continue;
    if (!beginsPair(text, i)) return false;
    i += 1;
  }
  return true;
}

/** Returns the text with "?" for each control character and each lone surrogate; a control character of two bytes counts once. */
export function printable(text: string): string {
  let line = "";
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (textIsBytes && code === 0xc2 && isLateControl(text.charCodeAt(i + 1))) {
      line += "?";
      i += 1;
    } else if (!textIsBytes && isSurrogate(code)) {
      if (!beginsPair(text, i)) {
        line += "?";
      } else {
        line += text.slice(i, i + 2);
        i += 1;
      }
    } else if (code < 32 || code === 127 || (!textIsBytes && isLateControl(code))) {
      line += "?";
    } else {
      line += text.charAt(i);
    }
  }
  return line;
}

/** Returns whether this is one of U+0080 to U+009F; in UTF-8, the byte after 0xC2. False for NaN, past the end. */
function isLateControl(code: number): boolean {
  return code >= 0x80 && code <= 0x9f;
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}

function beginsPair(text: string, at: number): boolean {
  const next = text.charCodeAt(at + 1);
  return text.charCodeAt(at) < 0xdc00 && next >= 0xdc00 && next <= 0xdfff;
}
