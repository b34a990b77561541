// The snapshot as the bytes that travel: written once per revision, however many gateways it goes to.

import { type Snapshot, snapshotFormat } from "@sluice/limiter/policy/snapshot.ts";
import { resolveTemplates, type Templates } from "../policies/resolve-templates.ts";
import type { StoredState } from "../storage/revisions.ts";

export interface SnapshotFrame {
  readonly epoch: string;
  readonly revision: number;
  /** A whole text message. */
  readonly bytes: Buffer;
}

/** Documents are stored as JSON text and go in as they are, not parsed and written again, but where templates are used. */
export function snapshotFrame(state: StoredState): SnapshotFrame {
  const { epoch, revision, bans, callers } = state;
  const head: Omit<Snapshot, "policies"> = {
    type: "snapshot",
    format: snapshotFormat,
    epoch,
    revision,
    bans: [...bans],
    callers: [...callers],
  };
  const templates = templatesByApp(state);
  const policies = state.policies.map(
    ({ app, document }) => `{"app":${JSON.stringify(app)},"document":${resolved(document, templates.get(app))}}`,
  );
  const text = `${JSON.stringify(head).slice(0, -1)},"policies":[${policies.join(",")}]}`;
  return { epoch, revision, bytes: Buffer.from(text, "utf8") };
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
