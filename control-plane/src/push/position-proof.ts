// A gateway gets a proof with each revision and shows it when it reconnects: it proves that this history once had the
// revision, in the term that the proof names. Nobody can make one without the key, which is stored in the database and so is in its
// backups. So a restored database learns from gateways how far it had come, and a gateway that claims a revision that never existed is
// not believed.

import { createHmac, timingSafeEqual } from "node:crypto";
import type { Position } from "../storage/epoch.ts";

/** A position, and the proof that the history reached it. */
export interface ShownPosition extends Position {
  readonly proof?: string | undefined;
}

/** @param key stored in the database @param term in which the position was read */
export function proofOf(key: string, term: string, { epoch, revision }: Position): string {
  return `${term}.${createHmac("sha256", key).update(`${epoch}:${revision}:${term}`).digest("hex")}`;
}

/** @returns the term that a proof names, whether or not it proves anything */
export function termOf(proof: string): string {
  return proof.slice(0, proof.indexOf("."));
}

export function isProven(key: string, position: ShownPosition): boolean {
  const { proof = "" } = position;
  const shown = Buffer.from(proof);
  const expected = Buffer.from(proofOf(key, termOf(proof), position));
  return shown.length === expected.length && timingSafeEqual(shown, expected);
}
