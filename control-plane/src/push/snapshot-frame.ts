// Builds the bytes of the snapshot, once per revision, however many gateways get it.

import { setImmediate } from "node:timers/promises";
import type { ZoneTransition } from "@sluice/limiter/document/schedule.ts";
import { type Snapshot, type SnapshotApp, snapshotFormat } from "@sluice/limiter/protocol/push-messages.ts";
import { type ListName, layOut } from "@sluice/limiter/protocol/snapshot-lines.ts";
import type { StoredState } from "../storage/revisions.ts";
import { resolveTemplates, type Templates } from "../templates/resolve-templates.ts";
import { knownZone } from "../zones/zone-transitions.ts";
import { proofOf } from "./position-proof.ts";

export interface SnapshotFrame {
  readonly epoch: string;
  readonly revision: number;
  /** The content of one text message. */
  readonly bytes: Buffer;
}

/** Policies that are written without a pause, which takes a millisecond or two. */
const policiesAtOnce = 500;
/** Separates the lines of a list, as in snapshot-lines.ts. */
const between = ",\n";
/** Stands for the lines of policies until they are inserted. JSON text never contains this character. */
const placeOfPolicies = "\u0000";

/**
 * Builds the snapshot. Stored documents are JSON text and are copied unchanged, not parsed and written again, unless they
 * use templates or time zones. Requests are served meanwhile.
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

/** Returns the apps that gateways must restrict to a realm, or to no traffic, if they have policies or bans. */
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
  // This cannot happen as long as changes are checked. If it does, gateways refuse the reference and report it, which is
  // better than to enforce the policy without the content of the template.
  if (resolution.problems.length > 0) return document;
  return JSON.stringify(resolution.document);
}

/**
 * Adds the transitions of the schedule's time zone to `zones`, and gives the zone its canonical name, however it is spelt:
 * so a snapshot never has more zones than exist.
 */
function withZone(document: string, zones: Map<string, readonly ZoneTransition[]>, nowSeconds: number): string {
  // Few policies have a schedule: the others need not be parsed.
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
