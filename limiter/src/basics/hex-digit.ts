// Reads the digits of percent-encoding (RFC 3986 §2.1).

/** @param code of a character; NaN past the end of a text @returns the digit from 0 to 15, or -1 if it is none */
export function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 65 && code <= 70) return code - 55;
  return code >= 97 && code <= 102 ? code - 87 : -1;
}
