// Whether a document may become a policy here: limiter's validator on what gateways will get of it, and what only this
// deployment knows.

import { type Problem, validatePolicy } from "@sluice/limiter/policy/validate.ts";
import { warningsOf } from "@sluice/limiter/policy/warnings.ts";
import { problemAsPut, resolveTemplates, type Templates } from "./resolve-templates.ts";
import { isTimezone } from "./zone-transitions.ts";

export interface Judgement {
  /** As it would be stored: with its name, and with its references to templates. */
  readonly document: unknown;
  /** As gateways would get it: with what its templates say. */
  readonly resolved: unknown;
  readonly problems: readonly Problem[];
  /** What it says in vain; of a document without problems. */
  readonly warnings: readonly Problem[];
}

type Json = Readonly<Record<string, unknown>>;

/**
 * @param document as parsed; may leave its name to the URL
 * @param name from the URL; undefined where there is none, and then the document may go without
 * @param templates of its app
 */
export function judgePolicy(
  document: unknown,
  name: string | undefined,
  redisIsSet: boolean,
  templates: Templates,
): Judgement {
  const named = withName(document, name ?? "unnamed");
  const resolution = resolveTemplates(named, templates);
  const validation = validatePolicy(resolution.document);
  const asPut = (one: Problem) => problemAsPut(one, resolution.origins);
  const problems = [...validation.problems.map(asPut), ...resolution.problems];
  const warnings = validation.policy === undefined ? [] : warningsOf(validation.policy).map(asPut);
  if (!isRecord(named)) return { document: named, resolved: resolution.document, problems, warnings };
  const given = named["name"];
  if (name !== undefined && given !== name && !problems.some(({ path }) => path === "name")) {
    problems.push({
      path: "name",
      expected: `${JSON.stringify(name)}, as in the URL, or nothing`,
      got: JSON.stringify(given),
    });
  }
  if (named["scope"] === "cluster" && !redisIsSet) {
    problems.push({
      path: "scope",
      expected: "node: cluster needs Redis, and SLUICE_REDIS_URL is not set",
      got: '"cluster"',
    });
  }
  const timezone = isRecord(named["schedule"]) ? named["schedule"]["timezone"] : undefined;
  const isJudged = problems.some(({ path }) => path === "schedule.timezone");
  if (typeof timezone === "string" && !isJudged && !isTimezone(timezone)) {
    problems.push({
      path: "schedule.timezone",
      expected: 'a time zone that there is, like "Europe/Berlin"',
      got: JSON.stringify(timezone),
    });
  }
  return { document: named, resolved: resolution.document, problems, warnings };
}

function withName(document: unknown, name: string): unknown {
  return isRecord(document) && document["name"] === undefined ? { name, ...document } : document;
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
