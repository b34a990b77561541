// The snapshot as it travels from the control plane to a gateway and rests on its disk: every policy at one revision,
// and who is banned and who may ask.

import type { Zones } from "./schedule.ts";
import type { Problem } from "./validate.ts";

export const snapshotFormat = 1;

export interface Snapshot {
  type: "snapshot";
  format: number;
  /** Names the history that `revision` counts in: another database is another epoch, and may count lower. */
  epoch: string;
  revision: number;
  policies: SnapshotPolicy[];
  /** Absent, like `callers`, in a snapshot of a control plane that knew none. */
  bans?: SnapshotBan[];
  callers?: SnapshotCaller[];
  /** Those of the policies' schedules; absent where there are none. */
  zones?: Zones;
}

export interface SnapshotPolicy {
  app: string;
  /** The document as it was put, with what its templates said. */
  document: unknown;
}

/** Of `cidr`, or of `policy` and `key`, exactly one is given. */
export interface SnapshotBan {
  id: string;
  app: string;
  /** As `formatCidr` writes it. */
  cidr?: string;
  policy?: string;
  /** Key values in the order of the policy's key; "*" is any value. */
  key?: string[];
  /** Over from this second since 1970 on: it ends without another snapshot. */
  untilSeconds: number;
}

/** Who may use the ask-first API. */
export interface SnapshotCaller {
  app: string;
  /** Of the token, in lower case hex. */
  sha256: string;
  /** Worth nothing from this second since 1970 on. */
  expiresAtSeconds?: number;
}

/** What a gateway says over the push socket, in JSON text frames. */
export type GatewayMessage =
  | { type: "hello"; gateway: string; version: string; workers: number; epoch: string; revision: number }
  | { type: "applied"; epoch: string; revision: number }
  | { type: "refused"; epoch: string; revision: number; problems: Problem[] }
  | { type: "status"; counters: Record<string, number> };

/** What a control plane says over the push socket, in JSON text frames. */
export type ControlMessage = Snapshot | { type: "fleet"; gateways: number };
