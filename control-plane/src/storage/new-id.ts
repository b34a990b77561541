// Makes ids for things without a name. They sort by creation time, so that a list of them can be paged.

import { randomBytes } from "node:crypto";

export function newId(nowMs: number): string {
  return nowMs.toString(36).padStart(9, "0") + randomBytes(8).toString("hex");
}
