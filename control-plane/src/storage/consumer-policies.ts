// Finds the policies that ask for consumers, by texts of their documents: an app may have thousands of policies, and few with plans.

import type { Database, PolicyTable } from "./tables.ts";

type Found = Pick<PolicyTable, "name" | "document">;

/** As JSON has it without blanks, which no other field of a policy can have. */
const asksForConsumers = '%"planBy":"consumer"%';
const mostFound = 50;

/** Returns the plans of all policies that ask for consumers; undefined if these policies are too many to read. */
export async function plansOfConsumers(database: Database, app: string): Promise<ReadonlySet<string> | undefined> {
  const found = await database
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .where("document", "like", asksForConsumers)
    .limit(mostFound + 1)
    .execute();
  if (found.length > mostFound) return undefined;
  return new Set(
    found.flatMap(({ document }) => Object.keys((JSON.parse(document) as { plans?: object }).plans ?? {})),
  );
}

export function policiesNamed(database: Database, app: string, names: readonly string[]): Promise<Found[]> {
  return database
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .where("name", "in", [...names])
    .execute();
}
