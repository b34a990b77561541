// The end of every change: the push and, with ?wait, the counts of the fleet.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { callerOf } from "../plugins/authentication.ts";
import type { Applied } from "../push/fleet.ts";
import { parseWait } from "../schemas/parameters.ts";
import type { Origin } from "../storage/change.ts";

export interface ChangeAnswer {
  revision: number;
  applied?: Omit<Applied, "refusals"> & {
    refusals?: { gateway: string; revision: number; errors: readonly Problem[] }[];
  };
}

export function originOf(request: FastifyRequest): Origin {
  const { name, app } = callerOf(request);
  // An app's admin chooses the names of its tokens. The prefix keeps such a token from looking like one of another app, or
  // of all apps.
  return { who: app === undefined ? name : `${app}/${name}`, atMs: request.server.now(), from: request.ip };
}

/**
 * Filters problems for the reader. Problems of a policy are only for those who may see all apps; a problem of the snapshot
 * as a whole is for everybody.
 */
export function problemsFor(problems: readonly Problem[], seesAll: boolean): readonly Problem[] {
  return seesAll ? problems : problems.filter(({ path }) => path === "");
}

/** @param wait the validated query parameter, if it is present */
export async function announceChange(
  app: FastifyInstance,
  reply: FastifyReply,
  revision: number,
  wait: string | undefined,
): Promise<ChangeAnswer> {
  void app.publisher.publish();
  const waitMs = wait === undefined ? undefined : parseWait(wait);
  if (waitMs === undefined) return { revision };
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  const applied = await app.appliedWaits.wait(revision, waitMs, callerOf(reply.request), gone.signal);
  const { refusals, ...counts } = applied;
  if (refusals === undefined) return { revision, applied: counts };
  const seesAll = callerOf(reply.request).app === undefined;
  const reported = refusals.map(({ problems, ...one }) => ({ ...one, errors: problemsFor(problems, seesAll) }));
  return { revision, applied: { ...counts, refusals: reported } };
}
