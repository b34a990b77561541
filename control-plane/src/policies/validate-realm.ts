// Validates a document against its app's realm and the caller's token: whether it may match, redirect and set headers as it
// says. Gateways do not check this: policies from before there were realms stay valid.

import { setImmediate } from "node:timers/promises";
import type { Policy } from "@sluice/limiter/document/policy.ts";
import { type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { headerProblems } from "@sluice/limiter/realm/headers.ts";
import { matchProblems } from "@sluice/limiter/realm/match-within.ts";
import { type RealmDocument, realmFrom } from "@sluice/limiter/realm/realm.ts";
import { redirectProblems } from "@sluice/limiter/realm/redirects.ts";
import { pauses } from "../limits/pauses.ts";
import type { Caller } from "../rights/caller.ts";
import type { App, AppRealm, PolicyOfApp } from "../storage/apps.ts";
import { problemAsPut, resolveTemplates, type Templates } from "../templates/resolve-templates.ts";

type Json = Readonly<Record<string, unknown>>;

/** Who wants to store a document, and in which app. */
export interface PolicyContext {
  readonly app: App;
  /** Whether the caller is an admin. */
  readonly forAllApps: boolean;
}

export function contextOf(app: App, { isAdmin }: Caller): PolicyContext {
  return { app, forAllApps: isAdmin };
}

/** Returns the places where the policy reaches outside the realm. @param policy with its templates resolved */
export function outsideProblems(policy: Policy, realm: AppRealm): Problem[] {
  const problems = redirectsOutside(policy, realm);
  return realm.state === "set" ? [...matchProblems(policy.match, realmFrom(realm.document)), ...problems] : problems;
}

/** Returns the redirects to places that the policy may not redirect to. */
export function redirectsOutside({ onLimit }: Policy, realm: AppRealm): Problem[] {
  return redirectProblems(onLimit, realm.state === "set" ? realmFrom(realm.document) : undefined);
}

/** Returns the headers that the document itself sets and that the caller may not set. @param document as it was put */
export function forbiddenHeaders(document: unknown, { forAllApps }: PolicyContext): Problem[] {
  return forAllApps || typeof document !== "object" || document === null
    ? []
    : headerProblems((document as Json)["onLimit"]);
}

/** Returns warnings for an app whose policies may match other requests than their editor thinks. */
export function realmWarnings({ name, realm }: App): Problem[] {
  const expected = `a realm of hosts and paths, which an admin sets: PUT /api/v1/apps/${name}`;
  if (realm.state === "none") {
    return [{ path: "match", expected, got: "none: the policy matches no traffic, and is for the check API alone" }];
  }
  if (realm.state === "legacy") {
    return [
      { path: "match", expected, got: "an app from before there were realms: the policy matches whatever it says" },
    ];
  }
  return [];
}

/** Returns the stored policies that reach outside a realm, with their problems. */
export async function outsiders(
  policies: readonly PolicyOfApp[],
  document: RealmDocument,
  templates: Templates,
): Promise<{ name: string; problems: Problem[] }[]> {
  const found: { name: string; problems: Problem[] }[] = [];
  const pause = pauses(setImmediate);
  for (const { name, document: json } of policies) {
    await pause();
    const resolution = resolveTemplates(JSON.parse(json), templates);
    const { policy } = validatePolicy(resolution.document);
    if (policy === undefined) continue;
    const problems = outsideProblems(policy, { state: "set", document });
    if (problems.length > 0)
      found.push({ name, problems: problems.map((one) => problemAsPut(one, resolution.origins)) });
  }
  return found;
}
