// Warns of references to lists of networks that are not there. A policy may be put before its lists, so this is no error.

import { isName } from "@sluice/limiter/document/policy-shape.ts";
import type { Problem } from "@sluice/limiter/document/validate.ts";
import { referredList } from "@sluice/limiter/key/network-lists.ts";
import { expectedList } from "../schemas/ban-body.ts";
import { knownLists } from "../storage/network-lists.ts";
import type { Database } from "../storage/tables.ts";

/** No document has more: it is refused. */
const mostCidrs = 1_000;
/** How many names are looked up with one query. */
const namesAtOnce = 500;

/** @param exempt of a policy or an app, as it was put */
export async function missingLists(database: Database, app: string, exempt: unknown): Promise<Problem[]> {
  const [warnings = []] = await missingListsOf(database, app, [exempt]);
  return warnings;
}

/** The same for many, in their order. */
export async function missingListsOf(
  database: Database,
  app: string,
  exempts: readonly unknown[],
): Promise<Problem[][]> {
  const referred = exempts.map(listsIn);
  const names = [...new Set(referred.flatMap((lists) => lists.map(({ name }) => name)))];
  const known = new Set<string>();
  for (let from = 0; from < names.length; from += namesAtOnce) {
    for (const name of await knownLists(database, app, names.slice(from, from + namesAtOnce))) known.add(name);
  }
  return referred.map((lists) =>
    lists.flatMap(({ name, path }) =>
      known.has(name) ? [] : [{ path, expected: expectedList(app), got: `"@${name}", which exempts nobody` }],
    ),
  );
}

function listsIn(exempt: unknown): { readonly name: string; readonly path: string }[] {
  const cidrs = (exempt as { cidrs?: unknown } | null | undefined)?.cidrs;
  if (!Array.isArray(cidrs) || cidrs.length > mostCidrs) return [];
  return cidrs.flatMap((one, i) => {
    const name = typeof one === "string" ? referredList(one) : undefined;
    return name === undefined || !isName(name) ? [] : [{ name, path: `exempt.cidrs[${i}]` }];
  });
}
