// Finds the policies that ask for consumers, by texts of their documents: an app may have thousands of policies, and few with plans.

import { pageOf } from "./pages.ts";
import type { Database, PolicyTable } from "./tables.ts";

type Found = Pick<PolicyTable, "name" | "document">;

/** As JSON has it without blanks, which no other field of a policy can have. */
const asksForConsumers = '%"planBy":"consumer"%';
const mostFound = 50;
/** A database searches these, or a megabyte of them, in one statement. */
const searchedAtOnce = 250;

/**
 * Returns the plans of all policies that ask for consumers; undefined if these policies are too many to read.
 * @param pause is called between steps of some milliseconds
 */
export async function plansOfConsumers(
  database: Database,
  app: string,
  pause: () => Promise<void>,
): Promise<ReadonlySet<string> | undefined> {
  const plans = new Set<string>();
  let count = 0;
  for await (const { document } of policiesWithPlans(database, app, pause)) {
    count += 1;
    if (count > mostFound) return undefined;
    for (const plan of Object.keys((JSON.parse(document) as { plans?: object }).plans ?? {})) plans.add(plan);
    await pause();
  }
  return plans;
}

async function* policiesWithPlans(
  database: Database,
  app: string,
  pause: () => Promise<void>,
): AsyncGenerator<Pick<Found, "document">> {
  for (let after = ""; ; ) {
    const rows = database.selectFrom("policies").where("app", "=", app).where("name", ">", after);
    const sizes = await rows
      .select(["name", "bytes as size"])
      .orderBy("name")
      .limit(searchedAtOnce + 1)
      .execute();
    const { page, hasMore } = pageOf(sizes, searchedAtOnce);
    const last = page.at(-1)?.name;
    if (last === undefined) return;
    yield* await rows
      .select("document")
      .where("name", "<=", last)
      .where("document", "like", asksForConsumers)
      .limit(mostFound + 1)
      .execute();
    if (!hasMore) return;
    await pause();
    after = last;
  }
}

export function policiesNamed(database: Database, app: string, names: readonly string[]): Promise<Found[]> {
  return database
    .selectFrom("policies")
    .select(["name", "document"])
    .where("app", "=", app)
    .where("name", "in", [...names])
    .execute();
}

/** Returns a number that grows with each change of the app's policies; undefined if the history has no entry of the app. */
export async function newestRevision(database: Database, app: string): Promise<number | undefined> {
  const newest = database.selectFrom("revisions").select("number").where("app", "=", app).orderBy("number", "desc");
  const row = await newest.limit(1).executeTakeFirst();
  return row === undefined ? undefined : Number(row.number);
}
