// The snapshot as it travels from the control plane to a gateway and rests on its disk: every policy at one revision,
// and who is banned and who may ask.

import type { SnapshotBan } from "../compiled/bans.ts";
import type { Zones } from "../document/schedule.ts";
import type { Problem } from "../document/validate.ts";

export const snapshotFormat = 1;

export interface Snapshot {
  type: "snapshot";
  format: number;
  /** Names the history that `revision` counts in: another database is another epoch, and may count lower. */
  epoch: string;
  revision: number;
  /** Shows later, to a control plane that has lost this revision, that it made it. Absent in one of an older control plane. */
  proof?: string;
  policies: SnapshotPolicy[];
  /**
   * The apps whose policies do not simply match what they say. Absent where there are none, and in a snapshot of a control
   * plane that knew no realms.
   */
  apps?: SnapshotApp[];
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

/**
 * An app that has a realm, or none: then its policies are for the ask-first API alone. One that is not listed has every
 * host and path, as `default` has, and an app from before there were realms.
 */
export interface SnapshotApp {
  app: string;
  /** What all its policies match within; an absent list is every host, or every path. Bans of its networks hold there. */
  realm?: { hosts?: string[]; paths?: string[] };
}

/** Who may use the ask-first API. */
export interface SnapshotCaller {
  app: string;
  /** Of the token, in lower case hex. */
  sha256: string;
  /** Worth nothing from this second since 1970 on. */
  expiresAtSeconds?: number;
}

/** Of a gateway's calls to Redis. */
export interface RedisReport {
  /** unused: no call yet, or none since another worker reports. failing: calls failed lately, and none came after. */
  state: "ok" | "failing" | "unused";
  /** Seconds since 1970. */
  sinceSeconds: number;
}

/** One limit of a policy, for one key, as its counter is now. */
export interface CounterReading {
  name: string;
  /** The most units that can be had at once. */
  capacity: number;
  remaining: number;
  resetAfterUs: number;
}

/**
 * What an operator wants of one counter. forget: all that the gateway keeps of it, as if it was never used. top-up: `units`
 * of its own counting are given back, of `limit` or of every limit.
 */
export interface CounterOrder {
  do: "read" | "forget" | "top-up";
  app: string;
  policy: string;
  /** In the key's order, as the gateway would have read them from a request. */
  key: string[];
  limit?: string;
  units?: number;
}

/** What a gateway says over the push socket, in JSON text frames. */
export type GatewayMessage =
  /** `proof` is that of the snapshot it holds, if it had one. */
  | {
      type: "hello";
      gateway: string;
      version: string;
      workers: number;
      epoch: string;
      revision: number;
      proof?: string | undefined;
    }
  | { type: "applied"; epoch: string; revision: number }
  | { type: "refused"; epoch: string; revision: number; problems: Problem[] }
  /** Without `redis`: it has none. */
  | { type: "status"; counters: Record<string, number>; redis?: RedisReport }
  /** Answers the order of this id, with what its own counters say afterwards. Without `limits`: it knows no such policy. */
  | { type: "counter"; id: number; limits?: CounterReading[] };

/** What a control plane says over the push socket, in JSON text frames. */
export type ControlMessage =
  | Snapshot
  | { type: "fleet"; gateways: number }
  | ({ type: "counter"; id: number } & CounterOrder);
