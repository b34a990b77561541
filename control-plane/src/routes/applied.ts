// What follows a change: the push, and with ?wait the answer of the fleet.

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
  // An app's admin chooses the names of its tokens: none passes for one of another app, or of all.
  return { who: app === undefined ? name : `${app}/${name}`, atMs: request.server.now(), from: request.ip };
}

/** What is wrong with somebody's policy is for who may see all; that a snapshot as a whole cannot be taken, for everybody. */
export function problemsFor(problems: readonly Problem[], seesAll: boolean): readonly Problem[] {
  return seesAll ? problems : problems.filter(({ path }) => path === "");
}

/** @param wait the validated query parameter, if it was given */
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
