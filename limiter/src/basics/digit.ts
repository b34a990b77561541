/** Returns whether the code is that of a digit, "0" to "9". False for NaN, past the end of a text. */
export function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
