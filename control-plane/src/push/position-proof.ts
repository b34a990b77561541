// What a gateway is given with each revision, and shows when it comes back: that this history once had the revision. Nobody
// makes one without the key, which lies in the database and goes along into its backups. So a database that was restored
// learns from gateways how far it had come, and a gateway that claims what never was is not believed.

import { createHmac, timingSafeEqual } from "node:crypto";
import type { Position } from "../storage/epoch.ts";

/** A position, and what shows that it was reached. */
export interface ShownPosition extends Position {
  readonly proof?: string | undefined;
}

/** @param key of the database */
export function proofOf(key: string, { epoch, revision }: Position): string {
  return createHmac("sha256", key).update(`${epoch}:${revision}`).digest("hex");
}

export function isProven(key: string, position: ShownPosition): boolean {
  const shown = Buffer.from(position.proof ?? "");
  const expected = Buffer.from(proofOf(key, position));
  return shown.length === expected.length && timingSafeEqual(shown, expected);
}
