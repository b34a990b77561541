// Ids of what has no name of its own. They sort by the time they were made at, so that a list of them can be paged.

import { randomBytes } from "node:crypto";

export function newId(nowMs: number): string {
  return nowMs.toString(36).padStart(9, "0") + randomBytes(8).toString("hex");
}
