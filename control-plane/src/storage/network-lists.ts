// Named lists of networks, which exemptions and bans refer to. A list is replaced as a whole. The history says how many networks a list
// had before and after, and which came and went if they are few: a hundred thousand in each entry would leave no room for policies.

import { setImmediate } from "node:timers/promises";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { pauses } from "../limits/pauses.ts";
import type { NewNetworkList } from "../networks/read-networks.ts";
import { getApp } from "./apps.ts";
import { change, type Origin, type Precondition } from "./change.ts";
import type { Database, NetworkListTable, Tables } from "./tables.ts";
import { addUsage, takeRoom } from "./usage.ts";

/** What is told of a list without its networks. */
export interface NetworkListSummary {
  readonly name: string;
  readonly count: number;
  /** Size of the ranges. */
  readonly bytes: number;
  /** The revision that last changed it. */
  readonly revision: number;
  readonly updatedAtMs: number;
}

export interface StoredNetworkList extends NetworkListSummary {
  readonly networks: readonly string[];
}

/** A list as gateways get it. */
export interface ListRanges {
  readonly app: string;
  readonly name: string;
  /** As in the table. */
  readonly ranges: string;
}

const summaryColumns = ["name", "count", "bytes", "revision", "updated_at"] as const;

/** Lists by name, after the given one. @throws ApiError app-not-found */
export async function listNetworkLists(
  database: Database,
  app: string,
  after: string,
  limit: number,
): Promise<NetworkListSummary[]> {
  await getApp(database, app);
  const rows = await database
    .selectFrom("network_lists")
    .select(summaryColumns)
    .where("app", "=", app)
    .where("name", ">", after)
    .orderBy("name")
    .limit(limit)
    .execute();
  return rows.map(summaryFrom);
}

/** @throws ApiError app-not-found, networks-not-found */
export async function getNetworkList(database: Database, app: string, name: string): Promise<StoredNetworkList> {
  await getApp(database, app);
  const row = await database
    .selectFrom("network_lists")
    .selectAll()
    .where("app", "=", app)
    .where("name", "=", name)
    .executeTakeFirst();
  if (row === undefined) throw notFound(app, name);
  return { ...summaryFrom(row), networks: networksIn(row.networks) };
}

/**
 * Stores a list. If it has the same networks already, nothing changes and there is no new revision.
 *
 * @throws ApiError app-not-found, bound-exceeded, or what the precondition throws
 */
export function putNetworkList(
  database: Database,
  origin: Origin,
  put: {
    readonly app: string;
    readonly name: string;
    readonly list: NewNetworkList;
    /** Whether a list that has networks may be replaced by an empty one. */
    readonly mayBecomeEmpty: boolean;
    readonly precondition: Precondition;
    readonly total: TotalBounds;
  },
): Promise<{ revision: number; created: boolean }> {
  const { app, name, list } = put;
  return change(database, origin, async (transaction, record) => {
    await getApp(transaction, app);
    const row = await transaction
      .selectFrom("network_lists")
      .select(["revision", "networks", "count", "bytes"])
      .where("app", "=", app)
      .where("name", "=", name)
      .executeTakeFirst();
    put.precondition(row === undefined ? undefined : Number(row.revision));
    if (list.count === 0 && Number(row?.count ?? 0) > 0 && !put.mayBecomeEmpty) throw noNetwork();
    if (row?.networks === list.networks) return { revision: Number(row.revision), created: false };
    const more = { networkLists: row === undefined ? 1 : 0, networkBytes: list.bytes - Number(row?.bytes ?? 0) };
    await takeRoom(transaction, app, more, put.total);
    const revision = await record({
      action: row === undefined ? "create-networks" : "update-networks",
      app,
      subject: name,
      ...(row === undefined ? {} : { before: await described(row) }),
      after: await described(list, row),
    });
    const values = { ...list, revision, updated_at: origin.atMs };
    if (row === undefined) {
      await transaction
        .insertInto("network_lists")
        .values({ app, name, ...values })
        .execute();
    } else {
      await transaction
        .updateTable("network_lists")
        .set(values)
        .where("app", "=", app)
        .where("name", "=", name)
        .execute();
    }
    return { revision, created: row === undefined };
  });
}

/** @throws ApiError app-not-found, networks-not-found, networks-in-use, or what the precondition throws */
export function deleteNetworkList(
  database: Database,
  origin: Origin,
  app: string,
  name: string,
  precondition: Precondition,
): Promise<number> {
  return change(database, origin, async (transaction, record) => {
    await getApp(transaction, app);
    const row = await transaction
      .selectFrom("network_lists")
      .select(["revision", "networks", "count", "bytes"])
      .where("app", "=", app)
      .where("name", "=", name)
      .executeTakeFirst();
    if (row === undefined) throw notFound(app, name);
    precondition(Number(row.revision));
    await requireUnused(transaction, app, name, origin.atMs);
    await transaction.deleteFrom("network_lists").where("app", "=", app).where("name", "=", name).execute();
    await addUsage(transaction, app, { networkLists: -1, networkBytes: -Number(row.bytes) });
    return record({ action: "delete-networks", app, subject: name, before: await described(row) });
  });
}

