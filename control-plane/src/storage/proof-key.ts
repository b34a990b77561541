// The database's own secret. All control planes of the database have it, and nobody else: neither gateways nor people get it.

import type { Database } from "./tables.ts";

export async function readProofKey(database: Database): Promise<string> {
  const row = await database.selectFrom("meta").select("proof_key").where("id", "=", 1).executeTakeFirstOrThrow();
  return row.proof_key;
}
