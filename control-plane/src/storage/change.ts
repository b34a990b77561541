// Changes what gateways enforce. Each change is one transaction with the change itself, the next revision number and the
// entry in the history. So no revision is skipped, shared or without a change.

import type { Transaction } from "kysely";
import type { Entry } from "./entry.ts";
import { countEntry } from "./history-retention.ts";
import type { Database, Tables } from "./tables.ts";
import { takeNumbers } from "./terms.ts";
import { write } from "./write.ts";

/** Who asked for a change, and when. */
export interface Origin {
  readonly who: string;
  readonly atMs: number;
  /** The address that the request came from. */
  readonly from?: string;
  /**
   * Throws if who asked may not do this any more. Absent: the control plane itself does it.
   * @param transaction in which nobody else can change anybody's rights
   */
  readonly requireStill?: (transaction: Transaction<Tables>) => Promise<void>;
  /** Present: nothing is stored, and what would be is noted here. */
  readonly dryRun?: DryRun;
}

/** What a change would be. */
export interface DryRun {
  readonly entries: Entry[];
}

/** @returns the revision that the change got */
export type RecordEntry = (entry: Entry) => Promise<number>;

/**
 * Throws when the request's condition does not hold for the current version, which is another number after each change: a revision, a
 * consumer's position. Undefined: there is no version yet.
 */
export type Precondition = (version: number | undefined) => void;

/**
 * Runs `body` as the only writer. If it throws, everything is rolled back. If it never calls `record`, nothing changes and
 * no revision number is used.
 */
export function change<T>(
  database: Database,
  origin: Origin,
  body: (transaction: Transaction<Tables>, record: RecordEntry) => Promise<T>,
): Promise<T> {
  const { dryRun } = origin;
  const work = (transaction: Transaction<Tables>) =>
    body(transaction, (entry) => {
      dryRun?.entries.push(entry);
      return append(transaction, origin, entry);
    });
  return writeFor(database, origin, work);
}

/**
 * Runs `body` as the only writer, for what is no revision, if who asked may still do this: their turn may have come seconds later. In a dry
 * run, nothing is stored.
 */
export function writeFor<T>(
  database: Database,
  { dryRun, requireStill }: Origin,
  body: (transaction: Transaction<Tables>) => Promise<T>,
): Promise<T> {
  const work = async (transaction: Transaction<Tables>) => {
    await requireStill?.(transaction);
    return body(transaction);
  };
  return dryRun === undefined ? write(database, work) : tryOut(database, work);
}

/** Ends a transaction with its result, and without a change. */
class RolledBack<T> extends Error {
  readonly result: T;

  constructor(result: T) {
    super("a dry run ends");
    this.result = result;
  }
}

async function tryOut<T>(database: Database, work: (transaction: Transaction<Tables>) => Promise<T>): Promise<T> {
  try {
    return await write(database, async (transaction) => {
      throw new RolledBack(await work(transaction));
    });
  } catch (error) {
    if (error instanceof RolledBack) return error.result;
    throw error;
  }
}

async function append(transaction: Transaction<Tables>, origin: Origin, entry: Entry): Promise<number> {
  const { revision } = await takeNumbers(transaction, { revisions: 1 });
  await transaction
    .insertInto("revisions")
    .values({
      number: revision,
      at: origin.atMs,
      who: origin.who,
      source: origin.from ?? null,
      action: entry.action,
      app: entry.app ?? "",
      policy: entry.policy ?? null,
      subject: entry.subject ?? null,
      before: entry.before ?? null,
      after: entry.after ?? null,
    })
    .execute();
  await countEntry(transaction, entry);
  return revision;
}
