// The push protocol: the messages of both sides. The control plane sends a snapshot (every policy at one revision, who is banned, and
// who may use the check API) to a gateway that holds nothing that it knows, and afterwards deltas: what has changed since the revision
// that the gateway holds. It also sends orders about counters. The gateway says hello, which revision it has applied or refused, and
// how it fares.
//
// At most one snapshot or delta is on its way to a gateway. When the gateway has answered it and there is something newer, a delta
// from what the gateway holds follows. Consumers come beside them, in messages of their own (consumer-lines.ts) with positions of their
// own, and likewise one at a time.

import type { SnapshotBan } from "../compiled/bans.ts";
import type { Zones } from "../document/schedule.ts";
import type { Problem } from "../document/validate.ts";
import type { GoneEntry, SnapshotApp, SnapshotCaller, SnapshotNetworks } from "../state/entries.ts";
import type { WorkerActivity } from "./activity.ts";

export type { SnapshotApp, SnapshotCaller } from "../state/entries.ts";

/**
 * The version that this code speaks. A gateway of version 1 does not say its version, and gets a snapshot for every change; so does a
 * gateway whose control plane has version 1. A gateway of version 2 gets no consumers; a control plane of version 2 has none.
 */
export const protocolVersion = 3;
/** From this version on, changes are deltas. */
export const deltasSince = 2;
/** From this version on, there are consumers. */
export const consumersSince = 3;

export const snapshotFormat = 1;

export interface Snapshot {
  type: "snapshot";
  format: number;
  /** Names the history that `revision` counts in. Another database is another epoch, and its revisions may be lower. */
  epoch: string;
  revision: number;
  /** Proves to a control plane that has lost this revision that it made it. Absent in a snapshot of an older control plane. */
  proof?: string;
  /** As in `Position`. Absent in a snapshot of protocol version 1. */
  edition?: string;
  policies: SnapshotPolicy[];
  /**
   * The apps whose policies are restricted by a realm, or by the lack of one. Absent where there are none, and in a snapshot of a
   * control plane that knew no realms.
   */
  apps?: SnapshotApp[];
  /** Blocks of named lists of networks; absent where there are none, and in a snapshot of a control plane that had no lists. */
  networks?: SnapshotNetworks[];
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

/** What has changed between two positions. What is gone is gone before anything is set. */
export interface Delta {
  type: "delta";
  format: number;
  epoch: string;
  revision: number;
  edition: string;
  proof: string;
  /** The position that the gateway must hold. */
  from: { epoch: string; revision: number; edition?: string };
  /** How many policies there are afterwards. */
  policyCount: number;
  /** Those of the policies' schedules, also if they are held. */
  zones?: Zones;
  apps?: SnapshotApp[];
  networks?: SnapshotNetworks[];
  bans: SnapshotBan[];
  callers: SnapshotCaller[];
  policies: SnapshotPolicy[];
  gone: GoneEntry[];
}

/**
 * What a message with consumers begins with; their lines follow (consumer-lines.ts). They take a gateway from one position to another.
 * Positions grow with each consumer that changes. The epoch names the part of the history in which `to` was read: a gateway says it with
 * its position, and may get changes of a later part.
 */
export interface ConsumersHead {
  type: "consumers";
  epoch: string;
  from: number;
  to: number;
  /** Present: the gateway is to begin anew. When it has everything, it forgets what it held before and did not get again. */
  fresh?: true;
  /** Whether more is to come at once. */
  more: boolean;
  /**
   * How many consumers apps have, so that a gateway knows how many it lacks: those of which this message has changes; if `all` is there,
   * every app that has any. They are as of `to`, or of what comes next if there is more.
   */
  counts?: Record<string, number>;
  all?: true;
}

/** Which consumers a gateway holds. An empty epoch: none. */
export interface HeldConsumers {
  epoch: string;
  position: number;
  /** How many it knows. */
  count: number;
  /** How many it has no memory for. They have the default plan there. */
  unstored: number;
  /** How many of them each app has; absent: none, or it is not known of which apps they are. */
  lacking?: Record<string, number> | undefined;
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
  /**
   * Names the data that this Redis has; absent until the gateway knows it. All gateways of a fleet must have the same one. If the
   * workers of the gateway use different ones, it is that of most workers.
   */
  id?: string | undefined;
  /** How many workers use another Redis than `id`. Absent: none. */
  strayWorkers?: number | undefined;
  /**
   * How many workers decide by their share by choice, because Redis is overloaded. Absent: none, or the gateway is older than this
   * field.
   */
  overloadedWorkers?: number | undefined;
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
  /** The plan whose limits are meant. Absent: the one that the key names, or the default plan. */
  plan?: string;
  limit?: string;
  units?: number;
}

/** Messages of a gateway over the push socket, in JSON text frames. */
export type GatewayMessage =
  /**
   * `proof` and `edition` are those of what the gateway holds, if it had them. No `protocol` is version 1. No `consumers`: it has no
   * memory for them, and gets none.
   */
  | {
      type: "hello";
      gateway: string;
      version: string;
      workers: number;
      epoch: string;
      revision: number;
      proof?: string | undefined;
      edition?: string | undefined;
      protocol?: number;
      consumers?: HeldConsumers | undefined;
    }
  /** The gateway decides by these consumers: the answer to a message with consumers, or a request for those after this position. */
  | ({ type: "consumers" } & HeldConsumers)
  /** Every worker decides by this revision. */
  | { type: "applied"; epoch: string; revision: number }
  /** The revision is taken, but not every worker has applied it in time. `applied` follows when they have. */
  | { type: "held"; epoch: string; revision: number }
  /** The delta does not fit what the gateway holds, which is this: it needs a snapshot. */
  | { type: "resync"; epoch: string; revision: number }
  | { type: "refused"; epoch: string; revision: number; problems: Problem[] }
  /**
   * `redis` is absent if the gateway has no Redis. `errors`: those of Sluice itself since nginx started, by place; absent if there was
   * none within the last minutes. `warnings`: sentences for its operator, at most 10 of 200 characters; absent if there is none.
   */
  | {
      type: "status";
      counters: Record<string, number>;
      redis?: RedisReport;
      errors?: Record<string, number>;
      warnings?: string[];
    }
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
  | Delta
  /** `takesActivity` is absent if the control plane knows no messages of type activity; no `protocol` is version 1. */
  | { type: "fleet"; gateways: number; takesActivity?: true; protocol?: number }
  | ({ type: "counter"; id: number } & CounterOrder);
