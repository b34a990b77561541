// What may be wrong with a database, whatever its kind. The engines turn the codes of their drivers into these errors.

/**
 * Why the database takes no change. full: its disk is full; unreachable: the server does not answer; unwritable: any other
 * reason.
 */
export type DatabaseFault = "full" | "unreachable" | "unwritable";

/** A change that could not be stored. No part of it was stored. */
export class DatabaseUnwritable extends Error {
  readonly fault: "full" | "unwritable";

  constructor(fault: "full" | "unwritable", cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = "DatabaseUnwritable";
    this.fault = fault;
  }
}

/** Another process locked the database for longer than we wait. Nothing was done. */
export class DatabaseBusy extends Error {
  constructor(waitedMs: number, cause?: unknown) {
    super(`another process has locked the database, or earlier changes wait for it, for ${waitedMs} ms`, { cause });
    this.name = "DatabaseBusy";
  }
}

/** The server of the database does not answer. */
export class DatabaseUnreachable extends Error {
  /** The connection was lost during the commit: the change was stored whole, or no part of it was. */
  readonly mayBeStored: boolean;

  constructor(cause: unknown, mayBeStored: boolean) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = "DatabaseUnreachable";
    this.mayBeStored = mayBeStored;
  }
}
