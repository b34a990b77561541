// /api/v1/revisions: what was changed, when and by whom.

import type { FastifyInstance } from "fastify";
import { beforeParameter, limitParameter, querySchema } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";
import type { Action } from "../storage/change.ts";
import { listRevisions, type Revision } from "../storage/revisions.ts";

const verbs: Record<Action, string> = {
  "create-app": "created app",
  "delete-app": "deleted app",
  "create-policy": "created policy",
  "update-policy": "updated policy",
  "delete-policy": "deleted policy",
  "new-epoch": "began a new history: gateways held revisions that this database had lost, as after a restore",
};

export default async function revisionRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Querystring: { before?: number; limit: number } }>(
    "/revisions",
    {
      schema: {
        tags: ["revisions"],
        summary: "The history, newest first",
        querystring: querySchema({ before: beforeParameter, limit: limitParameter }),
        response: answers({ 200: "RevisionPage" }),
      },
    },
    async (request) => {
      const { before, limit } = request.query;
      const found = await listRevisions(app.database, before, limit + 1);
      const revisions = found.slice(0, limit);
      return { revisions: revisions.map(shown), next: found.length > limit ? revisions.at(-1)?.number : undefined };
    },
  );
}

function shown({ number, atMs, who, action, app, policy }: Revision) {
  const subject = policy === undefined ? app : `${app}/${policy}`;
  const summary = subject === undefined ? verbs[action] : `${verbs[action]} ${subject}`;
  return {
    n: number,
    at: new Date(atMs).toISOString(),
    who,
    action,
    app,
    policy,
    summary,
  };
}
