// Reads the state that gateways are to have: all of it at the newest revision, or what has changed since a revision.

import { setImmediate } from "node:timers/promises";
import type { SnapshotBan } from "@sluice/limiter/compiled/bans.ts";
import type { SnapshotCaller } from "@sluice/limiter/protocol/push-messages.ts";
import type { Transaction } from "kysely";
import type { Templates } from "../templates/resolve-templates.ts";
import { type App, readApps } from "./apps.ts";
import { readBans } from "./bans.ts";
import { type Action, isOfMany } from "./entry.ts";
import type { Position } from "./epoch.ts";
import { documentsTouched, touchingEntries } from "./history.ts";
import { type ListRanges, readListRanges } from "./network-lists.ts";
import type { Database, Tables } from "./tables.ts";
import { readTemplates } from "./template-documents.ts";
import { type Term, termsFrom } from "./terms.ts";
import { readCallers } from "./tokens.ts";

/** The content of a snapshot, at one revision. Documents are the JSON text that is stored. */
export interface StoredState {
  readonly epoch: string;
  readonly revision: number;
  /** The key for the proofs that gateways get. */
  readonly proofKey: string;
  readonly terms: readonly Term[];
  readonly policies: readonly { readonly app: string; readonly name: string; readonly document: string }[];
  readonly apps: readonly App[];
  readonly templates: readonly { readonly app: string; readonly name: string; readonly document: string }[];
  readonly networkLists: readonly ListRanges[];
  readonly bans: readonly SnapshotBan[];
  readonly callers: readonly SnapshotCaller[];
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
      const networkLists = await readListRanges(transaction);
      const bans = await readBans(transaction, nowMs);
      const callers = await readCallers(transaction, nowMs);
      const { epoch, proof_key: proofKey } = head;
      const revision = Number(head.revision);
      const terms = termsFrom(epoch, head.terms);
      return { epoch, revision, proofKey, terms, policies, apps, templates, networkLists, bans, callers };
    });
}

/** What has changed in the state since a revision. Undefined as a value: it is gone. */
export interface StateChanges {
  readonly epoch: string;
  /** The revision at which the state is so. */
  readonly revision: number;
  readonly proofKey: string;
  readonly terms: readonly Term[];
  readonly policies: readonly ChangedPolicy[];
  readonly apps: readonly ChangedApp[];
  readonly networkLists: readonly {
    readonly app: string;
    readonly name: string;
    /** As in the table. */
    readonly ranges: string | undefined;
  }[];
  readonly bans: readonly { readonly id: string; readonly ban: SnapshotBan | undefined }[];
  /** All callers of apps in which any has come or gone. */
  readonly callers: readonly { readonly app: string; readonly callers: readonly SnapshotCaller[] }[];
  /** By app: the templates of those whose changed policies may use any. */
  readonly templates: ReadonlyMap<string, Templates>;
}

export interface ChangedApp {
  readonly name: string;
  readonly app: App | undefined;
  /** It was gone at some time since then, and its bans with it, even if it is there now. */
  readonly wasDeleted: boolean;
}

export interface ChangedPolicy {
  readonly app: string;
  readonly name: string;
  readonly document: string | undefined;
  /** It was gone at some time since then, even if it is there now. */
  readonly wasDeleted: boolean;
}

/** With more changes than this, the whole state is read instead. */
const mostChangesRead = 20_000;

/**
 * Reads what has changed since a position, at a cost that grows with the changes alone.
 *
 * @param nowMs bans and tokens that have expired by then count as gone
 * @returns undefined: the history does not say, so the whole state must be read
 */
export async function readChanges(
  database: Database,
  since: Position,
  nowMs: number,
): Promise<StateChanges | undefined> {
  return database
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(async (transaction) => {
      const head = await transaction.selectFrom("meta").selectAll().where("id", "=", 1).executeTakeFirstOrThrow();
      const { epoch, proof_key: proofKey } = head;
      const revision = Number(head.revision);
      const terms = termsFrom(epoch, head.terms);
      if (epoch !== since.epoch || revision < since.revision || revision - since.revision > mostChangesRead) {
        return undefined;
      }
      const touched = await findTouched(transaction, since.revision, revision);
      if (touched === undefined) return undefined;
      const policies = await readTouchedPolicies(transaction, touched);
      const apps = await readTouchedApps(transaction, touched.apps);
      const networkLists = await readTouchedLists(transaction, touched.networkLists);
      const bans = await readTouchedBans(transaction, touched.bans, nowMs);
      const callers: { app: string; callers: SnapshotCaller[] }[] = [];
      for (const app of touched.appsOfCallers)
        callers.push({ app, callers: await readCallers(transaction, nowMs, app) });
      const templates = new Map<string, Templates>();
      for (const { app, document } of policies) {
        if (templates.has(app) || document?.includes('"template"') !== true) continue;
        templates.set(app, await readTemplates(transaction, app));
      }
      return { epoch, revision, proofKey, terms, policies, apps, networkLists, bans, callers, templates };
    });
}

