// Warns of references to lists of networks that are not there. A policy may be put before its lists, so this is no error.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import { referredList } from "@sluice/limiter/key/network-lists.ts";
import { expectedList } from "../schemas/ban-body.ts";
import { knownLists } from "../storage/network-lists.ts";
import type { Database } from "../storage/tables.ts";

/** @param exempt of a policy or an app, as it was put */
export async function missingLists(database: Database, app: string, exempt: unknown): Promise<Problem[]> {
  const cidrs = (exempt as { cidrs?: unknown } | null | undefined)?.cidrs;
  if (!Array.isArray(cidrs)) return [];
  const referred = cidrs.map((one) => (typeof one === "string" ? referredList(one) : undefined));
  const names = new Set(referred.filter((name) => name !== undefined));
  const known = await knownLists(database, app, [...names]);
  return referred.flatMap((name, i) =>
    name === undefined || known.has(name)
      ? []
      : [{ path: `exempt.cidrs[${i}]`, expected: expectedList(app), got: `"@${name}", which exempts nobody` }],
  );
}
