// Stores sessions. A session has no rights of its own: they are those of its token or member at each request, so it ends with
// them.

import type { Transaction } from "kysely";
import { writeTrace } from "./audit.ts";
import type { Origin } from "./change.ts";
import type { Database, SessionTable, Tables } from "./tables.ts";
import { write } from "./write.ts";

export interface StoredSession {
  readonly id: string;
  /** SHA-256 of the secret, in hex. */
  readonly hash: string;
  /** The hash of the secret before; undefined: the secret never changed. */
  readonly formerHash: string | undefined;
  /** From which the next secret and the CSRF token are made. */
  readonly key: string;
  /** The id of the token by which somebody signed in; undefined: by OpenID Connect. */
  readonly token: string | undefined;
  /** The member who is signed in; undefined: by a service's token. */
  readonly member: string | undefined;
  readonly createdAtMs: number;
  readonly rotatedAtMs: number;
  /** When the present secret first came back; undefined: not yet. */
  readonly confirmedAtMs: number | undefined;
  /** Up to a minute late. */
  readonly usedAtMs: number;
  readonly endsAtMs: number;
}

/** A session that begins. */
export interface NewSession {
  readonly id: string;
  readonly hash: string;
  readonly key: string;
  readonly endsAtMs: number;
}

/** Of one token or member: the session that was used least recently ends when another one begins. */
const mostSessions = 50;
const rowsAtOnce = 100;

export async function readSession(
  database: Database | Transaction<Tables>,
  id: string,
): Promise<StoredSession | undefined> {
  return (await readSessions(database, [id])).get(id);
}

/** @returns those that there are, by their ids */
export async function readSessions(
  database: Database | Transaction<Tables>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, StoredSession>> {
  if (ids.length === 0) return new Map();
  const rows = await database
    .selectFrom("sessions")
    .selectAll()
    .where("id", "in", [...ids])
    .execute();
  return new Map(rows.map((row) => [row.id, storedFrom(row)]));
}

function storedFrom(row: SessionTable): StoredSession {
  return {
    id: row.id,
    hash: row.hash,
    formerHash: row.former_hash ?? undefined,
    key: row.session_key,
    token: row.token ?? undefined,
    member: row.member ?? undefined,
    createdAtMs: Number(row.created_at),
    rotatedAtMs: Number(row.rotated_at),
    confirmedAtMs: row.confirmed_at === null ? undefined : Number(row.confirmed_at),
    usedAtMs: Number(row.used_at),
    endsAtMs: Number(row.ends_at),
  };
}

/** @param of the token, the member or both, whose session it is */
export async function insertSession(
  transaction: Transaction<Tables>,
  session: NewSession,
  of: { readonly token?: string; readonly member?: string | undefined },
  nowMs: number,
): Promise<void> {
  const [column, owner] = of.member === undefined ? (["token", of.token] as const) : (["member", of.member] as const);
  const older = await transaction
    .selectFrom("sessions")
    .select("id")
    .where(column, "=", owner ?? "")
    .orderBy("used_at", "desc")
    .orderBy("id")
    .execute();
  const ended = older.slice(mostSessions - 1).map(({ id }) => id);
  if (ended.length > 0) await transaction.deleteFrom("sessions").where("id", "in", ended).execute();
  const row: SessionTable = {
    id: session.id,
    hash: session.hash,
    former_hash: null,
    session_key: session.key,
    token: of.token ?? null,
    member: of.member ?? null,
    created_at: nowMs,
    rotated_at: nowMs,
    confirmed_at: null,
    used_at: nowMs,
    ends_at: session.endsAtMs,
  };
  await transaction.insertInto("sessions").values(row).execute();
}

/** Stores that the session was used, and with `confirms` that its present secret came back. */
export async function noteSessionUse(
  database: Database,
  { id, hash }: StoredSession,
  confirms: boolean,
  nowMs: number,
): Promise<void> {
  await database
    .updateTable("sessions")
    .set({ used_at: nowMs, ...(confirms ? { confirmed_at: nowMs } : {}) })
    .where("id", "=", id)
    .where("hash", "=", hash)
    .execute();
}

/** Replaces the secret. If another control plane has done that already, with the same result, nothing changes. */
export async function rotateSession(
  database: Database,
  { id, hash }: StoredSession,
  nextHash: string,
  nowMs: number,
): Promise<void> {
  await database
    .updateTable("sessions")
    .set({ hash: nextHash, former_hash: hash, rotated_at: nowMs, confirmed_at: null, used_at: nowMs })
    .where("id", "=", id)
    .where("hash", "=", hash)
    .execute();
}

/** Ends a session, with an entry of the audit trail unless it has ended already. */
export function endSession(
  database: Database,
  origin: Origin,
  id: string,
  what: { readonly action: "sign-out" | "end-session"; readonly app: string; readonly reason?: string },
): Promise<void> {
  return write(database, async (transaction) => {
    const { numDeletedRows } = await transaction.deleteFrom("sessions").where("id", "=", id).executeTakeFirst();
    if (numDeletedRows === 0n) return;
    const after = what.reason === undefined ? {} : { after: JSON.stringify({ reason: what.reason }) };
    await writeTrace(transaction, origin, { action: what.action, app: what.app, subject: origin.who, ...after });
  });
}

/** Deletes a small number of sessions that have ended. @returns whether there may be more to delete */
export async function pruneSessions(database: Database, idleMs: number, nowMs: number): Promise<boolean> {
  const ended = await database
    .selectFrom("sessions")
    .select("id")
    .where((row) => row.or([row("ends_at", "<=", nowMs), row("used_at", "<=", nowMs - idleMs)]))
    .limit(rowsAtOnce)
    .execute();
  if (ended.length === 0) return false;
  await database
    .deleteFrom("sessions")
    .where(
      "id",
      "in",
      ended.map(({ id }) => id),
    )
    .execute();
  return ended.length === rowsAtOnce;
}
