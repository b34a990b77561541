// Writes policies and apps as gateways get them: with templates resolved, and with the canonical names of time zones.

import type { Mode } from "@sluice/limiter/document/policy.ts";
import type { SnapshotApp } from "@sluice/limiter/protocol/push-messages.ts";
import type { App } from "../storage/apps.ts";
import { resolveTemplates, type Templates } from "../templates/resolve-templates.ts";
import { type PolicyZone, withZones } from "../zones/policy-zones.ts";

export interface PolicyLine {
  /** JSON of one line. */
  readonly line: string;
  /** The time zones that it goes by. */
  readonly zones: readonly PolicyZone[];
  /** Whether it enforces limits whose counters are in Redis. */
  readonly needsRedis: boolean;
}

/**
 * Stored documents are JSON text and are copied unchanged, not parsed and written again, unless they use templates or time zones.
 *
 * @param templates of its app; undefined: there are none
 */
export function policyLine(app: string, document: string, templates: Templates | undefined, nowMs: number): PolicyLine {
  const { sent, zones } = withZones(resolved(document, templates), Math.floor(nowMs / 1000));
  return { line: `{"app":${JSON.stringify(app)},"document":${sent}}`, zones, needsRedis: needsRedis(document) };
}

/** Templates have neither scopes nor modes, so that they need not be resolved. */
function needsRedis(document: string): boolean {
  // Documents without the word need not be parsed.
  if (!document.includes('"cluster"')) return false;
  const { scope, mode = "enforce", overrides = [] } = JSON.parse(document) as WhatEnforces;
  if (scope !== "cluster") return false;
  return mode === "enforce" || overrides.some((override) => override.mode === "enforce");
}

interface WhatEnforces {
  readonly scope?: string;
  readonly mode?: Mode;
  readonly overrides?: readonly { readonly mode?: Mode }[];
}

/** Returns whether the document may refer to a template. */
export function mayUseTemplates(document: string): boolean {
  return document.includes('"template"');
}

/** @returns undefined for an app whose policies are not restricted, and that exempts nobody */
export function appLine({ name, realm, exempt }: App): string | undefined {
  const isEverywhere = realm.state === "all" || realm.state === "legacy";
  if (isEverywhere && exempt === undefined) return undefined;
  const { hosts = [], paths = [] } = realm.state === "set" ? realm.document : {};
  return JSON.stringify({
    app: name,
    ...(realm.state === "set" ? { realm: { hosts: [...hosts], paths: [...paths] } } : {}),
    ...(isEverywhere ? { everywhere: true } : {}),
    ...(exempt === undefined ? {} : { exempt }),
  } satisfies SnapshotApp);
}

function resolved(document: string, templates: Templates | undefined): string {
  if (templates === undefined || !mayUseTemplates(document)) return document;
  const resolution = resolveTemplates(JSON.parse(document), templates);
  // This cannot happen as long as changes are checked. If it does, gateways refuse the reference and report it, which is
  // better than to enforce the policy without the content of the template.
  if (resolution.problems.length > 0) return document;
  return JSON.stringify(resolution.document);
}
