// The documents of an app's templates, as policies refer to them.

import type { Transaction } from "kysely";
import type { Templates } from "../templates/resolve-templates.ts";
import type { Database, Tables } from "./tables.ts";

/** Reads all templates of an app. A change that depends on them passes its transaction. */
export async function readTemplates(database: Database | Transaction<Tables>, app: string): Promise<Templates> {
  const rows = await database.selectFrom("templates").select(["name", "document"]).where("app", "=", app).execute();
  return new Map(rows.map(({ name, document }) => [name, JSON.parse(document)]));
}
