// Which policies use a template.

import type { ListedPolicy, Template } from "../../api/queries.ts";

export function usersOf(policies: readonly ListedPolicy[], { name }: Pick<Template, "name">): string[] {
  return policies
    .filter(({ document }) => [document.cost, document.onLimit].some((field) => templateOf(field) === name))
    .map((policy) => policy.name);
}

function templateOf(field: unknown): unknown {
  return typeof field === "object" && field !== null && "template" in field ? field.template : undefined;
}
