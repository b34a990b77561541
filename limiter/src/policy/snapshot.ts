// The snapshot as it travels from the control plane to a gateway and rests on its disk: every policy at one revision.

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
  /** Those of the policies' schedules; absent where there are none. */
  zones?: Zones;
}

export interface SnapshotPolicy {
  app: string;
  /** The document as it was put. */
  document: unknown;
}

/** What a gateway says over the push socket, in JSON text frames. */
export type GatewayMessage =
  | { type: "hello"; gateway: string; version: string; workers: number; epoch: string; revision: number }
  | { type: "applied"; epoch: string; revision: number }
  | { type: "refused"; epoch: string; revision: number; problems: Problem[] }
  | { type: "status"; counters: Record<string, number> };

/** What a control plane says over the push socket, in JSON text frames. */
export type ControlMessage = Snapshot | { type: "fleet"; gateways: number };
