// Checks whether bytes are a text: well-formed UTF-8 (RFC 3629), each character in its shortest form.

/** @param bytes one character below 256 for each byte, as in Lua */
export function isUtf8(bytes: string): boolean {
  let i = 0;
  while (i < bytes.length) {
    const more = bytesAfter(bytes.charCodeAt(i), bytes.charCodeAt(i + 1));
    if (more < 0) return false;
    for (let k = 1; k <= more; k++) if (!continues(bytes.charCodeAt(i + k))) return false;
    i += more + 1;
  }
  return true;
}

/** @returns how many more bytes a character has that begins with these; negative: none begins so */
function bytesAfter(first: number, second: number): number {
  if (first < 0x80) return 0;
  if (first < 0xc2 || first > 0xf4) return -1;
  if (first < 0xe0) return 1;
  if (first < 0xf0) {
    if (first === 0xe0 && second < 0xa0) return -1;
    // These are halves of surrogate pairs.
    return first === 0xed && second > 0x9f ? -1 : 2;
  }
  if (first === 0xf0 && second < 0x90) return -1;
  return first === 0xf4 && second > 0x8f ? -1 : 3;
}

/** False for NaN, past the end. */
function continues(code: number): boolean {
  return code >= 0x80 && code <= 0xbf;
}
