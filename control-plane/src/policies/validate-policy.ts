// Validates a policy document: the limiter's validator checks the resolved document, and this adds the checks that depend on
// the deployment.

import type { Policy } from "@sluice/limiter/document/policy.ts";
import { maxTimezoneBytes } from "@sluice/limiter/document/policy-shape.ts";
import { describeValue, type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { exposuresOf, surprisesOf, warningsOf } from "@sluice/limiter/document/warnings.ts";
import {
  completeFromLibrary,
  copySupplied,
  problemBeforeCompletion,
  templatesWithSupplied,
} from "../library/complete.ts";
import { problemAsPut, resolveTemplates, type Templates } from "../templates/resolve-templates.ts";
import { isTimezone } from "../zones/zone-transitions.ts";
import { blankWarnings } from "./blank-warnings.ts";
import { forbiddenHeaders, outsideProblems, type PolicyContext, realmWarnings } from "./validate-realm.ts";

export interface Validation {
  /** The document to store: with its name, with its references to templates of the app, and with copies of what is supplied. */
  readonly document: unknown;
  /** The document for gateways: with its templates resolved. */
  readonly resolved: unknown;
  readonly problems: readonly Problem[];
  /**
   * Settings without effect, what reaches further than it may seem, and how the app's realm affects the policy. Empty if the document has problems that the
   * limiter's validator finds.
   */
  readonly warnings: readonly Problem[];
}

type Json = Readonly<Record<string, unknown>>;

/**
 * @param document as parsed; it may leave its name to the URL
 * @param name from the URL; undefined if there is no name in it, and then the document may go without one
 * @param templates of the policy's app
 * @param context the app that the policy is for, and whether the token is for all apps
 */
export function validatePut(
  document: unknown,
  name: string | undefined,
  redisIsSet: boolean,
  templates: Templates,
  context: PolicyContext,
): Validation {
  const put = withName(document, name ?? "unnamed");
  const completion = completeFromLibrary(put);
  const resolution = resolveTemplates(completion.document, templatesWithSupplied(templates));
  const named = copySupplied(completion.document, resolution, templates);
  if (completion.problem !== undefined) {
    return { document: named, resolved: resolution.document, problems: [completion.problem], warnings: [] };
  }
  const validation = validatePolicy(resolution.document);
  const asPut = (one: Problem) => problemBeforeCompletion(problemAsPut(one, resolution.origins), put, completion);
  const problems = [...validation.problems.map(asPut), ...resolution.problems];
  const reaching = validation.policy ?? withReachAlone(resolution.document);
  if (reaching !== undefined) problems.push(...outsideProblems(reaching, context.app.realm).map(asPut));
  problems.push(...forbiddenHeaders(named, context));
  const warnings =
    validation.policy === undefined
      ? []
      : [
          ...realmWarnings(context.app),
          ...surprisesOf(validation.policy, resolution.document),
          ...exposuresOf(validation.policy),
          ...[...warningsOf(validation.policy), ...blankWarnings(validation.policy)].map(asPut),
        ];
  if (!isRecord(named)) return { document: named, resolved: resolution.document, problems, warnings };
  // Both know better than the shape of the document what the field may be here.
  const replaceProblem = (problem: Problem) => {
    const at = problems.findIndex(({ path }) => path === problem.path);
    problems.splice(at < 0 ? problems.length : at, 1, problem);
  };
  const { name: given, scope } = named;
  if (name !== undefined && given !== name) {
    const expected = `${JSON.stringify(name)}, as in the URL, or nothing`;
    replaceProblem({ path: "name", expected, got: describeValue(given) });
  }
  if (scope !== undefined && scope !== "node" && !redisIsSet) {
    const expected = "node: cluster needs Redis, and SLUICE_REDIS_URL is not set";
    replaceProblem(asPut({ path: "scope", expected, got: describeValue(scope) }));
  }
  problems.push(...timezoneProblems(named, new Set(problems.map(({ path }) => path))));
  return { document: named, resolved: resolution.document, problems, warnings };
}

/** Each zone takes milliseconds: of the validation, and when its clock changes are worked out for gateways. */
const mostZones = 16;

/**
 * Reports zones that do not exist, or too many of them: of a schedule, and of windows of the calendar, wherever there are limits.
 *
 * @param refused paths of values that have a problem already
 */
function timezoneProblems(document: Json, refused: ReadonlySet<string>): Problem[] {
  const problems: Problem[] = [];
  /** By the name, in which upper and lower case make no difference: whether the zone may be there. */
  const zones = new Map<string, boolean>();
  const look = (timezone: string, path: string): void => {
    // The validator has already refused a longer one, but its list of problems may have been cut before that problem.
    if (timezone.length > maxTimezoneBytes || refused.has(path)) return;
    const name = timezone.toLowerCase();
    if (!zones.has(name)) {
      if (zones.size === mostZones) {
        const expected = `at most ${mostZones} different time zones in a policy`;
        problems.push({ path, expected, got: `${describeValue(timezone)} besides ${mostZones} others` });
      }
      zones.set(name, zones.size >= mostZones || isTimezone(timezone));
    }
    if (zones.get(name) === true) return;
    const expected = 'a time zone that there is, like "Europe/Berlin"';
    problems.push({ path, expected, got: describeValue(timezone) });
  };
  const visit = (value: unknown, path: string): void => {
    if (Array.isArray(value)) value.forEach((item, i) => void visit(item, `${path}[${i}]`));
    if (!isRecord(value)) return;
    for (const [name, inner] of Object.entries(value)) {
      const at = path === "" ? name : `${path}.${name}`;
      if (name === "timezone" && typeof inner === "string") look(inner, at);
      else visit(inner, at);
    }
  };
  visit(document, "");
  return problems;
}

/**
 * Returns a policy with only the fields that decide where the document reaches, if those are valid. So problems with the
 * realm are reported together with the problems of other fields.
 */
function withReachAlone(document: unknown): Policy | undefined {
  if (!isRecord(document)) return undefined;
  const { match, onLimit } = document;
  const limits = [{ algorithm: "fixed-window", quota: 1, window: "1s" }];
  return validatePolicy({ name: "any", limits, match, onLimit }).policy;
}

function withName(document: unknown, name: string): unknown {
  return isRecord(document) && document["name"] === undefined ? { name, ...document } : document;
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
