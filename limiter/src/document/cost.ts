// Reads the cost of a request where the request itself states it, or its response.

import { parseKeyPart } from "../key/key-part.ts";

export interface CostSource {
  /** response-bytes: charged when the response has been sent. Until then the request costs one unit, which is not charged. */
  readonly from: "header" | "request-bytes" | "response-bytes";
  /** The header's name in lower case; "" for other sources. */
  readonly name: string;
  /** The cost of a request that states none, or whose body has an unknown length. */
  readonly default: number;
  readonly max: number;
  /** A leaky-bucket has room for this cost: the document's max, or else its default. */
  readonly room: number;
}

/**
 * Returns undefined if the text has no valid form.
 *
 * @param text as in a policy: "header:NAME", "request-bytes" or "response-bytes"
 */
export function parseCostOrigin(text: string): Pick<CostSource, "from" | "name"> | undefined {
  if (text === "request-bytes" || text === "response-bytes") return { from: text, name: "" };
  const part = parseKeyPart(text);
  return part?.source === "header" ? { from: "header", name: part.name } : undefined;
}

/**
 * Returns the cost that a request states. An empty body costs 1.
 *
 * @param text the value of the header, or the length of the body; undefined if the header is absent, or the length unknown
 * @returns undefined if the text is not an integer from 1 to `max`: the request must be answered with 400
 */
export function costFrom(text: string | undefined, { from, default: unstated, max }: CostSource): number | undefined {
  if (text === undefined) return unstated;
  if (from === "request-bytes" && text === "0") return 1;
  // Each cost has one spelling: digits only, without a leading zero. 2^31 has ten digits.
  if (text === "" || text.length > 10 || text.charCodeAt(0) === 48) return undefined;
  let units = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) return undefined;
    units = units * 10 + (code - 48);
  }
  return units <= max ? units : undefined;
}
