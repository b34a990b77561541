// The push protocol: the messages of both sides. The control plane sends a snapshot, which the gateway also keeps on disk (every
// policy at one revision, who is banned, and who may use the check API), and orders about counters. The gateway says hello, which
// revision it has applied or refused, and how it fares.

import type { SnapshotBan } from "../compiled/bans.ts";
import type { Zones } from "../document/schedule.ts";
import type { Problem } from "../document/validate.ts";
import type { WorkerActivity } from "./activity.ts";

export const snapshotFormat = 1;

export interface Snapshot {
  type: "snapshot";
  format: number;
  /** Names the history that `revision` counts in. Another database is another epoch, and its revisions may be lower. */
  epoch: string;
  revision: number;
  /** Proves to a control plane that has lost this revision that it made it. Absent in a snapshot of an older control plane. */
  proof?: string;
  policies: SnapshotPolicy[];
  /**
   * The apps whose policies are restricted by a realm, or by the lack of one. Absent where there are none, and in a snapshot of a
   * control plane that knew no realms.
   */
  apps?: SnapshotApp[];
  /** Absent, like `callers`, in a snapshot of a control plane that knew no bans or callers. */
  bans?: SnapshotBan[];
  callers?: SnapshotCaller[];
  /** The time zones of the policies' schedules; absent where there are none. */
  zones?: Zones;
}

export interface SnapshotPolicy {
  app: string;
  /** The document as it was put, completed from its templates. */
  document: unknown;
}

/**
 * An app that has a realm, or has none: then its policies are for the check API only. An app that is not listed has every host
 * and path; such are `default` and apps from before there were realms.
 */
export interface SnapshotApp {
  app: string;
  /** All its policies match only within this; an absent list means every host, or every path. Bans of its networks hold there. */
  realm?: { hosts?: string[]; paths?: string[] };
}

/** A caller that may use the check API. */
export interface SnapshotCaller {
  app: string;
  /** SHA-256 of the token, in lower case hex. */
  sha256: string;
  /** The token is worth nothing from this second since 1970 on. */
  expiresAtSeconds?: number;
}

/** Reports how a gateway's calls to Redis go. */
export interface RedisReport {
  /**
   * unused: there was no call yet, or none since another worker reports. failing: calls failed lately, and no reply has come
   * since.
   */
  state: "ok" | "failing" | "unused";
  /** Seconds since 1970. */
  sinceSeconds: number;
  /** Names the data that this Redis has; absent until the gateway knows it. All gateways of a fleet must have the same one. */
  id?: string | undefined;
}

/** One limit of a policy, for one key, with the present state of its counter. */
export interface CounterReading {
  name: string;
  /** The most units that can be had at once. */
  capacity: number;
  remaining: number;
  resetAfterUs: number;
}

/**
 * An operator's order for one counter. forget: the gateway drops all that it keeps of it, as if it had never been used. top-up:
 * `units` that the gateway itself counted are refunded, in `limit` or in every limit.
 */
export interface CounterOrder {
  do: "read" | "forget" | "top-up";
  app: string;
  policy: string;
  /** Key values in the key's order, as the gateway would have read them from a request. */
  key: string[];
  limit?: string;
  units?: number;
}

/** Messages of a gateway over the push socket, in JSON text frames. */
export type GatewayMessage =
  /** `proof` is that of the snapshot that the gateway holds, if it had one. */
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
  /** `redis` is absent if the gateway has no Redis. */
  | { type: "status"; counters: Record<string, number>; redis?: RedisReport }
  /**
   * Replies to the order with this id: what the gateway's own counters say afterwards. `limits` is absent if it knows no such
   * policy.
   */
  | { type: "counter"; id: number; limits?: CounterReading[] }
  /** Sent only to a control plane that said `takesActivity`. */
  | { type: "activity"; nowMs: number; workers: WorkerActivity[] };

/** Messages of a control plane over the push socket, in JSON text frames. */
export type ControlMessage =
  | Snapshot
  /** `takesActivity` is absent if the control plane knows no messages of type activity. */
  | { type: "fleet"; gateways: number; takesActivity?: true }
  | ({ type: "counter"; id: number } & CounterOrder);
