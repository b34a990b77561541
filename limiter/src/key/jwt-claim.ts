// The key part `jwt:CLAIM`: what an unverified token says of its bearer. A claim that is neither a text nor an integer counts as
// absent, and so does every claim of a text that is not a token.

/** nginx accepts longer header lines if it is configured to; a longer payload is not read. */
const mostPayloadBytes = 8192;

/** Up to here every integer is a number of its own; beyond, neighbouring integers would share a counter. */
const largestInteger = 9007199254740991;

/**
 * Returns the payload of a token, in base64url as it stands there.
 *
 * @returns undefined if it is not a token of three parts, or its payload is longer than 8 KB when decoded
 */
export function payloadOf(token: string): string | undefined {
  const start = token.indexOf(".") + 1;
  const end = start > 0 ? token.indexOf(".", start) : -1;
  if (end < 0 || token.indexOf(".", end + 1) >= 0) return undefined;
  const length = end - start;
  if (length === 0 || Math.floor((length * 3) / 4) > mostPayloadBytes) return undefined;
  return token.slice(start, end);
}

/**
 * Returns the claim as text. "a.b" is the claim of that name or, if there is none, b of the object a.
 *
 * @param payload as parsed from JSON; it may come from anyone
 */
export function claimText(payload: unknown, name: string): string | undefined {
  const claim = memberOf(payload, name);
  if (claim !== undefined) return textOf(claim);
  const dot = name.indexOf(".");
  return dot < 0 ? undefined : textOf(memberOf(memberOf(payload, name.slice(0, dot)), name.slice(dot + 1)));
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  // What a JavaScript object inherits is no text, no number and no plain object, so `textOf` makes nothing of it.
  return (value as Record<string, unknown>)[name];
}

function textOf(claim: unknown): string | undefined {
  if (typeof claim === "string") return claim;
  if (typeof claim !== "number" || Math.floor(claim) !== claim) return undefined;
  if (claim < -largestInteger || claim > largestInteger) return undefined;
  return claim < 0 ? `-${digitsOf(-claim)}` : digitsOf(claim);
}

/** Writes all digits; Lua's own text of a number keeps only 14. */
function digitsOf(units: number): string {
  const high = Math.floor(units / 1e8);
  const low = units - high * 1e8;
  if (high === 0) return `${low}`;
  const digits = `${low}`;
  let zeros = "";
  for (let i = digits.length; i < 8; i++) zeros += "0";
  return `${high}${zeros}${digits}`;
}
