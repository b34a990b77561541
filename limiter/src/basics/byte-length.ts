// Computes how long a text is in UTF-8, so that Node counts as Lua does, whose strings are bytes.

const textIsBytes = "é".length === 2;

export function byteLength(text: string): number {
  if (textIsBytes) return text.length;
  let bytes = 0;
  for (let i = 0; i < text.length; i++) bytes += bytesOf(text.charCodeAt(i));
  return bytes;
}

/** Returns the beginning of the text, at most `maxBytes` long. Never ends within a character. */
export function cutToBytes(text: string, maxBytes: number): string {
  let bytes = 0;
  let end = 0;
  while (end < text.length) {
    bytes += textIsBytes ? 1 : bytesOf(text.charCodeAt(end));
    if (bytes > maxBytes) break;
    end += 1;
  }
  while (end > 0 && end < text.length && continuesCharacter(text.charCodeAt(end))) end -= 1;
  return text.slice(0, end);
}

/** Returns how many bytes a UTF-16 unit takes in UTF-8. A surrogate is half of a character of four bytes. */
function bytesOf(code: number): number {
  if (code < 0x80) return 1;
  return code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 2 : 3;
}

function continuesCharacter(code: number): boolean {
  return textIsBytes ? code >= 0x80 && code <= 0xbf : code >= 0xdc00 && code <= 0xdfff;
}
