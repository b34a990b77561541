// Multiplies to products beyond 2^53, where a double would lose the last digits, by long multiplication, six bits at a time.

export interface Quotient {
  quotient: number;
  remainder: number;
}

/** The largest integer up to which every integer is exact in a double. */
export const maxExact = 9007199254740992;

const digitBase = 64;

/**
 * Returns floor(a × b ÷ divisor) and the remainder, without ever forming a × b.
 *
 * Exact for whole a < 2^37, b < 2^46 and divisor < 2^46 while the quotient is below 2^53; a larger quotient is rounded as doubles
 * are. Products that fit need a single multiplication.
 */
export function multiplyDivide(a: number, b: number, divisor: number): Quotient {
  if (a * b < maxExact) {
    const remainder = (a * b) % divisor;
    return { quotient: (a * b - remainder) / divisor, remainder };
  }
  let quotient = 0;
  let remainder = 0;
  let place = digitBase * digitBase * digitBase * digitBase * digitBase;
  let rest = a;
  while (place >= 1) {
    const digit = Math.floor(rest / place);
    rest -= digit * place;
    const partial = remainder * digitBase + digit * b;
    remainder = partial % divisor;
    quotient = quotient * digitBase + (partial - remainder) / divisor;
    place /= digitBase;
  }
  return { quotient, remainder };
}
