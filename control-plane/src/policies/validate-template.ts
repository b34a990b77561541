// Validates a template: its content must be valid in a policy, and in each policy that uses it.

import { setImmediate } from "node:timers/promises";
import { maxProblems } from "@sluice/limiter/document/problems.ts";
import { type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { pauses } from "../limits/pauses.ts";
import { shapeProblems } from "../schemas/read-body.ts";
import { resolveTemplates, type Templates, templateFields } from "../templates/resolve-templates.ts";
import { templateShape } from "../templates/template-shape.ts";
import { forbiddenHeaders, type PolicyContext, redirectsOutside } from "./validate-realm.ts";

/** A policy with which every valid template is valid. */
const roomyPolicy = {
  name: "any",
  limits: [{ algorithm: "token-bucket", quota: 2_147_483_648, window: "1s" }],
};

/** Returns what no app may have. */
export function validateTemplate(document: unknown): Problem[] {
  const problems = shapeProblems(templateShape, document);
  if (problems.length > 0) return problems;
  const given = Object.keys(document as object);
  if (given.length !== 1) {
    const got = given.length === 0 ? "neither" : "both";
    return [{ path: "", expected: `either ${templateFields.join(" or ")}`, got }];
  }
  return validatePolicy({ ...roomyPolicy, ...(document as object) }).problems;
}

/**
 * Returns the parts of the template that its app or the caller may not have, by the same rules as for a policy.
 * @param document a valid template
 */
export function validateTemplateInApp(document: unknown, context: PolicyContext): Problem[] {
  const { policy } = validatePolicy({ ...roomyPolicy, ...(document as object) });
  if (policy === undefined) return [];
  // A template has no `match`: only its redirects and headers can be wrong here.
  const problems = redirectsOutside(policy, context.app.realm);
  return [...problems, ...forbiddenHeaders(document, context)];
}

/**
 * Returns why policies that use the template would become invalid: each policy's name and problem, cut after `maxProblems`.
 */
export async function misfits(
  users: readonly { readonly name: string; readonly document: unknown }[],
  templates: Templates,
): Promise<Problem[]> {
  const found: Problem[] = [];
  const pause = pauses(setImmediate);
  for (const { name, document } of users) {
    await pause();
    const resolution = resolveTemplates(document, templates);
    const gone = resolution.problems.map(({ path }) => path.slice(0, path.indexOf(".")));
    found.push(...gone.map((path) => ({ path, expected: `what the policy "${name}" uses it for`, got: "nothing" })));
    for (const { path, expected, got } of validatePolicy(resolution.document).problems) {
      found.push({ path, expected: `what the policy "${name}" can have: ${expected}`, got });
    }
    if (found.length >= maxProblems) return found.slice(0, maxProblems);
  }
  return found;
}
