// Reads key values as gateways report them: encoded as in the keys of counters (limiter/src/compiled/counter-key.ts).

/** Returns the values in the order of the policy's key; undefined: only their hash is known, because they are long. */
export function decodeKeyValues(encoded: string): string[] | undefined {
  const [, digits, rest = ""] = /^([0-9]{1,3}):(.*)$/s.exec(encoded) ?? [];
  if (digits === undefined) return undefined;
  const count = Number(digits);
  const values: string[] = [];
  let bytes = Buffer.from(rest);
  for (let i = 0; i < count - 1; i++) {
    const colon = bytes.indexOf(":");
    const length = Number(bytes.toString("latin1", 0, Math.max(0, colon)));
    if (colon < 1 || !(length <= bytes.length - colon - 1)) return undefined;
    values.push(bytes.toString("utf8", colon + 1, colon + 1 + length));
    bytes = bytes.subarray(colon + 1 + length);
  }
  if (count > 0) values.push(bytes.toString("utf8"));
  return values;
}
