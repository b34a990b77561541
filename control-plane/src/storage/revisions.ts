// The history: what each revision changed, and the whole state at the newest one.

import type { SnapshotBan, SnapshotCaller } from "@sluice/limiter/policy/snapshot.ts";
import { type App, readApps } from "./apps.ts";
import { readBans } from "./bans.ts";
import type { Action } from "./change.ts";
import type { Database } from "./database.ts";
import { readCallers } from "./tokens.ts";

export interface Revision {
  readonly number: number;
  readonly atMs: number;
  readonly who: string;
  readonly action: Action;
  /** Undefined: the change was of no app. */
  readonly app: string | undefined;
  readonly policy: string | undefined;
  readonly subject: string | undefined;
}

/** What a snapshot is made of, at one revision; documents as the JSON text they are stored as. */
export interface StoredState {
  readonly epoch: string;
  readonly revision: number;
  readonly policies: readonly { readonly app: string; readonly document: string }[];
  readonly apps: readonly App[];
  readonly templates: readonly { readonly app: string; readonly name: string; readonly document: string }[];
  readonly bans: readonly SnapshotBan[];
  readonly callers: readonly SnapshotCaller[];
}

/**
 * Newest first.
 * @param app only those of its, or undefined for all
 * @param before only those with a lower number, or undefined for all
 */
export async function listRevisions(
  database: Database,
  app: string | undefined,
  before: number | undefined,
  limit: number,
): Promise<Revision[]> {
  let query = database.selectFrom("revisions").select(["number", "at", "who", "action", "app", "policy", "subject"]);
  if (app !== undefined) query = query.where("app", "=", app);
  if (before !== undefined) query = query.where("number", "<", before);
  const rows = await query.orderBy("number", "desc").limit(limit).execute();
  return rows.map((row) => ({
    number: Number(row.number),
    atMs: Number(row.at),
    who: row.who,
    action: row.action as Action,
    app: row.app === "" ? undefined : row.app,
    policy: row.policy ?? undefined,
    subject: row.subject ?? undefined,
  }));
}

/** @param nowMs what has expired by then is left out */
export async function readState(database: Database, nowMs: number): Promise<StoredState> {
  // Repeatable reads: policies of a later revision under an earlier number would never be corrected by a push.
  return database
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(async (transaction) => {
      const head = await transaction.selectFrom("meta").selectAll().where("id", "=", 1).executeTakeFirstOrThrow();
      const policies = await transaction
        .selectFrom("policies")
        .select(["app", "document"])
        .orderBy("app")
        .orderBy("name")
        .execute();
      const templates = await transaction.selectFrom("templates").select(["app", "name", "document"]).execute();
      const apps = await readApps(transaction);
      const bans = await readBans(transaction, nowMs);
      const callers = await readCallers(transaction, nowMs);
      return { epoch: head.epoch, revision: Number(head.revision), policies, apps, templates, bans, callers };
    });
}
