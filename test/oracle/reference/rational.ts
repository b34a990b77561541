// Fractions of whole numbers of any size: nothing is rounded but where the documents say so.

export interface Rational {
  readonly top: bigint;
  /** Above 0. */
  readonly bottom: bigint;
}

export function whole(number: bigint): Rational {
  return { top: number, bottom: 1n };
}

export function fraction(top: bigint, bottom: bigint): Rational {
  const by = commonDivisor(top < 0n ? -top : top, bottom);
  return { top: top / by, bottom: bottom / by };
}

function commonDivisor(one: bigint, other: bigint): bigint {
  return other === 0n ? (one === 0n ? 1n : one) : commonDivisor(other, one % other);
}

export function plus(a: Rational, b: Rational): Rational {
  return fraction(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);
}

export function minus(a: Rational, b: Rational): Rational {
  return plus(a, { top: -b.top, bottom: b.bottom });
}

export function times(a: Rational, b: Rational): Rational {
  return fraction(a.top * b.top, a.bottom * b.bottom);
}

export function isLess(a: Rational, b: Rational): boolean {
  return a.top * b.bottom < b.top * a.bottom;
}

export function larger(a: Rational, b: Rational): Rational {
  return isLess(a, b) ? b : a;
}

export function smaller(a: Rational, b: Rational): Rational {
  return isLess(a, b) ? a : b;
}

/** The largest whole number that is not above it. */
export function floor({ top, bottom }: Rational): bigint {
  return floorDivide(top, bottom);
}

/** The smallest whole number that is not below it. */
export function ceil({ top, bottom }: Rational): bigint {
  return -floorDivide(-top, bottom);
}

export function floorDivide(top: bigint, bottom: bigint): bigint {
  const quotient = top / bottom;
  return quotient * bottom > top ? quotient - 1n : quotient;
}

export function largest(first: bigint, ...others: readonly bigint[]): bigint {
  return inOrder([first, ...others]).at(-1) as bigint;
}

export function least(first: bigint, ...others: readonly bigint[]): bigint {
  return inOrder([first, ...others])[0] as bigint;
}

/** Math.min and Math.max do not take such numbers. */
function inOrder(numbers: bigint[]): bigint[] {
  return numbers.sort((a, b) => Number(a > b) - Number(a < b));
}
