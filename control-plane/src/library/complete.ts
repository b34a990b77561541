// Completes a policy's document from the library: `template: login-protection` stands for all that the document does not say itself, and
// `onLimit: { template: polite-429 }` for a supplied action. What is stored is a copy, so that a later version of Sluice changes no policy.

import { describeValue, type Problem } from "@sluice/limiter/document/validate.ts";
import { type Resolution, type Templates, templateFields } from "../templates/resolve-templates.ts";
import { library, suppliedNames } from "./supplied.ts";

type Json = Readonly<Record<string, unknown>>;

export interface Completion {
  /** Without the field `template`. */
  readonly document: unknown;
  /** The name of the supplied policy; undefined: the document is as it was put. */
  readonly from: string | undefined;
  /** The field `template` names no supplied policy, and the document cannot be told. */
  readonly problem: Problem | undefined;
}

/** Each field that the document has replaces that of the template; of `match`, each of its fields. */
export function completeFromLibrary(document: unknown): Completion {
  if (!isRecord(document) || document["template"] === undefined) {
    return { document, from: undefined, problem: undefined };
  }
  const { template: name, ...own } = document;
  const supplied = typeof name === "string" ? library.get(name) : undefined;
  if (supplied?.kind !== "policy") {
    const expected = `the name of a policy of the library: ${suppliedNames("policy").join(", ")}`;
    const got = supplied === undefined ? describeValue(name) : `"${name}", an action: write it as onLimit.template`;
    return { document: own, from: undefined, problem: { path: "template", expected, got } };
  }
  const { name: ownName, ...others } = own;
  const { match } = supplied.document;
  const ownMatch = own["match"];
  return {
    document: {
      ...(ownName === undefined ? {} : { name: ownName }),
      ...supplied.document,
      ...others,
      ...(isRecord(match) && isRecord(ownMatch) ? { match: { ...match, ...ownMatch } } : {}),
    },
    from: supplied.name,
    problem: undefined,
  };
}

/** Converts a problem of the completed document to one of the document that was put. */
export function problemBeforeCompletion(problem: Problem, put: unknown, { from }: Completion): Problem {
  if (from === undefined || !isRecord(put)) return problem;
  const [field = "", inner = ""] = problem.path.split(/[.[]/);
  const own = put[field];
  const isOwn = field === "match" && isRecord(own) ? own[inner] !== undefined : own !== undefined;
  const supplied = library.get(from)?.document[field];
  if (isOwn || supplied === undefined) return problem;
  return {
    path: "template",
    expected: `a template whose ${problem.path} is ${problem.expected}`,
    got: `"${from}", where it is ${problem.got}`,
  };
}

const withActions = new WeakMap<Templates, Templates>();

/** Returns an app's templates and the supplied actions. A template of the app comes first. */
export function templatesWithSupplied(own: Templates): Templates {
  let all = withActions.get(own);
  if (all === undefined) {
    const merged = new Map(own);
    for (const { name, kind, document } of library.values()) {
      if (kind === "action") merged.set(name, { ...document, ...own.get(name) });
    }
    all = merged;
    withActions.set(own, all);
  }
  return all;
}

/** Puts copies of supplied actions in place of the references to them. @param resolution of the document, with `templatesWithSupplied` */
export function copySupplied(document: unknown, { document: resolved, origins }: Resolution, own: Templates): unknown {
  if (!isRecord(document) || !isRecord(resolved)) return document;
  const copied: Record<string, unknown> = { ...document };
  for (const field of templateFields) {
    const name = origins.get(field);
    if (name !== undefined && own.get(name)?.[field] === undefined) copied[field] = resolved[field];
  }
  return copied;
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
