// Tells whether base64 is written in the one way that RFC 4648 has for its bytes. Servers also read other spellings: they drop characters
// that are no digits, do not look at the bits that are left over at the end, and do without padding. So a client could spell one credential
// in as many ways as it likes.

const equals = 61;

/** Returns whether it is what `Basic` has (RFC 7617): padded base64 of a text without control characters. PHP cuts a password at a byte 0. */
export function isBasicCredential(text: string): boolean {
  let end = text.length;
  while (end > text.length - 2 && text.charCodeAt(end - 1) === equals) end -= 1;
  return text.length % 4 === 0 && isCanonical(text, 0, end, false);
}

/**
 * Returns whether no other text is the same token to servers: it is not a JSON Web Token, of three parts or (encrypted) five, or each part is
 * canonical base64url. The signature does not cover how the signature itself is written.
 */
export function isOnlySpelling(text: string): boolean {
  if (!beginsLikeJwt(text)) return true;
  let end = text.indexOf(".");
  if (end < 0 || text.indexOf(".", end + 1) < 0) return true;
  for (let start = 0; start <= text.length; start = end + 1) {
    end = text.indexOf(".", start);
    if (end < 0) end = text.length;
    if (!isCanonical(text, start, end, true)) return false;
  }
  return true;
}

/** What begins with {" or with a brace and a space, in base64, is hardly anything else. */
export function beginsLikeJwt(text: string): boolean {
  if (text.charCodeAt(0) !== 101 || text.charCodeAt(1) !== 121) return false;
  const third = text.charCodeAt(2);
  return third === 74 || third === 65;
}

/** @param isToken in the alphabet of base64url, and of any bytes; otherwise no byte is a control character */
function isCanonical(text: string, start: number, end: number, isToken: boolean): boolean {
  /** The bits that are not in a byte yet, and how many they are. */
  let rest = 0;
  let bits = 0;
  for (let at = start; at < end; at++) {
    const digit = digitOf(text.charCodeAt(at), isToken);
    if (digit < 0) return false;
    rest = rest * 64 + digit;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    const unit = bits === 4 ? 16 : bits === 2 ? 4 : 1;
    const byte = (rest - (rest % unit)) / unit;
    rest %= unit;
    if (!isToken && (byte < 32 || byte === 127)) return false;
  }
  return bits < 6 && rest === 0;
}

/** @returns -1 if the character is no digit */
function digitOf(code: number, isUrl: boolean): number {
  if (code >= 65 && code <= 90) return code - 65;
  if (code >= 97 && code <= 122) return code - 71;
  if (code >= 48 && code <= 57) return code + 4;
  if (code === (isUrl ? 45 : 43)) return 62;
  return code === (isUrl ? 95 : 47) ? 63 : -1;
}
