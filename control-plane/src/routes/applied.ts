// What follows a change: the push, and with ?wait the answer of the fleet.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { callerOf } from "../plugins/authentication.ts";
import type { Applied } from "../push/fleet.ts";
import { waitApplied } from "../push/wait-applied.ts";
import { parseWait } from "../schemas/parameters.ts";
import type { Origin } from "../storage/change.ts";

export interface ChangeAnswer {
  revision: number;
  applied?: Applied;
}

export function originOf(request: FastifyRequest): Origin {
  const { name, app } = callerOf(request);
  // An app's admin chooses the names of its tokens: none passes for one of another app, or of all.
  return { who: app === undefined ? name : `${app}/${name}`, atMs: request.server.now() };
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
  const newest = () => app.publisher.current;
  return { revision, applied: await waitApplied(app.fleet, newest, revision, waitMs, gone.signal) };
}
