// The snapshot as the bytes that travel: written once per revision, however many gateways it goes to.

import { type Snapshot, snapshotFormat } from "@sluice/limiter/policy/snapshot.ts";
import type { StoredState } from "../storage/revisions.ts";

export interface SnapshotFrame {
  readonly epoch: string;
  readonly revision: number;
  /** A whole text message. */
  readonly bytes: Buffer;
}

/** Documents are stored as JSON text and go in as they are, not parsed and written again. */
export function snapshotFrame(state: StoredState): SnapshotFrame {
  const { epoch, revision } = state;
  const head: Omit<Snapshot, "policies"> = { type: "snapshot", format: snapshotFormat, epoch, revision };
  const policies = state.policies.map(({ app, document }) => `{"app":${JSON.stringify(app)},"document":${document}}`);
  const text = `${JSON.stringify(head).slice(0, -1)},"policies":[${policies.join(",")}]}`;
  return { epoch, revision, bytes: Buffer.from(text, "utf8") };
}