/** Returns which of the names are lists that the app can refer to: its own, and those of app `default`. */
export async function knownLists(
  database: Database | Transaction<Tables>,
  app: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const rows = await database
    .selectFrom("network_lists")
    .select("name")
    .where("app", "in", [app, "default"])
    .where("name", "in", [...names])
    .execute();
  return new Set(rows.map((row) => row.name));
}

/** Reads lists for gateways. @param wanted only these; absent: all */
export async function readListRanges(
  transaction: Transaction<Tables>,
  wanted?: readonly { readonly app: string; readonly name: string }[],
): Promise<ListRanges[]> {
  let query = transaction.selectFrom("network_lists").select(["app", "name", "ranges"]);
  if (wanted !== undefined) {
    if (wanted.length === 0) return [];
    query = query.where((row) =>
      row.or(wanted.map(({ app, name }) => row.and([row("app", "=", app), row("name", "=", name)]))),
    );
  }
  return await query.orderBy("app").orderBy("name").execute();
}

/** The most users that an error names. */
const mostNamed = 20;

/** A list of app `default` may be used by every app, unless it has one of its own with this name. */
async function requireUnused(
  transaction: Transaction<Tables>,
  app: string,
  name: string,
  nowMs: number,
): Promise<void> {
  const reference = `@${name}`;
  const mentioned = `%"${reference}"%`;
  const others = await transaction.selectFrom("network_lists").select("app").where("name", "=", name).execute();
  const withOwn = new Set(others.map((row) => row.app));
  const uses = (of: string) => of === app || (app === "default" && !withOwn.has(of));
  const policies = await transaction
    .selectFrom("policies")
    .select(["app", "name", "document"])
    .where("document", "like", mentioned)
    .orderBy("app")
    .orderBy("name")
    .execute();
  const apps = await transaction
    .selectFrom("apps")
    .select(["name", "exempt"])
    .where("exempt", "like", mentioned)
    .execute();
  const bans = await transaction
    .selectFrom("bans")
    .select(["app", "id"])
    .where("cidr", "=", reference)
    .where("until_at", ">", nowMs)
    .execute();
  const ofPolicies = policies.filter((row) => uses(row.app) && refersTo(row.document, reference));
  const users = [
    ...ofPolicies.map((row) => `the policy "${row.name}" of app "${row.app}"`),
    ...apps.filter((row) => uses(row.name)).map((row) => `the exemptions of app "${row.name}"`),
    ...bans.filter((row) => uses(row.app)).map((row) => `the ban "${row.id}" of app "${row.app}"`),
  ];
  if (users.length === 0) return;
  const some = users.length > mostNamed ? [...users.slice(0, mostNamed), "others"] : users;
  throw new ApiError("networks-in-use", `The list "${name}" is used by ${some.join(", ")}.`, {
    policies: ofPolicies.slice(0, mostNamed).map((row) => row.name),
  });
}

/** The same text may stand in a description. */
function refersTo(document: string, reference: string): boolean {
  const { exempt } = JSON.parse(document) as { exempt?: { cidrs?: readonly unknown[] } };
  return exempt?.cidrs?.includes(reference) === true;
}

const mostToldNetworks = 50;

type Listed = Pick<NetworkListTable, "networks" | "count">;

/** Returns what the history says of a list. @param before the list that it was; undefined: the entry is about this one alone */
async function described({ networks, count }: Listed, before?: Listed): Promise<string> {
  // Another thread computes it.
  const sha256 = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(networks))).toString("hex");
  const change = before === undefined ? {} : await difference(networksIn(before.networks), networksIn(networks));
  return JSON.stringify({ count: Number(count), sha256, ...change });
}

/** Networks that are compared without looking how long it took. */
const comparedAtOnce = 1_000;

async function difference(before: readonly string[], after: readonly string[]): Promise<object> {
  const pause = pauses(setImmediate);
  const only = new Set<string>();
  for (const [i, network] of before.entries()) {
    only.add(network);
    if (i % comparedAtOnce === 0) await pause();
  }
  const added: string[] = [];
  for (const [i, network] of after.entries()) {
    if (!only.delete(network)) added.push(network);
    if (i % comparedAtOnce === 0) await pause();
  }
  const removed = [...only];
  return {
    added: added.length,
    removed: removed.length,
    ...(added.length > mostToldNetworks ? {} : { addedNetworks: added }),
    ...(removed.length > mostToldNetworks ? {} : { removedNetworks: removed }),
  };
}

function networksIn(text: string): string[] {
  return text === "" ? [] : text.split("\n");
}

function notFound(app: string, name: string): ApiError {
  return new ApiError("networks-not-found", `The app "${app}" has no list of networks "${name}".`);
}

function summaryFrom({
  name,
  count,
  bytes,
  revision,
  updated_at,
}: Pick<NetworkListTable, (typeof summaryColumns)[number]>) {
  return {
    name,
    count: Number(count),
    bytes: Number(bytes),
    revision: Number(revision),
    updatedAtMs: Number(updated_at),
  };
}

/** A feed that failed is often an empty file. */
function noNetwork(): ApiError {
  const detail =
    "The body has no network, and the stored list has some. To empty it, send ?allowEmpty=true. Nothing was stored.";
  return new ApiError("invalid-networks", detail, {
    errors: [{ path: "", expected: "one network or more", got: "none" }],
  });
}
