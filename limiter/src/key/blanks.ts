// Leaves out the blanks around what a client has written in an argument or a field.

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
 * value. Blanks are the bytes up to the space, which is what trims in Java and PHP, and what those drop beyond ASCII.
 *
 * @param text in UTF-8, one character below 256 for each byte, as in Lua
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
    width = blankAt(text, start);
    start += width;
  }
  do {
    let at = end - 1;
    while (at > start && isLater(text.charCodeAt(at))) at -= 1;
    width = at >= start ? blankAt(text, at) : 0;
    end -= width;
  } while (width > 0);
  return text.slice(start, end);
}

/** @returns of how many bytes the blank is that begins there; 0: none does */
function blankAt(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first < 128) return first <= 32 ? 1 : 0;
  const width = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  let character = first % (first < 0xe0 ? 32 : first < 0xf0 ? 16 : 8);
  for (let i = 1; i < width; i++) character = character * 64 + (text.charCodeAt(at + i) % 64);
  for (let i = 0; i < blanks.length; i += 2) {
    if (character >= (blanks[i] as number) && character <= (blanks[i + 1] as number)) return width;
  }
  return 0;
}

/** Returns whether the byte is not the first one of its character. */
function isLater(code: number): boolean {
  return code >= 128 && code < 192;
}
