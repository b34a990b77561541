// Tells which texts no request has: gateways read what a client writes without the blanks around it.

import { withoutBlanks } from "@sluice/limiter/key/blanks.ts";

export function hasBlanksAround(text: string): boolean {
  const bytes = Buffer.from(text).toString("latin1");
  return withoutBlanks(bytes) !== bytes;
}
