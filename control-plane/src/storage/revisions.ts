// The history: what each revision changed, and the whole state at the newest one.

import { setImmediate } from "node:timers/promises";
import type { SnapshotBan } from "@sluice/limiter/compiled/bans.ts";
import type { SnapshotCaller } from "@sluice/limiter/protocol/push-messages.ts";
import { sql, type Transaction } from "kysely";
import { type App, readApps } from "./apps.ts";
import { readBans } from "./bans.ts";
import type { Action } from "./change.ts";
import type { Database } from "./database.ts";
import type { Position } from "./epoch.ts";
import type { Tables } from "./tables.ts";
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
  /** The key of the proofs that gateways get. */
  readonly proofKey: string;
  readonly policies: readonly { readonly app: string; readonly document: string }[];
  readonly apps: readonly App[];
  readonly templates: readonly { readonly app: string; readonly name: string; readonly document: string }[];
  readonly bans: readonly SnapshotBan[];
  readonly callers: readonly SnapshotCaller[];
}

/**
 * Newest first.
 * @param app only those of its since it was last created, or undefined for all
 * @param before only those with a lower number, or undefined for all
 */
export async function listRevisions(
  database: Database,
  app: string | undefined,
  before: number | undefined,
  limit: number,
): Promise<Revision[]> {
  let query = database.selectFrom("revisions").select(["number", "at", "who", "action", "app", "policy", "subject"]);
  if (app !== undefined) {
    // Not what a deleted app of the same name did: it may have been somebody else's.
    const deleted = database
      .selectFrom("revisions")
      .select(({ fn }) => fn.coalesce(fn.max("number"), sql.lit(0)).as("number"))
      .where("app", "=", app)
      .where("action", "=", "delete-app" satisfies Action);
    query = query.where("app", "=", app).where("number", ">", deleted);
  }
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

/** So many policies are read without a pause: a millisecond or two. */
const policiesAtOnce = 500;

/** The newest revision, and nothing of what it holds. */
export async function readHead(database: Database): Promise<Position> {
  const { epoch, revision } = await database
    .selectFrom("meta")
    .select(["epoch", "revision"])
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  return { epoch, revision: Number(revision) };
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
      const policies = await readPolicies(transaction);
      const templates = await transaction.selectFrom("templates").select(["app", "name", "document"]).execute();
      const apps = await readApps(transaction);
      const bans = await readBans(transaction, nowMs);
      const callers = await readCallers(transaction, nowMs);
      const { epoch, proof_key: proofKey } = head;
      return { epoch, revision: Number(head.revision), proofKey, policies, apps, templates, bans, callers };
    });
}

/** By app and name, a page at a time: what else there is to do need not wait for the last one. */
async function readPolicies(transaction: Transaction<Tables>): Promise<{ app: string; document: string }[]> {
  const policies: { app: string; document: string }[] = [];
  let last = { app: "", name: "" };
  while (true) {
    const { app, name } = last;
    const page = await transaction
      .selectFrom("policies")
      .select(["app", "name", "document"])
      .where((row) => row.or([row("app", ">", app), row.and([row("app", "=", app), row("name", ">", name)])]))
      .orderBy("app")
      .orderBy("name")
      .limit(policiesAtOnce)
      .execute();
    for (const { app, document } of page) policies.push({ app, document });
    const end = page.at(-1);
    if (end === undefined || page.length < policiesAtOnce) return policies;
    last = end;
    await setImmediate();
  }
}
