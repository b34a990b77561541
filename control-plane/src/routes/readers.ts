// Hides the credentials of an app's clients from whoever may not change the app: ids of consumers, and values of bans.

import type { FastifyInstance, FastifyRequest } from "fastify";
import { digestKeyOf, hidden } from "../activity/shown-keys.ts";
import { ApiError } from "../errors/api-error.ts";
import { callerOf } from "../plugins/authentication.ts";
import { hasRight } from "../rights/caller.ts";
import { eitherSecret } from "../secrets/secret-parts.ts";
import { withHiddenValues } from "../secrets/shown-values.ts";
import type { Ban, BanDocument } from "../storage/bans.ts";
import type { DocumentChange } from "../storage/history.ts";
import { readSecretParts } from "../storage/policies.ts";
import { areIdsHidden } from "../storage/usage.ts";

/** Returns whether whoever asks may change what the app has, and so sees the credentials of its clients. */
export function mayChange(request: FastifyRequest, app: string): boolean {
  return hasRight(callerOf(request), "write", app);
}

/** Returns whether ids of the app's consumers are hidden from whoever asks. */
export async function areIdsHiddenFrom(request: FastifyRequest, app: string): Promise<boolean> {
  return !mayChange(request, app) && (await areIdsHidden(request.server.database, app));
}

/** Returns what shows a text in place of each credential of the app's clients. */
export function hiderOf(server: FastifyInstance, app: string): (value: string) => string {
  const digestKey = digestKeyOf(server.publisher.state.proofKey, app);
  return (value) => hidden(value, digestKey);
}

/** Refuses to say whether there is a value that whoever asks may not see: they could find it by guesses. */
export function refuseGuesses(detail: string): ApiError {
  return new ApiError("forbidden", detail);
}

/** Hides the credentials in a ban from whoever may not change it. */
export function bannedFor(request: FastifyRequest, { app, banned, secretParts }: Ban): Ban["banned"] {
  return mayChange(request, app) ? banned : withHiddenValues(banned, secretParts, hiderOf(request.server, app));
}

/** Hides the credentials in documents of bans from whoever may not change them. The document of a ban says what was secret when the ban was made, also if its policy is gone. */
export async function changesFor(
  app: FastifyInstance,
  request: FastifyRequest,
  changes: readonly DocumentChange[],
): Promise<readonly DocumentChange[]> {
  const isToHide = (change: DocumentChange) => change.kind === "ban" && !mayChange(request, change.app);
  const policies = new Map<string, Set<string>>();
  for (const change of changes) {
    const policy = policyOf(change);
    if (!isToHide(change) || policy === undefined) continue;
    policies.set(change.app, (policies.get(change.app) ?? new Set()).add(policy));
  }
  const secretParts = new Map<string, Awaited<ReturnType<typeof readSecretParts>>>();
  for (const [name, ofApp] of policies) secretParts.set(name, await readSecretParts(app.database, name, [...ofApp]));
  const hide = (document: unknown, name: string): unknown => {
    if (document === undefined) return undefined;
    const ban = document as BanDocument;
    const ofPolicy = secretParts.get(name)?.get(ban.policy ?? "") ?? [];
    return withHiddenValues(ban, eitherSecret(ban.secret ?? [], ofPolicy), hiderOf(app, name));
  };
  return changes.map((change) =>
    isToHide(change)
      ? { ...change, before: hide(change.before, change.app), after: hide(change.after, change.app) }
      : change,
  );
}

function policyOf({ before, after }: DocumentChange): string | undefined {
  return ((after ?? before) as BanDocument | undefined)?.policy;
}
