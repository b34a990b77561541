// The end of every change: the push and, with ?wait, the counts of the fleet.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type ShownChange, showChanges } from "../history/diff.ts";
import { callerOf } from "../plugins/authentication.ts";
import type { Applied } from "../push/fleet.ts";
import { parseWait } from "../schemas/parameters.ts";
import type { DryRun, Origin } from "../storage/change.ts";
import { changesOfEntry, type DocumentChange } from "../storage/history.ts";

export interface ChangeAnswer {
  revision: number;
  dryRun?: true;
  /** With a dry run: what would change, and which gateways would get it. */
  changes?: ShownChange[];
  /** How many changes there are beyond those. */
  moreChanges?: number;
  gateways?: string[];
  applied?: Omit<Applied, "refusals"> & {
    refusals?: { gateway: string; revision: number; errors: readonly Problem[] }[];
  };
}

/** The most changes that a dry run shows: each is written as YAML, and compared. Only a change of many policies has more. */
const mostShown = 1_000;

/** Where a dry run notes what would change. */
const dryRuns = new WeakMap<FastifyRequest, DryRun>();

export function originOf(request: FastifyRequest): Origin {
  const { server, address: from } = request;
  const requireStill: Origin["requireStill"] = (transaction) => server.requireStill(request, transaction);
  const origin = { who: callerOf(request).who, atMs: server.now(), from, requireStill };
  const { dryRun } = request.query as { dryRun?: boolean };
  if (dryRun !== true) return origin;
  const entries: DryRun = { entries: [] };
  dryRuns.set(request, entries);
  return { ...origin, dryRun: entries };
}

/**
 * Filters problems for the reader. Problems of a policy are only for those who may see all apps; a problem of the snapshot
 * as a whole is for everybody.
 */
export function problemsFor(problems: readonly Problem[], seesAll: boolean): readonly Problem[] {
  return seesAll ? problems : problems.filter(({ path }) => path === "");
}

/** Shows changes as the field `changes` of the answer, which is written in pieces, since it may be megabytes long. */
export async function showInAnswer(
  reply: FastifyReply,
  all: readonly DocumentChange[],
  pause: () => Promise<void>,
): Promise<ShownChange[]> {
  const shown = await showChanges(all, pause);
  const texts: Buffer[] = [];
  for (const one of shown) {
    texts.push(Buffer.from(texts.length === 0 ? JSON.stringify(one) : `,${JSON.stringify(one)}`));
    await pause();
  }
  reply.type("application/json; charset=utf-8");
  reply.serializer((answer: { changes?: unknown }) => {
    const { changes, ...others } = answer;
    // It may be an error instead.
    if (changes !== shown) return JSON.stringify(answer);
    const fields = Object.entries(others).filter(([, value]) => value !== undefined);
    const written = fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)},`);
    const bytes = Buffer.concat([Buffer.from(`{${written.join("")}"changes":[`), ...texts, Buffer.from("]}")]);
    // Fastify sends bytes as they are, though its types know texts alone.
    return bytes as unknown as string;
  });
  return shown;
}

/** @param wait the validated query parameter, if it is present */
export async function announceChange(
  app: FastifyInstance,
  reply: FastifyReply,
  revision: number,
  wait: string | undefined,
): Promise<ChangeAnswer> {
  const dryRun = dryRuns.get(reply.request);
  if (dryRun !== undefined) {
    reply.code(200).removeHeader("etag");
    const gateways = app.fleet.connectedIds();
    const pause = app.pausesOf(reply.request);
    const all: DocumentChange[] = [];
    for (const entry of dryRun.entries) {
      all.push(...changesOfEntry(entry));
      await pause();
    }
    const changes = await showInAnswer(reply, all.slice(0, mostShown), pause);
    const more = all.length > mostShown ? { moreChanges: all.length - mostShown } : {};
    return { revision, dryRun: true, changes, ...more, gateways };
  }
  void app.publisher.publish();
  const waitMs = wait === undefined ? undefined : parseWait(wait);
  if (waitMs === undefined) return { revision };
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  const { id, member, roles } = callerOf(reply.request);
  const asker = { tokenId: id, app: roles.size === 1 ? [...roles.keys()][0] : member };
  const applied = await app.appliedWaits.wait(revision, waitMs, asker, gone.signal);
  const { refusals, ...counts } = applied;
  if (refusals === undefined) return { revision, applied: counts };
  const seesAll = callerOf(reply.request).isAdmin;
  const reported = refusals.map(({ problems, ...one }) => ({ ...one, errors: problemsFor(problems, seesAll) }));
  return { revision, applied: { ...counts, refusals: reported } };
}
