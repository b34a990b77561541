// Copies what SQLite has logged into its file while nobody changes anything. SQLite does this by itself within the change that makes the
// log 1,000 pages long: one change in some sixty took 10 to 50 ms longer for it. A few changes' pages take a millisecond or two.

import type { DatabaseSync } from "node:sqlite";

/** A change logs some fifteen pages. */
const changesEach = 8;
/** Without a change for so long, the next one is not expected soon. */
const restMs = 20;

export class Checkpoints {
  #changes = 0;
  #timer: NodeJS.Timeout | undefined;

  afterChange(writer: DatabaseSync): void {
    this.#changes += 1;
    if (this.#changes < changesEach) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (!writer.isOpen || writer.isTransaction) return;
      this.#changes = 0;
      checkpoint(writer);
    }, restMs).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

function checkpoint(writer: DatabaseSync): void {
  try {
    writer.exec("pragma wal_checkpoint(passive)");
  } catch {
    // For lack of room, for example. Everything is in the log; the next change says what is wrong if it has no room either.
  }
}
