// Reads the history of revisions, and the whole state at the newest revision.

import { setImmediate } from "node:timers/promises";
import type { SnapshotBan } from "@sluice/limiter/compiled/bans.ts";
import type { SnapshotCaller } from "@sluice/limiter/protocol/push-messages.ts";
import type { Transaction } from "kysely";
import { type App, readApps } from "./apps.ts";
import { readBans } from "./bans.ts";
import type { Action } from "./entry.ts";
import type { Position } from "./epoch.ts";
import type { Database, RevisionTable, Tables } from "./tables.ts";
import { readCallers } from "./tokens.ts";

export interface Revision {
  readonly number: number;
  readonly atMs: number;
  readonly who: string;
  /** The address that the request came from; undefined if it is not known. */
  readonly from: string | undefined;
  readonly action: Action;
  /** Undefined if the change belongs to no app. */
  readonly app: string | undefined;
  readonly policy: string | undefined;
  readonly subject: string | undefined;
}

/** The content of a snapshot, at one revision. Documents are the JSON text that is stored. */
export interface StoredState {
  readonly epoch: string;
  readonly revision: number;
  /** The key for the proofs that gateways get. */
  readonly proofKey: string;
  readonly policies: readonly { readonly app: string; readonly document: string }[];
  readonly apps: readonly App[];
  readonly templates: readonly { readonly app: string; readonly name: string; readonly document: string }[];
  readonly bans: readonly SnapshotBan[];
  readonly callers: readonly SnapshotCaller[];
}

/**
 * Lists revisions, newest first.
 * @param apps lists only revisions of these apps since they were last created; undefined lists all
 * @param before lists only revisions with a lower number; undefined lists all
 */
export async function listRevisions(
  database: Database,
  apps: readonly string[] | undefined,
  before: number | undefined,
  limit: number,
): Promise<Revision[]> {
  let query = database
    .selectFrom("revisions")
    .select(["number", "at", "who", "source", "action", "app", "policy", "subject"]);
  if (apps?.length === 0) return [];
  if (apps !== undefined) {
    query = query.where("app", "in", apps);
    // Revisions of a deleted app with the same name are left out: it may have belonged to somebody else.
    const deleted = await database
      .selectFrom("revisions")
      .select(({ fn }) => ["app", fn.max("number").as("number")])
      .where("app", "in", apps)
      .where("action", "=", "delete-app" satisfies Action)
      .groupBy("app")
      .execute();
    for (const { app, number } of deleted) {
      query = query.where((row) => row.or([row("app", "!=", app), row("number", ">", Number(number))]));
    }
  }
  if (before !== undefined) query = query.where("number", "<", before);
  const rows = await query.orderBy("number", "desc").limit(limit).execute();
  return rows.map(revisionFrom);
}

export function revisionFrom(row: Omit<RevisionTable, "before" | "after">): Revision {
  return {
    number: Number(row.number),
    atMs: Number(row.at),
    who: row.who,
    from: row.source ?? undefined,
    action: row.action as Action,
    app: row.app === "" ? undefined : row.app,
    policy: row.policy ?? undefined,
    subject: row.subject ?? undefined,
  };
}

/** Policies that are read without a pause, which takes a millisecond or two. */
const policiesAtOnce = 500;

/** Reads only the newest position, without its content. */
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
  // Repeatable reads are needed: if policies of a later revision got an earlier revision's number, no push would correct
  // them.
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

/** Reads policies by app and name, one page at a time, so that other work can run in between. */
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
