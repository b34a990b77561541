// Bans: a network, or key values of a policy, until a time. They expire by themselves: expired bans are no longer read, and
// are deleted when the next ban is made.

import type { SnapshotBan } from "@sluice/limiter/compiled/bans.ts";
import { kindOfPatterns } from "@sluice/limiter/key/key-patterns.ts";
import { referredList } from "@sluice/limiter/key/network-lists.ts";
import type { Expression, ExpressionBuilder, SqlBool, Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { eitherSecret, partsFrom, type SecretParts, secretPartsOf, textOfParts } from "../secrets/secret-parts.ts";
import { getApp } from "./apps.ts";
import { change, type Origin } from "./change.ts";
import { knownLists } from "./network-lists.ts";
import { newId } from "./new-id.ts";
import type { BanTable, Database, PolicyTable, Tables } from "./tables.ts";
import { addUsage, takeRoom } from "./usage.ts";

/** Who is banned: a network, or the requests with these values of the policy's key, or with values like these. */
export type Banned =
  | { readonly cidr: string }
  | { readonly policy: string; readonly key: readonly string[] }
  | { readonly policy: string; readonly keyPattern: readonly string[] };

export interface Ban {
  readonly id: string;
  readonly app: string;
  readonly banned: Banned;
  /** A whole second, in milliseconds since 1970. */
  readonly untilMs: number;
  readonly reason: string | undefined;
  readonly createdAtMs: number;
  readonly createdBy: string;
  /** The revision that made the ban. */
  readonly revision: number;
  /** Which values may be credentials, by the policy as it is or as it was when the ban was made. */
  readonly secretParts: SecretParts;
}

/** A ban, as entries of the history have it. */
export interface BanDocument {
  readonly policy?: string;
  readonly key?: readonly string[];
  readonly keyPattern?: readonly string[];
  /** As `secretParts` of the ban; absent: no value is a credential. */
  readonly secret?: SecretParts;
}

/**
 * @param ban.check throws when the policy cannot have key values like the ban's; it gets undefined if there is no such
 * policy
 * @param ban.checkList throws if a list of networks that is to be banned is not there
 * @param ban.checkKinds throws if the policy's bans are of too many kinds, or those of all policies of the app; it gets their numbers
 * @throws ApiError app-not-found, too-many-bans, or what the checks throw
 */
export function createBan(
  database: Database,
  origin: Origin,
  ban: {
    app: string;
    banned: Banned;
    untilMs: number;
    reason: string | undefined;
    check(policy: unknown): void;
    checkList(isThere: boolean): void;
    checkKinds(ofPolicy: number, ofApp: number): void;
    total: TotalBounds;
  },
): Promise<Ban> {
  const { app, banned, untilMs, reason } = ban;
  return change(database, origin, async (transaction, record) => {
    await getApp(transaction, app);
    let secretParts: SecretParts = [];
    if ("policy" in banned) {
      const policy = await transaction
        .selectFrom("policies")
        .select("document")
        .where("app", "=", app)
        .where("name", "=", banned.policy)
        .executeTakeFirst();
      const document = policy === undefined ? undefined : JSON.parse(policy.document);
      ban.check(document);
      secretParts = secretPartsOf(document);
    }
    const list = "cidr" in banned ? referredList(banned.cidr) : undefined;
    if (list !== undefined) ban.checkList((await knownLists(transaction, app, [list])).has(list));
    await sweepBans(transaction, origin.atMs);
    const id = newId(origin.atMs);
    const bytes = banBytes({ id, app, banned, untilMs });
    await takeRoom(transaction, app, { bans: 1, banBytes: bytes }, ban.total);
    const kind = "keyPattern" in banned ? kindOfPatterns(banned.keyPattern) : null;
    if (kind !== null && "policy" in banned) {
      const kinds = await kindsOfBans(transaction, app);
      const isNew = !kinds.some((known) => known.policy === banned.policy && known.pattern_kind === kind);
      const ofPolicy = kinds.filter(({ policy }) => policy === banned.policy);
      ban.checkKinds(ofPolicy.length + Number(isNew), kinds.length + Number(isNew));
    }
    const after = documentText({ banned, secretParts, untilMs, reason });
    const ofPolicy = "policy" in banned ? { policy: banned.policy } : {};
    const revision = await record({ action: "create-ban", app, ...ofPolicy, subject: id, after });
    const row: BanTable = {
      id,
      app,
      cidr: "cidr" in banned ? banned.cidr : null,
      policy: "policy" in banned ? banned.policy : null,
      key_values: "key" in banned ? JSON.stringify(banned.key) : null,
      key_pattern: "keyPattern" in banned ? JSON.stringify(banned.keyPattern) : null,
      pattern_kind: kind,
      until_at: untilMs,
      reason: reason ?? null,
      created_at: origin.atMs,
      created_by: origin.who,
      revision,
      bytes,
      secret_parts: textOfParts(secretParts),
    };
    await transaction.insertInto("bans").values(row).execute();
    return banFrom(row);
  });
}

/** Returns the kinds of patterns of the app's bans, of each policy. */
function kindsOfBans(
  transaction: Transaction<Tables>,
  app: string,
): Promise<Pick<BanTable, "policy" | "pattern_kind">[]> {
  return transaction
    .selectFrom("bans")
    .select(["policy", "pattern_kind"])
    .distinct()
    .where("app", "=", app)
    .where("pattern_kind", "is not", null)
    .execute();
}

/** Lists bans in the order they were made, after the given id. @throws ApiError app-not-found */
export async function listBans(
  database: Database,
  app: string,
  nowMs: number,
  after: string,
  limit: number,
): Promise<Ban[]> {
  await getApp(database, app);
  const rows = await bansInForce(database, app, nowMs)
    .where("bans.id", ">", after)
    .orderBy("bans.id")
    .limit(limit)
    .execute();
  return rows.map(banFrom);
}

/** @throws ApiError app-not-found, ban-not-found */
export async function getBan(
  database: Database | Transaction<Tables>,
  app: string,
  nowMs: number,
  id: string,
): Promise<Ban> {
  await getApp(database, app);
  const row = await bansInForce(database, app, nowMs).where("bans.id", "=", id).executeTakeFirst();
  if (row === undefined) throw new ApiError("ban-not-found", `The app "${app}" has no ban "${id}" in force.`);
  return banFrom(row);
}

/** Each with the secret parts of its policy, as it is now. */
function bansInForce(database: Database | Transaction<Tables>, app: string, nowMs: number) {
  return database
    .selectFrom("bans")
    .leftJoin("policies", (join) =>
      join.onRef("policies.app", "=", "bans.app").onRef("policies.name", "=", "bans.policy"),
    )
    .selectAll("bans")
    .select("policies.secret_parts as policy_secret_parts")
    .where("bans.app", "=", app)
    .where("bans.until_at", ">", nowMs);
}

/** @throws ApiError app-not-found, ban-not-found */
export function deleteBan(database: Database, origin: Origin, app: string, id: string): Promise<number> {
  return change(database, origin, async (transaction, record) => {
    const ban = await getBan(transaction, app, origin.atMs, id);
    const { banned } = ban;
    await deleteBans(transaction, (row) => row("id", "=", id));
    const before = documentText(ban);
    const ofPolicy = "policy" in banned ? { policy: banned.policy } : {};
    return record({ action: "delete-ban", app, ...ofPolicy, subject: id, before });
  });
}

function documentText({
  banned,
  secretParts,
  untilMs,
  reason,
}: Pick<Ban, "banned" | "secretParts" | "untilMs" | "reason">): string {
  const secret = secretParts.length === 0 ? {} : { secret: secretParts };
  return JSON.stringify({ ...banned, ...secret, until: new Date(untilMs).toISOString(), reason });
}

/** Deletes expired bans. They are not in any list any more. */
export function sweepBans(transaction: Transaction<Tables>, nowMs: number): Promise<void> {
  return deleteBans(transaction, (row) => row("until_at", "<=", nowMs));
}

/** Deletes the bans of these policies' key values. */
export function deleteBansOfPolicies(
  transaction: Transaction<Tables>,
  app: string,
  policies: readonly string[],
): Promise<void> {
  return deleteBans(transaction, (row) => row.and([row("app", "=", app), row("policy", "in", policies)]));
}

type BanCondition = (row: ExpressionBuilder<Tables, "bans">) => Expression<SqlBool>;

async function deleteBans(transaction: Transaction<Tables>, chosen: BanCondition): Promise<void> {
  const sums = await transaction
    .selectFrom("bans")
    .select((row) => ["app", row.fn.countAll().as("count"), row.fn.sum("bytes").as("bytes")])
    .where(chosen)
    .groupBy("app")
    .execute();
  if (sums.length === 0) return;
  await transaction.deleteFrom("bans").where(chosen).execute();
  for (const { app, count, bytes } of sums) {
    await addUsage(transaction, app, { bans: -Number(count), banBytes: -Number(bytes) });
  }
}

/** Reads bans in force, in the form of a snapshot. @param ids only these; absent: all */
export async function readBans(
  transaction: Transaction<Tables>,
  nowMs: number,
  ids?: readonly string[],
): Promise<SnapshotBan[]> {
  let query = transaction.selectFrom("bans").selectAll().where("until_at", ">", nowMs);
  if (ids !== undefined) query = query.where("id", "in", ids);
  const rows = await query.orderBy("id").execute();
  return rows.map((row) => snapshotBan(banFrom(row)));
}

/** Returns the size of the ban's line in a snapshot. */
export function banBytes(ban: Pick<Ban, "id" | "app" | "banned" | "untilMs">): number {
  return Buffer.byteLength(JSON.stringify(snapshotBan(ban))) + 2;
}

function snapshotBan({ id, app, banned, untilMs }: Pick<Ban, "id" | "app" | "banned" | "untilMs">): SnapshotBan {
  return { id, app, ...(banned as Partial<SnapshotBan>), untilSeconds: untilMs / 1_000 };
}

/** @param row with the secret parts of the ban's policy, if they were read */
export function banFrom(row: BanTable & { readonly policy_secret_parts?: PolicyTable["secret_parts"] }): Ban {
  return {
    id: row.id,
    app: row.app,
    banned: bannedFrom(row),
    untilMs: Number(row.until_at),
    reason: row.reason ?? undefined,
    createdAtMs: Number(row.created_at),
    createdBy: row.created_by,
    revision: Number(row.revision),
    secretParts: eitherSecret(partsFrom(row.secret_parts), partsFrom(row.policy_secret_parts)),
  };
}

function bannedFrom({ cidr, policy, key_values, key_pattern }: BanTable): Banned {
  if (cidr !== null) return { cidr };
  if (key_pattern !== null) return { policy: policy ?? "", keyPattern: JSON.parse(key_pattern) };
  return { policy: policy ?? "", key: JSON.parse(key_values ?? "[]") };
}
