// Judges a document by its app's realm and the caller's token: whether it may match, redirect and set headers as it says.
// Gateways are not asked: what was stored before there were realms goes on as it was.

import { setImmediate } from "node:timers/promises";
import type { Policy } from "@sluice/limiter/document/policy.ts";
import { type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { headerProblems } from "@sluice/limiter/realm/headers.ts";
import { matchProblems } from "@sluice/limiter/realm/match-within.ts";
import { type RealmDocument, realmFrom } from "@sluice/limiter/realm/realm.ts";
import { redirectProblems } from "@sluice/limiter/realm/redirects.ts";
import type { Caller } from "../plugins/authentication.ts";
import type { App, AppRealm, PolicyOfApp } from "../storage/apps.ts";
import { problemAsPut, resolveTemplates, type Templates } from "./resolve-templates.ts";

type Json = Readonly<Record<string, unknown>>;

/** Who wants a document stored, and in which app. */
export interface PolicyContext {
  readonly app: App;
  /** Whether the token is for all apps. */
  readonly forAllApps: boolean;
}

export function contextOf(app: App, { app: own, role }: Caller): PolicyContext {
  return { app, forAllApps: own === undefined && role === "admin" };
}

/** Where the policy reaches outside of the realm. @param policy with what its templates say */
export function outsideProblems(policy: Policy, realm: AppRealm): Problem[] {
  const problems = redirectsOutside(policy, realm);
  return realm.state === "set" ? [...matchProblems(policy.match, realmFrom(realm.document)), ...problems] : problems;
}

/** Where it would send requests that it may not. */
export function redirectsOutside({ onLimit }: Policy, realm: AppRealm): Problem[] {
  return redirectProblems(onLimit, realm.state === "set" ? realmFrom(realm.document) : undefined);
}

/** Headers that the document itself sets, and that are not the caller's to set. @param document as it was put */
export function forbiddenHeaders(document: unknown, { forAllApps }: PolicyContext): Problem[] {
  return forAllApps || typeof document !== "object" || document === null
    ? []
    : headerProblems((document as Json)["onLimit"]);
}

/** What is told of an app whose policies do not match as their editor may think. */
export function realmWarnings({ name, realm }: App): Problem[] {
  const expected = `a realm of hosts and paths, which an admin of all apps sets: PUT /api/v1/apps/${name}`;
  if (realm.state === "none") {
    return [
      { path: "match", expected, got: "none: the policy matches no traffic, and is for the ask-first API alone" },
    ];
  }
  if (realm.state === "legacy") {
    return [
      { path: "match", expected, got: "an app from before there were realms: the policy matches whatever it says" },
    ];
  }
  return [];
}

/** So many are judged before others have their turn: an app may have ten thousand. */
const validatedAtOnce = 50;

/** Where policies that there are reach outside of a realm, by policy. */
export async function outsiders(
  policies: readonly PolicyOfApp[],
  document: RealmDocument,
  templates: Templates,
): Promise<{ name: string; problems: Problem[] }[]> {
  const found: { name: string; problems: Problem[] }[] = [];
  for (const [i, { name, document: json }] of policies.entries()) {
    if (i % validatedAtOnce === validatedAtOnce - 1) await setImmediate();
    const resolution = resolveTemplates(JSON.parse(json), templates);
    const { policy } = validatePolicy(resolution.document);
    if (policy === undefined) continue;
    const problems = outsideProblems(policy, { state: "set", document });
    if (problems.length > 0)
      found.push({ name, problems: problems.map((one) => problemAsPut(one, resolution.origins)) });
  }
  return found;
}
