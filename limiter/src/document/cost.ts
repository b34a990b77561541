// What a request costs where the request itself says so, or its response.

import { parseKeyPart } from "../key/key-part.ts";

export interface CostSource {
  /** response-bytes: settled when the response has been sent. Until then a request costs one unit, which is not charged. */
  readonly from: "header" | "request-bytes" | "response-bytes";
  /** Of the header, in lower case; of others, "". */
  readonly name: string;
  /** The cost of a request that says nothing. */
  readonly default: number;
  readonly max: number;
}

/** @param text as a policy writes it: "header:NAME", "request-bytes" or "response-bytes"; undefined when it is none */
export function parseCostOrigin(text: string): Pick<CostSource, "from" | "name"> | undefined {
  if (text === "request-bytes" || text === "response-bytes") return { from: text, name: "" };
  const part = parseKeyPart(text);
  return part?.source === "header" ? { from: "header", name: part.name } : undefined;
}

/**
 * The cost that a request states.
 *
 * @param text the header's value, or that of Content-Length; undefined where there is none
 * @returns undefined when the text is no integer from 1 to `max`: the request is to be answered 400. An empty body
 *   costs 1.
 */
export function costFrom(text: string | undefined, { from, default: unstated, max }: CostSource): number | undefined {
  if (text === undefined) return unstated;
  if (from === "request-bytes" && text === "0") return 1;
  // One spelling for each cost: digits alone, and no zero in front. 2^31 has ten.
  if (text === "" || text.length > 10 || text.charCodeAt(0) === 48) return undefined;
  let units = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) return undefined;
    units = units * 10 + (code - 48);
  }
  return units <= max ? units : undefined;
}
