// Tells apart two histories that have the same numbers, as after a restore of a backup. The first change that a process makes begins a
// term, within the same transaction. A process that is started after a restore begins another term than those whose changes were lost.
// So a number that was seen in a term is of this history if the history has the term, and the term had the number.

import { createHash, randomUUID } from "node:crypto";
import type { Transaction } from "kysely";
import type { Tables } from "./tables.ts";

/** The numbers that were the newest when the term began. */
export interface Term {
  readonly id: string;
  readonly revision: number;
  readonly position: number;
}

/** Whoever has numbers of an earlier term gets everything. */
const mostTerms = 100;
const ownProcess = randomUUID();

/** @param text as in the table @returns the terms in their order: the first one is that before any change */
export function termsFrom(epoch: string, text: string | null): Term[] {
  const later: [id: string, revision: number, position: number][] = JSON.parse(text ?? "[]");
  return [
    { id: epoch, revision: 0, position: 0 },
    ...later.map(([id, revision, position]) => ({ id, revision, position })),
  ];
}

/** The present term. */
export function lastTerm(terms: readonly Term[]): string {
  return terms.at(-1)?.id ?? "";
}

/** Whether a number that is at most the newest one is of this history, if it was seen in this term. */
export function isOfTerm(
  terms: readonly Term[],
  id: string | undefined,
  of: "revision" | "position",
  number: number,
): boolean {
  const place = terms.findLastIndex((term) => term.id === id);
  const next = terms[place + 1];
  return place >= 0 && (next === undefined || number <= next[of]);
}

/** Takes the next numbers for a change. @returns the last ones */
export async function takeNumbers(
  transaction: Transaction<Tables>,
  { revisions = 0, positions = 0 }: { readonly revisions?: number; readonly positions?: number },
): Promise<{ readonly revision: number; readonly position: number }> {
  await transaction
    .updateTable("meta")
    .set((row) => ({
      revision: row("revision", "+", revisions),
      consumers_position: row("consumers_position", "+", positions),
    }))
    .where("id", "=", 1)
    .execute();
  const { epoch, terms, ...head } = await transaction
    .selectFrom("meta")
    .select(["epoch", "terms", "revision", "consumers_position"])
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  const last = { revision: Number(head.revision), position: Number(head.consumers_position) };
  // A new epoch has none of the former terms.
  const id = createHash("sha256").update(`${epoch} ${ownProcess}`).digest("hex").slice(0, 16);
  if (terms?.includes(id) !== true) {
    const begun = [id, last.revision - revisions, last.position - positions];
    const all = [...JSON.parse(terms ?? "[]"), begun].slice(-mostTerms);
    await transaction
      .updateTable("meta")
      .set({ terms: JSON.stringify(all) })
      .where("id", "=", 1)
      .execute();
  }
  return last;
}
