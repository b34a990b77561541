// Leaves out the blanks around what a client has written in an argument, a field or a header.

/**
 * Beyond ASCII. Django (str.strip) and what trims in JavaScript drop Unicode's White_Space; Laravel also drops what nobody sees
 * (Str::INVISIBLE_CHARACTERS). Each two numbers are the first and the last of some characters.
 */
const blanks: readonly number[] = [
  0x85, 0x85, 0xa0, 0xa0, 0xad, 0xad, 0x34f, 0x34f, 0x61c, 0x61c, 0x115f, 0x1160, 0x1680, 0x1680, 0x17b4, 0x17b5,
  0x180e, 0x180e, 0x2000, 0x200f, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x2065, 0x206a, 0x206f, 0x2800, 0x2800,
  0x3000, 0x3000, 0x3164, 0x3164, 0xfeff, 0xfeff, 0xffa0, 0xffa0, 0x1d159, 0x1d159, 0x1d173, 0x1d17a, 0xe0020, 0xe0020,
];

/**
 * Django's form fields, Laravel's TrimStrings and Tornado's get_argument leave blanks around a value out, so with them it is the same
 * value. So do services that trim a header. Blanks are the bytes up to the space, which is what trims in Java and PHP, what those drop beyond ASCII,
 * and the bytes 85 and A0 that belong to no character in UTF-8: they are blanks in Latin-1, as which many servers read a header.
 *
 * @param text one character below 256 for each byte, as in Lua
 */
export function withoutBlanks(text: string): string {
  const first = text.charCodeAt(0);
  const last = text.charCodeAt(text.length - 1);
  return first > 32 && first < 128 && last > 32 && last < 128 ? text : trimmed(text);
}

function trimmed(text: string): string {
  let start = 0;
  let end = text.length;
  let width = 1;
  while (start < end && width > 0) {
    width = blankAt(text, start, end);
    start += width;
  }
  width = 1;
  while (start < end && width > 0) {
    width = blankAt(text, lastCharacter(text, start, end), end);
    end -= width;
  }
  return text.slice(start, end);
}

/** Returns where the last character begins. A byte that belongs to none counts as one. */
function lastCharacter(text: string, start: number, end: number): number {
  let at = end - 1;
  const least = Math.max(start, end - 4);
  while (at > least && isLater(text.charCodeAt(at))) at -= 1;
  return at + bytesFrom(text.charCodeAt(at)) === end ? at : end - 1;
}

/** @returns of how many bytes the blank is that begins there; 0: none does */
function blankAt(text: string, at: number, end: number): number {
  const first = text.charCodeAt(at);
  if (first < 128) return first <= 32 ? 1 : 0;
  const width = bytesFrom(first);
  if (width === 1) return first === 0x85 || first === 0xa0 ? 1 : 0;
  if (at + width > end) return 0;
  let character = first % (first < 0xe0 ? 32 : first < 0xf0 ? 16 : 8);
  for (let i = 1; i < width; i++) {
    const code = text.charCodeAt(at + i);
    if (!isLater(code)) return 0;
    character = character * 64 + (code % 64);
  }
  for (let i = 0; i < blanks.length; i += 2) {
    if (character >= (blanks[i] as number) && character <= (blanks[i + 1] as number)) return width;
  }
  return 0;
}

/** Returns of how many bytes a character is by its first one. */
function bytesFrom(first: number): number {
  if (first < 0xc2) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}

/** Returns whether the byte is not the first one of its character. */
function isLater(code: number): boolean {
  return code >= 128 && code < 192;
}
