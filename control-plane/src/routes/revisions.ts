// /api/v1/revisions: the changes, with their time and author.

import type { FastifyInstance } from "fastify";
import { callerOf } from "../plugins/authentication.ts";
import { beforeParameter, limitParameter, querySchema } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";
import type { Action } from "../storage/entry.ts";
import { listRevisions, type Revision } from "../storage/revisions.ts";

const verbs: Record<Action, string> = {
  "create-app": "created app",
  "update-app": "changed app",
  "delete-app": "deleted app",
  "create-policy": "created policy",
  "update-policy": "updated policy",
  "delete-policy": "deleted policy",
  "create-ban": "created ban",
  "delete-ban": "deleted ban",
  "create-template": "created template",
  "update-template": "updated template",
  "delete-template": "deleted template",
  "create-caller": "created caller token",
  "delete-caller": "deleted caller token",
  "begin-epoch": "began a new history, as an admin asked: gateways take it whatever they hold",
  "new-epoch": "began a new history: gateways held revisions that this database had lost, as after a restore",
};

export default async function revisionRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Querystring: { before?: number; limit: number } }>(
    "/revisions",
    {
      config: { access: "read" },
      schema: {
        tags: ["revisions"],
        summary: "List the changes to the apps that your token is for, newest first",
        querystring: querySchema({ before: beforeParameter, limit: limitParameter }),
        response: answers({ 200: "RevisionPage" }),
      },
    },
    async (request) => {
      const { before, limit } = request.query;
      const found = await listRevisions(app.database, callerOf(request).app, before, limit + 1);
      const revisions = found.slice(0, limit);
      return { revisions: revisions.map(shown), next: found.length > limit ? revisions.at(-1)?.number : undefined };
    },
  );
}

function shown({ number, atMs, who, action, app, policy, subject }: Revision) {
  const what = subject ?? policy;
  const path = what === undefined ? app : `${app}/${what}`;
  const summary = path === undefined ? verbs[action] : `${verbs[action]} ${path}`;
  return {
    n: number,
    at: new Date(atMs).toISOString(),
    who,
    action,
    app,
    policy,
    subject,
    summary,
  };
}
