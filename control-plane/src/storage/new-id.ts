// Makes ids for things without a name. They sort by creation time, so that a list of them can be paged, and those of one process
// by the order in which they were made.

import { randomBytes } from "node:crypto";

let newestMs = 0;
let madeInNewestMs = 0;

export function newId(nowMs: number): string {
  madeInNewestMs = nowMs === newestMs ? madeInNewestMs + 1 : 0;
  newestMs = nowMs;
  const order = madeInNewestMs.toString(16).padStart(4, "0");
  return nowMs.toString(36).padStart(9, "0") + order + randomBytes(6).toString("hex");
}
