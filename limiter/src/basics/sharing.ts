// Ten thousand policies say the same in most places. What is equal and never changes is kept once, so that requests of
// different policies walk through the same memory, and what is made of it is not made for each request.

import { emptyTable } from "./table.ts";

/** Made anew when there are more: those of policies that are gone are not kept for ever. */
const mostKnown = 1000;

export interface Sharing<Value> {
  known: Record<string, Value | undefined>;
  count: number;
}

export function sharing<Value>(): Sharing<Value> {
  return { known: emptyTable<Value | undefined>(), count: 0 };
}

/** The first value that was made for this name. @param name the same for equal values alone */
export function shared<Value>(among: Sharing<Value>, name: string | number, make: () => Value): Value {
  let value = among.known[name];
  if (value !== undefined) return value;
  value = make();
  if (among.count >= mostKnown) {
    among.known = emptyTable();
    among.count = 0;
  }
  among.known[name] = value;
  among.count += 1;
  return value;
}
