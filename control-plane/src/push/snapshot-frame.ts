// The snapshot as the bytes that travel: written once per revision, however many gateways it goes to.

import type { Zones, ZoneTransition } from "@sluice/limiter/policy/schedule.ts";
import { type Snapshot, type SnapshotApp, snapshotFormat } from "@sluice/limiter/policy/snapshot.ts";
import { type ListName, layOut } from "@sluice/limiter/policy/snapshot-lines.ts";
import { resolveTemplates, type Templates } from "../policies/resolve-templates.ts";
import { zoneTransitions } from "../policies/zone-transitions.ts";
import type { StoredState } from "../storage/revisions.ts";

export interface SnapshotFrame {
  readonly epoch: string;
  readonly revision: number;
  /** A whole text message. */
  readonly bytes: Buffer;
}

/** Documents are stored as JSON text and go in as they are, not parsed and written again, but where templates are used. */
export function snapshotFrame(state: StoredState, nowMs: number): SnapshotFrame {
  const { epoch, revision, bans, callers } = state;
  const zones = zonesOf(state, Math.floor(nowMs / 1000));
  const head: Omit<Snapshot, ListName> = { type: "snapshot", format: snapshotFormat, epoch, revision };
  const templates = templatesByApp(state);
  const policies = state.policies.map(
    ({ app, document }) => `{"app":${JSON.stringify(app)},"document":${resolved(document, templates.get(app))}}`,
  );
  const text = layOut(JSON.stringify(zones === undefined ? head : { ...head, zones }), {
    apps: appsOf(state).map((app) => JSON.stringify(app)),
    bans: bans.map((ban) => JSON.stringify(ban)),
    callers: callers.map((caller) => JSON.stringify(caller)),
    policies,
  });
  return { epoch, revision, bytes: Buffer.from(text, "utf8") };
}

/** Of apps that have something which gateways hold within a realm, or to no traffic. */
function appsOf({ apps, policies, bans }: StoredState): SnapshotApp[] {
  const used = new Set([...policies, ...bans].map(({ app }) => app));
  return apps.flatMap(({ name, realm }): SnapshotApp[] => {
    if (!used.has(name) || realm.state === "all" || realm.state === "legacy") return [];
    if (realm.state !== "set") return [{ app: name }];
    const { hosts = [], paths = [] } = realm.document;
    return [{ app: name, realm: { hosts: [...hosts], paths: [...paths] } }];
  });
}

function templatesByApp(state: StoredState): Map<string, Map<string, Record<string, unknown>>> {
  const byApp = new Map<string, Map<string, Record<string, unknown>>>();
  for (const { app, name, document } of state.templates) {
    const ofApp = byApp.get(app) ?? new Map<string, Record<string, unknown>>();
    byApp.set(app, ofApp.set(name, JSON.parse(document)));
  }
  return byApp;
}

function resolved(document: string, templates: Templates | undefined): string {
  if (templates === undefined || !document.includes('"template"')) return document;
  const resolution = resolveTemplates(JSON.parse(document), templates);
  // Cannot be, while changes keep their word. Gateways will refuse the reference and say so, which is better than to
  // enforce the policy without what the template says.
  if (resolution.problems.length > 0) return document;
  return JSON.stringify(resolution.document);
}

/** What gateways need of the time zones that schedules name; undefined where none does. */
function zonesOf({ policies }: StoredState, nowSeconds: number): Zones | undefined {
  const zones = new Map<string, readonly ZoneTransition[]>();
  for (const { document } of policies) {
    // Few have one: the others need not be parsed.
    const timezone = document.includes('"schedule"') ? JSON.parse(document).schedule?.timezone : undefined;
    if (typeof timezone !== "string" || zones.has(timezone)) continue;
    const transitions = zoneTransitions(timezone, nowSeconds);
    if (transitions !== undefined) zones.set(timezone, transitions);
  }
  return zones.size === 0 ? undefined : Object.fromEntries(zones);
}
