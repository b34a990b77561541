// Stores the sizes of policies that stay as they are, while a template that they use has another size.

import { setImmediate } from "node:timers/promises";
import { sql, type Transaction } from "kysely";
import type { PolicySize } from "../bounds/policy-size.ts";
import type { Tables } from "./tables.ts";

/** Each part is one statement: one for each policy would take a round trip each, while all others wait to change anything. */
const sizesAtOnce = 200;

export async function resizePolicies(
  transaction: Transaction<Tables>,
  app: string,
  sizes: readonly (readonly [name: string, size: PolicySize])[],
): Promise<void> {
  for (let from = 0; from < sizes.length; from += sizesAtOnce) {
    const part = sizes.slice(from, from + sizesAtOnce);
    const column = (name: keyof PolicySize) => {
      const cases = part.map(([policy, size]) => sql`when ${policy} then ${sql.lit(size[name])}`);
      return sql<number>`case name ${sql.join(cases, sql` `)} end`;
    };
    await transaction
      .updateTable("policies")
      .set({
        bytes: column("bytes"),
        steps: column("steps"),
        limits: column("limits"),
        kinds: column("kinds"),
        hiding: column("hiding"),
      })
      .where("app", "=", app)
      .where(
        "name",
        "in",
        part.map(([policy]) => policy),
      )
      .execute();
    // SQLite's driver does its work in this thread.
    await setImmediate();
  }
}
