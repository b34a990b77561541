// The snapshot as the bytes that travel: written once per revision, however many gateways it goes to.

import { setImmediate } from "node:timers/promises";
import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";
import { type Snapshot, type SnapshotApp, snapshotFormat } from "@sluice/limiter/protocol/push-messages.ts";
import { type ListName, layOut } from "@sluice/limiter/protocol/snapshot-lines.ts";
import { resolveTemplates, type Templates } from "../policies/resolve-templates.ts";
import { knownZone } from "../policies/zone-transitions.ts";
import type { StoredState } from "../storage/revisions.ts";
import { proofOf } from "./position-proof.ts";

export interface SnapshotFrame {
  readonly epoch: string;
  readonly revision: number;
  /** A whole text message. */
  readonly bytes: Buffer;
}

/** So many policies are written without a pause: a millisecond or two. */
const policiesAtOnce = 500;
/** Lines of a list, as snapshot-lines.ts has them. */
const between = ",\n";
/** Stands for the lines of policies until they are put in. JSON has no such character. */
const placeOfPolicies = "\u0000";

/**
 * Documents are stored as JSON text and go in as they are, not parsed and written again, but where templates or time zones
 * are used. Requests are served meanwhile.
 */
export async function snapshotFrame(state: StoredState, nowMs: number): Promise<SnapshotFrame> {
  const { epoch, revision, proofKey, bans, callers } = state;
  const proof = proofOf(proofKey, state);
  const head: Omit<Snapshot, ListName> = { type: "snapshot", format: snapshotFormat, epoch, revision, proof };
  const templates = templatesByApp(state);
  const zones = new Map<string, readonly ZoneTransition[]>();
  const written: Buffer[] = [];
  for (let from = 0; from < state.policies.length; from += policiesAtOnce) {
    if (from > 0) await setImmediate();
    const lines = state.policies.slice(from, from + policiesAtOnce).map(({ app, document }) => {
      const sent = withZone(resolved(document, templates.get(app)), zones, Math.floor(nowMs / 1000));
      return `{"app":${JSON.stringify(app)},"document":${sent}}`;
    });
    written.push(Buffer.from(`${from > 0 ? between : ""}${lines.join(between)}`));
  }
  const text = layOut(JSON.stringify(zones.size === 0 ? head : { ...head, zones: Object.fromEntries(zones) }), {
    apps: appsOf(state).map((app) => JSON.stringify(app)),
    bans: bans.map((ban) => JSON.stringify(ban)),
    callers: callers.map((caller) => JSON.stringify(caller)),
    policies: written.length > 0 ? [placeOfPolicies] : [],
  });
  const [before = "", after = ""] = text.split(placeOfPolicies);
  return { epoch, revision, bytes: Buffer.concat([Buffer.from(before), ...written, Buffer.from(after)]) };
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

/**
 * Notes what gateways need of the zone that a schedule names, which they get under one name however it is spelt: there are not
 * more zones in a snapshot than there are in the world.
 */
function withZone(document: string, zones: Map<string, readonly ZoneTransition[]>, nowSeconds: number): string {
  // Few have one: the others need not be parsed.
  if (!document.includes('"schedule"')) return document;
  const policy = JSON.parse(document);
  const { timezone } = policy.schedule ?? {};
  if (typeof timezone !== "string") return document;
  const zone = knownZone(timezone, nowSeconds);
  if (zone === undefined) return document;
  zones.set(zone.name, zone.transitions);
  if (zone.name === timezone) return document;
  return JSON.stringify({ ...policy, schedule: { ...policy.schedule, timezone: zone.name } });
}
