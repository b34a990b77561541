// Tells whether base64 is written in the one way that RFC 4648 has for its bytes. Servers also read other spellings: they drop characters
// that are no digits, do not look at the bits that are left over at the end, and do without padding. So a client could spell one credential
// in as many ways as it likes.

const dot = 46;
const equals = 61;
const letterF = 70;
const letterS = 83;

/** Returns whether it is what `Basic` has (RFC 7617): padded base64 of a text without control characters. PHP cuts a password at a byte 0. */
export function isBasicCredential(text: string): boolean {
  let end = text.length;
  while (end > text.length - 2 && text.charCodeAt(end - 1) === equals) end -= 1;
  return text.length % 4 === 0 && isCanonical(text, 0, end, false);
}

/**
 * Returns whether no other text is the same token to servers. It is not a JSON Web Token, nor a session of Flask, Starlette or Phoenix, or its signature is
 * canonical base64url: the signature covers how the rest is written, and not how itself is. Of an encrypted token, of five parts, nothing covers how
 * the parts behind the first are written. Starlette writes a session in base64 with padding.
 */
export function isOnlySpelling(text: string): boolean {
  const isToken = beginsLikeJwt(text);
  if (!isToken && !beginsLikeSession(text)) return text.charCodeAt(0) !== letterF || isSealedOnce(text);
  const dots = countDots(text);
  if (dots < 2) return true;
  if (isToken && areOddParts(text, dots)) return false;
  if (dots === 2) return isCanonical(text, text.indexOf(".", text.indexOf(".") + 1) + 1, text.length, true);
  let start = text.indexOf(".");
  while (start >= 0) {
    const next = text.indexOf(".", start + 1);
    if (!isCanonical(text, start + 1, next < 0 ? text.length : next, true)) return false;
    start = next;
  }
  return true;
}

/** Returns whether it begins like a JSON Web Token and has more dots, or fewer: some servers read one all the same. */
export function hasOddParts(text: string): boolean {
  return beginsLikeJwt(text) && areOddParts(text, countDots(text));
}

/** Some split a token at its dots and forget empty parts at its end. */
function areOddParts(text: string, dots: number): boolean {
  return dots > 2 && (dots !== 4 || text.endsWith("."));
}

export function countDots(text: string): number {
  let dots = 0;
  for (let at = text.indexOf("."); at >= 0; at = text.indexOf(".", at + 1)) dots += 1;
  return dots;
}

/** iron-session drops what comes behind "~", which is a version. */
const sealed = "Fe26.2*";

function isSealedOnce(text: string): boolean {
  if (!text.startsWith(sealed)) return true;
  const end = text.indexOf("~");
  return end < 0 || text.slice(end) === "~2";
}

/** Phoenix begins its sessions and tokens so: HS256 in base64. */
const ofPhoenix = "SFMyNTY.";

/** A session of Flask, if it is compressed (itsdangerous), is a dot and what zlib begins with, in base64. */
function beginsLikeSession(text: string): boolean {
  if (text.charCodeAt(0) === dot) return text.charCodeAt(1) === 101 && text.charCodeAt(2) === 74;
  return text.charCodeAt(0) === letterS && text.startsWith(ofPhoenix);
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
