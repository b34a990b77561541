// Exempt key values as lines of text: a part of keys, a space and a value.

import type { Schemas } from "../../api/client.ts";
import { linesOf } from "../../parts/lines.ts";

export type Exempt = NonNullable<Schemas["App"]["exempt"]>;
type Key = NonNullable<Exempt["keys"]>[number];

export function lineOfKey({ part, pattern }: Key): string {
  return `${part} ${pattern}`;
}

/** Neither a part nor the beginning of a value has spaces. What has no space is a part without a value, which the control plane refuses. */
export function keyOfLine(line: string): Key {
  const end = line.search(/\s/);
  return end < 0 ? { part: line, pattern: "" } : { part: line.slice(0, end), pattern: line.slice(end).trim() };
}

/** @returns null if nobody is exempt */
export function exemptOf(networks: string, keys: string): Exempt | null {
  const cidrs = linesOf(networks);
  const values = linesOf(keys).map(keyOfLine);
  if (cidrs.length + values.length === 0) return null;
  return { ...(cidrs.length === 0 ? {} : { cidrs }), ...(values.length === 0 ? {} : { keys: values }) };
}
