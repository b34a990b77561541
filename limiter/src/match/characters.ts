// Reads the characters of a text. This works alike in Node, whose strings are UTF-16, and in Lua, whose strings are bytes: a
// character is a code point of well-formed text. A unit that belongs to none, such as a stray byte of UTF-8 that a client sent
// percent-encoded, is a character of its own that no pattern can name.

const textIsBytes = "é".length === 2;

export const lastCodePoint = 0x10ffff;

/** Stands for every unit that is not part of a code point. Greater than all code points. */
export const illFormed = lastCodePoint + 1;

/** @param at where a character begins @returns its code point, or `illFormed` */
export function characterAt(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  if (unit < 0x80) return unit;
  return textIsBytes ? decodeBytes(text, at, unit) : decodeUnits(text, at, unit);
}

/** Returns how many units of a text the character takes. */
export function unitsOf(character: number): number {
  if (character < 0x80 || character === illFormed) return 1;
  if (!textIsBytes) return character < 0x10000 ? 1 : 2;
  if (character < 0x800) return 2;
  return character < 0x10000 ? 3 : 4;
}

function decodeUnits(text: string, at: number, unit: number): number {
  if (unit < 0xd800 || unit > 0xdfff) return unit;
  const low = text.charCodeAt(at + 1);
  if (unit > 0xdbff || !(low >= 0xdc00 && low <= 0xdfff)) return illFormed;
  return 0x10000 + (unit - 0xd800) * 0x400 + (low - 0xdc00);
}

/** Overlong forms, halves of surrogate pairs and values beyond the last code point are ill-formed, as RFC 3629 defines. */
function decodeBytes(text: string, at: number, lead: number): number {
  if (lead < 0xc2 || lead > 0xf4) return illFormed;
  const more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  let character = lead - (more === 1 ? 0xc0 : more === 2 ? 0xe0 : 0xf0);
  for (let i = 1; i <= more; i++) {
    const byte = text.charCodeAt(at + i);
    // Past the end, `byte` is NaN.
    if (!(byte >= 0x80 && byte <= 0xbf)) return illFormed;
    character = character * 64 + (byte - 0x80);
  }
  if (more === 2 && (character < 0x800 || (character >= 0xd800 && character <= 0xdfff))) return illFormed;
  if (more === 3 && (character < 0x10000 || character > lastCodePoint)) return illFormed;
  return character;
}
