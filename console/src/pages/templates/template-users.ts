// Which policies use a template.

import { type StoredPolicy, templateOf } from "../../api/policy-terms.ts";
import type { ListedPolicy, Template } from "../../api/queries.ts";

export function usersOf(policies: readonly ListedPolicy[], { name }: Pick<Template, "name">): string[] {
  return policies
    .filter(({ document }: { document: StoredPolicy }) =>
      [document.cost, document.onLimit].some((field) => templateOf(field) === name),
    )
    .map((policy) => policy.name);
}
