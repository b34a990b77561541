// Finds the policies that ask for consumers, by texts of their documents: an app may have thousands of policies, and few with plans.

import type { Database, PolicyTable } from "./tables.ts";

type Found = Pick<PolicyTable, "name" | "document">;

/** As JSON has it without blanks, which no other field of a policy can have. */
const asksForConsumers = '%"planBy":"consumer"%';
const mostFound = 50;

/** Returns whether a policy that asks for consumers seems to have the plan. It may be wrong if another field has this name. */
export async function hasPlan(database: Database, app: string, plan: string): Promise<boolean> {
  const found = await database
    .selectFrom("policies")
    .select("name")
    .where("app", "=", app)
    .where("document", "like", asksForConsumers)
    .where("document", "like", `%"${plan}":[%`)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/** Returns the first policies of the app that ask for consumers. */
export function policiesWithConsumers(database: Database, app: string): Promise<Found[]> {
  return database
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .where("document", "like", asksForConsumers)
    .orderBy("name")
    .limit(mostFound)
    .execute();
}

export function policiesNamed(database: Database, app: string, names: readonly string[]): Promise<Found[]> {
  return database
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .where("name", "in", [...names])
    .execute();
}
