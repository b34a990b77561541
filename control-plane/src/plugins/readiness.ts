// Decides whether this control plane can do its work, and why not. It is ready unless another control plane could do better: a
// full disk or an absent Redis would be the same for all, and is only reported. However often somebody asks, the database is
// asked twice a second at most, and the gateways are counted ten times a second.

import fp from "fastify-plugin";
import type { Alarm, AlarmName } from "../push/alarms.ts";
import type { RedisHealth } from "../redis/redis-link.ts";
import { probeSchema } from "../storage/database.ts";
import type { StorageState } from "../storage/engines/storage-health.ts";

export interface Readiness {
  /** Why it cannot do its work; empty if it can. */
  readonly unready: readonly string[];
  /** What it does not do, or not as well as it should, although it is ready. */
  readonly degraded: readonly string[];
  readonly storage: StorageState;
  readonly redis: RedisHealth["state"] | "not-configured";
  /** Connected gateways. */
  readonly gateways: number;
  readonly alarms: readonly Alarm[];
}

declare module "fastify" {
  interface FastifyInstance {
    readiness(): Promise<Readiness>;
    /** From now on it is not ready, although it still answers. */
    announceStop(): void;
  }
}

const probeEveryMs = 500;
const countEveryMs = 100;
/** A probe that takes longer counts as failed. It goes on, and no other one begins before its end. */
const maxProbeMs = 2_000;
/** Reading and writing a large snapshot takes a second or two. */
const mostBehindMs = 10_000;

const degradations: Readonly<Record<Exclude<StorageState, "ok">, string>> = {
  full: "The disk of the database is full: changes are refused.",
  unreachable: "The database does not answer.",
  unwritable: "The database cannot be written to: changes are refused.",
};

const notNewest = "Gateways do not have the newest state: see alarms.";
const alarmSentences: Readonly<Record<AlarmName, string>> = {
  "sluice-errors": "Sluice itself fails in gateways: see alarms.",
  "snapshot-refused": notNewest,
  "snapshot-late": notNewest,
  "revision-unknown": notNewest,
  "consumers-full": "Gateways have no memory for all consumers: see alarms.",
  "redis-missing": "Gateways have no Redis for policies of scope cluster: see alarms.",
  "another-redis": "Gateways use another Redis than their fleet: see alarms.",
  "redis-overloaded": "Redis is too slow for gateways, which decide by their shares: see alarms.",
  "another-database": "A control plane with another database uses the same Redis.",
};

export default fp(
  async (app) => {
    let stopping = false;
    let failure: string | undefined;
    let probedAtMs = Number.NEGATIVE_INFINITY;
    let probing: Promise<void> | undefined;
    let counted: { readonly atMs: number; readonly alarms: readonly Alarm[]; readonly gateways: number } | undefined;

    async function probe(): Promise<void> {
      const former = failure;
      try {
        failure = await probeSchema(app.database);
        if (failure !== undefined && former === undefined) app.log.error({ reason: failure }, "not ready");
      } catch (error) {
        failure = "The database does not answer.";
        if (former === undefined) app.log.error({ err: error }, "the database does not answer");
      }
      if (former !== undefined && failure === undefined) app.log.warn("the database answers again");
    }

    async function databaseFailure(): Promise<string | undefined> {
      if (performance.now() - probedAtMs > probeEveryMs) {
        probing ??= probe().finally(() => {
          probing = undefined;
          probedAtMs = performance.now();
        });
      }
      if (probing === undefined) return failure;
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise<string>((resolve) => {
        timer = setTimeout(resolve, maxProbeMs, `The database does not answer within ${maxProbeMs / 1_000} s.`);
      });
      const answered = probing.then(() => failure);
      try {
        return await Promise.race([answered, patience]);
      } finally {
        clearTimeout(timer);
      }
    }

    function count() {
      const nowMs = performance.now();
      if (counted === undefined || nowMs - counted.atMs > countEveryMs) {
        const alarms = app.alarms.all();
        counted = { atMs: nowMs, alarms, gateways: app.fleet.connectedCount };
      }
      return counted;
    }

    app.decorate("announceStop", () => {
      stopping = true;
    });
    app.decorate("readiness", async () => {
      const unready: string[] = [];
      if (stopping) unready.push("The control plane is stopping.");
      const failed = await databaseFailure();
      if (failed !== undefined) unready.push(failed);
      const { behindSinceMs } = app.publisher;
      if (behindSinceMs !== undefined && performance.now() - behindSinceMs > mostBehindMs) {
        unready.push("Stored changes cannot be read for the gateways.");
      }
      const degraded: string[] = [];
      const storage = app.storageHealth.state;
      if (storage !== "ok") degraded.push(degradations[storage]);
      const redis = app.redis === undefined ? "not-configured" : app.redis.link.health.state;
      if (redis === "failing") degraded.push("Redis does not do what counters need.");
      const { alarms, gateways } = count();
      for (const sentence of new Set(alarms.map(({ alarm }) => alarmSentences[alarm]))) degraded.push(sentence);
      return { unready, degraded, storage, redis, gateways, alarms };
    });
  },
  { name: "readiness", dependencies: ["database", "push", "redis"] },
);
