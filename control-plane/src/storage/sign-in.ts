// Signing in: the session, what a provider says about a person, and the entry of the audit trail are stored together.

import type { Transaction } from "kysely";
import { ApiError } from "../errors/api-error.ts";
import type { Caller } from "../rights/caller.ts";
import { trace, writeTrace } from "./audit.ts";
import type { Origin } from "./change.ts";
import { findByIdentity, getMember, type Identity, insertMember, isNameTaken } from "./members.ts";
import { insertSession, type NewSession } from "./sessions.ts";
import type { Database, Tables } from "./tables.ts";
import { write } from "./write.ts";

/** Where and when somebody signs in. */
export type Place = Omit<Origin, "who" | "dryRun">;

/** Somebody whom a provider has identified. */
export interface Person extends Identity {
  /** How the history is to name the person, if they are new. */
  readonly name: string;
  /** Those groups of the person that the operator's mapping names. */
  readonly groups: readonly string[];
}

/**
 * @returns when the session ends: with the token at the latest
 * @throws ApiError unauthorized if the token, or its member, is not valid any more: a session must not outlive either
 */
export function signInByToken(database: Database, place: Place, caller: Caller, session: NewSession): Promise<number> {
  return write(database, async (transaction) => {
    const token = await transaction
      .selectFrom("tokens")
      .select(["name", "expires_at"])
      .where("id", "=", caller.id)
      .executeTakeFirst();
    if (token === undefined) throw new ApiError("unauthorized", "The token was deleted meanwhile.");
    if (caller.member !== undefined && (await getMember(transaction, caller.member)).disabledAtMs !== undefined) {
      throw new ApiError("unauthorized", "The member to whom the token belongs is disabled.");
    }
    const endsAtMs = Math.min(session.endsAtMs, Number(token.expires_at ?? session.endsAtMs));
    const of = { token: caller.id, member: caller.member };
    await insertSession(transaction, { ...session, endsAtMs }, of, place.atMs);
    await writeTrace(
      transaction,
      { ...place, who: caller.who },
      {
        action: "sign-in",
        app: appOf(caller),
        subject: token.name,
        after: JSON.stringify({ by: "token" }),
      },
    );
    return endsAtMs;
  });
}

/** Returns the app whose owners see a service's sign-ins; empty: only admins do. */
export function appOf({ member, roles }: Caller): string {
  return member === undefined ? ([...roles.keys()][0] ?? "") : "";
}

/**
 * Signs in the member with this identity, who is made if there is none.
 *
 * @returns the member's name
 * @throws ApiError sign-in-refused
 */
export function signInByIdentity(
  database: Database,
  place: Place,
  person: Person,
  session: NewSession,
): Promise<string> {
  return write(database, async (transaction) => {
    const known = await findByIdentity(transaction, person);
    if (known?.disabledAtMs !== undefined) {
      throw new ApiError("sign-in-refused", `The member "${known.name}" is disabled.`);
    }
    const name = known?.name ?? (await insertPerson(transaction, place, person));
    await storeGroups(transaction, name, person.groups, place.atMs);
    await insertSession(transaction, session, { member: name }, place.atMs);
    await writeTrace(
      transaction,
      { ...place, who: name },
      {
        action: "sign-in",
        app: "",
        subject: name,
        after: JSON.stringify({ by: "openid", groups: person.groups }),
      },
    );
    return name;
  });
}

/** Two people may have one name, at the provider and here: only an admin can tell. */
async function insertPerson(transaction: Transaction<Tables>, place: Place, person: Person): Promise<string> {
  try {
    await insertMember(transaction, { ...place, who: person.name }, person.name, {}, { identity: person });
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "member-exists")) throw error;
    throw new ApiError(
      "sign-in-refused",
      `${error.message} This account is not theirs: ask an admin to delete that member, or to let this account have another name.`,
    );
  }
  return person.name;
}

async function storeGroups(
  transaction: Transaction<Tables>,
  member: string,
  groups: readonly string[],
  nowMs: number,
): Promise<void> {
  const stored = await transaction
    .selectFrom("member_groups")
    .select("group_name")
    .where("member", "=", member)
    .execute();
  const before = stored.map((row) => row.group_name).sort();
  const isSame = JSON.stringify(before) === JSON.stringify([...groups].sort());
  await transaction.deleteFrom("member_groups").where("member", "=", member).execute();
  if (groups.length > 0) {
    const rows = groups.map((group_name) => ({ member, group_name }));
    await transaction.insertInto("member_groups").values(rows).execute();
  }
  await transaction
    .updateTable("members")
    .set((row) => ({ groups_at: nowMs, version: row("version", "+", isSame ? 0 : 1) }))
    .where("name", "=", member)
    .execute();
}

/** Notes that somebody could not sign in. @param who as far as it is known */
export function refuseSignIn(database: Database, place: Place, who: string, reason: string): Promise<void> {
  return trace(database, { ...place, who }, refusal(who, reason));
}

/**
 * Notes that somebody whom the provider has identified could not sign in. Without a group that gives rights, they lose what former
 * groups gave, and their sessions.
 */
export function refusePerson(database: Database, place: Place, person: Person, reason: string): Promise<void> {
  return write(database, async (transaction) => {
    const known = await findByIdentity(transaction, person);
    if (known !== undefined && person.groups.length === 0) {
      await storeGroups(transaction, known.name, [], place.atMs);
      await transaction.deleteFrom("sessions").where("member", "=", known.name).execute();
    }
    const name = known?.name ?? person.name;
    // Anybody may have any name at the provider, also that of somebody else here, who did not do this.
    const who = known === undefined && (await isNameTaken(transaction, name)) ? "unknown" : name;
    await writeTrace(transaction, { ...place, who }, refusal(name, reason));
  });
}

function refusal(subject: string, reason: string) {
  return { action: "refuse-sign-in", app: "", subject, after: JSON.stringify({ by: "openid", reason }) } as const;
}
