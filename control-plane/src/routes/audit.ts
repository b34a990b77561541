// /api/v1/audit: who did what, when and from where.

import type { FastifyInstance } from "fastify";
import { appsOf, callerOf } from "../plugins/authentication.ts";
import { limitParameter, querySchema } from "../schemas/parameters.ts";
import { invalidRequest } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { momentRule, readMoment } from "../schemas/since-parameter.ts";
import { auditActions } from "../storage/audit.ts";
import { type AuditEntry, isEntryId, listAudit } from "../storage/audit-trail.ts";
import { actions } from "../storage/entry.ts";

const textParameter = (description: string) =>
  ({ type: "string", maxLength: 255, description, "x-expected": "a text of at most 255 characters, once" }) as const;
/** A misspelt action would look like a trail without such entries. */
const actionParameter = {
  type: "string",
  enum: [...actions, ...auditActions],
  description: "Only this action.",
  "x-expected": `one of ${[...actions, ...auditActions].join(", ")}`,
} as const;
const timeParameter = (description: string) =>
  ({ type: "string", maxLength: 40, description, "x-expected": `${momentRule}, once` }) as const;

const querystring = querySchema({
  app: textParameter("Only entries about this app."),
  who: textParameter("Only what this person or token did."),
  action: actionParameter,
  subject: textParameter("Only entries about this template, token, member or ban."),
  since: timeParameter("Only entries from this time on."),
  until: timeParameter("Only entries before this time."),
  before: {
    type: "string",
    description: "Return entries older than the one with this id: `next` of the previous page.",
    "x-expected": "the id of an entry, once",
  },
  limit: limitParameter,
} as const);

interface AuditQuery {
  app?: string;
  who?: string;
  action?: string;
  subject?: string;
  since?: string;
  until?: string;
  before?: string;
  limit: number;
}

export default async function auditRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Querystring: AuditQuery }>(
    "/audit",
    {
      config: { access: "manage", strangers: "filtered" },
      schema: {
        tags: ["audit"],
        summary: "List who did what to the apps that you own, newest first",
        description:
          "Every change has an entry, and so has every counter that was read, reset or topped up by hand. Entries are kept for SLUICE_AUDIT_DAYS; changes of what gateways enforce for SLUICE_HISTORY_DAYS.",
        querystring,
        response: answers({ 200: "AuditPage" }),
      },
    },
    async (request) => {
      const { since, until, before, limit, ...filter } = request.query;
      if (before !== undefined && !isEntryId(before)) {
        const expected = "the id of an entry, as `next` has it";
        throw invalidRequest({ path: "before", expected, got: JSON.stringify(before) });
      }
      const msOf = (name: string, text: string | undefined) =>
        text === undefined ? undefined : readMoment(name, text, app.now());
      const times = { sinceMs: msOf("since", since), untilMs: msOf("until", until) };
      const apps = appsOf(callerOf(request), "manage");
      const { entries, next } = await listAudit(
        app.database,
        { apps, ...filter, ...times },
        before,
        limit,
        app.pausesOf(request),
      );
      return { entries: entries.map(shown), next };
    },
  );
}

function shown({ atMs, ...entry }: AuditEntry) {
  return { ...entry, at: new Date(atMs).toISOString() };
}