/** What the history says was changed. */
interface Touched {
  /** By app, then by name: whether the policy was gone at some time. */
  readonly policies: Map<string, Map<string, boolean>>;
  /** Apps with a changed template. */
  readonly appsOfTemplates: Set<string>;
  /** By name: whether the app was gone at some time. */
  readonly apps: Map<string, boolean>;
  /** By app and name. */
  readonly networkLists: Map<string, { readonly app: string; readonly name: string }>;
  readonly bans: Set<string>;
  readonly appsOfCallers: Set<string>;
}

/** @returns undefined: some of the entries are not kept any more, or begin another history */
async function findTouched(
  transaction: Transaction<Tables>,
  after: number,
  until: number,
): Promise<Touched | undefined> {
  const touched: Touched = {
    policies: new Map(),
    appsOfTemplates: new Set(),
    apps: new Map(),
    networkLists: new Map(),
    bans: new Set(),
    appsOfCallers: new Set(),
  };
  const rows = await touchingEntries(transaction, after, until);
  if (rows.length !== until - after) return undefined;
  for (const row of rows) {
    const action = row.action as Action;
    if (action === "new-epoch" || action === "begin-epoch") return undefined;
    if (action === "create-caller" || action === "delete-caller" || action === "delete-app") {
      touched.appsOfCallers.add(row.app);
    }
    const documents = await documentsTouched(transaction, row);
    if (isOfMany(action)) await setImmediate();
    for (const { kind, app, name, existsAfter } of documents) {
      if (kind === "app") touched.apps.set(name, action === "delete-app" || touched.apps.get(name) === true);
      else if (kind === "ban") touched.bans.add(name);
      else if (kind === "networks") touched.networkLists.set(`${app}:${name}`, { app, name });
      else if (kind === "template") touched.appsOfTemplates.add(app);
      else {
        const ofApp = touched.policies.get(app) ?? new Map<string, boolean>();
        touched.policies.set(app, ofApp);
        ofApp.set(name, !existsAfter || ofApp.get(name) === true);
      }
    }
  }
  return touched;
}

async function readTouchedPolicies(
  transaction: Transaction<Tables>,
  { policies: touched, appsOfTemplates }: Touched,
): Promise<ChangedPolicy[]> {
  const found: ChangedPolicy[] = [];
  for (const [app, names] of touched) {
    const all = [...names.keys()];
    for (let at = 0; at < all.length; at += policiesAtOnce) {
      const some = all.slice(at, at + policiesAtOnce);
      const rows = await transaction
        .selectFrom("policies")
        .select(["name", "document"])
        .where("app", "=", app)
        .where("name", "in", some)
        .execute();
      const documents = new Map(rows.map(({ name, document }) => [name, document]));
      for (const name of some) {
        found.push({ app, name, document: documents.get(name), wasDeleted: names.get(name) === true });
      }
      if (all.length > policiesAtOnce) await setImmediate();
    }
  }
  for (const app of appsOfTemplates) {
    const rows = await transaction
      .selectFrom("policies")
      .select(["name", "document"])
      .where("app", "=", app)
      .where("document", "like", '%"template"%')
      .execute();
    const known = touched.get(app);
    for (const { name, document } of rows) {
      if (known?.has(name) !== true) found.push({ app, name, document, wasDeleted: false });
    }
  }
  return found;
}

async function readTouchedApps(
  transaction: Transaction<Tables>,
  touched: ReadonlyMap<string, boolean>,
): Promise<StateChanges["apps"]> {
  if (touched.size === 0) return [];
  const apps = new Map((await readApps(transaction, [...touched.keys()])).map((app) => [app.name, app]));
  return [...touched].map(([name, wasDeleted]) => ({ name, app: apps.get(name), wasDeleted }));
}

async function readTouchedLists(
  transaction: Transaction<Tables>,
  touched: Touched["networkLists"],
): Promise<StateChanges["networkLists"]> {
  const wanted = [...touched.values()];
  const found = await readListRanges(transaction, wanted);
  return wanted.map(({ app, name }) => ({
    app,
    name,
    ranges: found.find((one) => one.app === app && one.name === name)?.ranges,
  }));
}

async function readTouchedBans(
  transaction: Transaction<Tables>,
  ids: ReadonlySet<string>,
  nowMs: number,
): Promise<StateChanges["bans"]> {
  if (ids.size === 0) return [];
  const bans = new Map((await readBans(transaction, nowMs, [...ids])).map((ban) => [ban.id, ban]));
  return [...ids].map((id) => ({ id, ban: bans.get(id) }));
}

/** Reads policies by app and name, one page at a time, so that other work can run in between. */
async function readPolicies(transaction: Transaction<Tables>): Promise<StoredState["policies"]> {
  const policies: { app: string; name: string; document: string }[] = [];
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
    policies.push(...page);
    const end = page.at(-1);
    if (end === undefined || page.length < policiesAtOnce) return policies;
    last = end;
    await setImmediate();
  }
}
