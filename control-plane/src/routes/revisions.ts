// /api/v1/revisions: the changes, with their time and author.

import { nameShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { appsOf, callerOf, requireRight } from "../plugins/authentication.ts";
import { validatePut } from "../policies/validate-policy.ts";
import { contextOf } from "../policies/validate-realm.ts";
import { validateTemplate, validateTemplateInApp } from "../policies/validate-template.ts";
import {
  appParameter,
  beforeParameter,
  changeParameters,
  limitParameter,
  policyParameter,
  querySchema,
  revisionSegment,
} from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { readBody } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import type { App } from "../storage/apps.ts";
import { type Action, isOfMany } from "../storage/entry.ts";
import { changesBetween, getRevision, type RevisionDetails, reversed } from "../storage/history.ts";
import { listRevisions, type Revision } from "../storage/revisions.ts";
import { rollBack } from "../storage/roll-back.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { announceChange, originOf, showInAnswer } from "./applied.ts";
import { changesFor } from "./readers.ts";

const verbs: Record<Action, string> = {
  "create-app": "created app",
  "update-app": "changed app",
  "delete-app": "deleted app",
  "create-policy": "created policy",
  "update-policy": "updated policy",
  "delete-policy": "deleted policy",
  "put-policies": "put policies of",
  "delete-policies": "deleted policies of",
  "create-ban": "created ban",
  "delete-ban": "deleted ban",
  "create-template": "created template",
  "update-template": "updated template",
  "delete-template": "deleted template",
  "create-networks": "created list of networks",
  "update-networks": "changed list of networks",
  "delete-networks": "deleted list of networks",
  "create-caller": "created caller token",
  "delete-caller": "deleted caller token",
  "roll-back": "rolled back",
  "begin-epoch": "began a new history, as an admin asked: gateways take it whatever they hold",
  "new-epoch": "began a new history: gateways held revisions that this database had lost, as after a restore",
};

const rollbackShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "The app to roll back.", required: true },
    policy: { shape: nameShape, description: "Only this policy. Absent: all policies and templates of the app." },
  },
};

export default async function revisionRoutes(
  app: FastifyInstance,
  { redisIsSet }: { redisIsSet: boolean },
): Promise<void> {
  app.get<{ Querystring: { before?: number; limit: number } }>(
    "/revisions",
    {
      config: { access: "read", strangers: "filtered" },
      schema: {
        tags: ["history"],
        summary: "List the changes to the apps that your token is for, newest first",
        querystring: querySchema({ before: beforeParameter, limit: limitParameter }),
        response: answers({ 200: "RevisionPage" }),
      },
    },
    async (request) => {
      const { before, limit } = request.query;
      const apps = appsOf(callerOf(request), "read");
      const { revisions, next } = await listRevisions(app.database, apps, before, limit);
      return { revisions: revisions.map(shown), next };
    },
  );

  app.get<{ Params: { revision: number } }>(
    "/revisions/:revision",
    {
      config: { access: "read", strangers: "not-found", refuses: ["revision-not-found"] },
      schema: {
        tags: ["history"],
        summary: "Read a revision with the documents before and after it",
        params: { type: "object", properties: { revision: revisionSegment } },
        querystring: querySchema({}),
        response: answers({ 200: "RevisionDetails" }),
      },
    },
    async (request) => {
      const apps = appsOf(callerOf(request), "read");
      const revision = await getRevision(app.database, { apps }, request.params.revision);
      const { before, after } = await documentsFor(app, request, revision);
      return { ...shown(revision), before: before ?? null, after: after ?? null };
    },
  );

  app.get<{ Params: { from: number; to: number }; Querystring: { app?: string; policy?: string } }>(
    "/revisions/:from/diff/:to",
    {
      config: {
        access: "read",
        strangers: "filtered",
        comparesDocuments: true,
        refuses: ["revision-not-found"],
      },
      schema: {
        tags: ["history"],
        summary: "Show what changed between two revisions, as JSON Patches and as text",
        description:
          "The order of the two decides the direction: a diff from the newer one shows what a roll-back would do.",
        params: { type: "object", properties: { from: revisionSegment, to: revisionSegment } },
        querystring: querySchema({
          app: { ...appParameter, description: "Only documents of this app." },
          policy: { ...policyParameter, description: "Only this policy." },
        }),
        response: answers({ 200: "Diff" }),
      },
    },
    async (request, reply) => {
      const { from, to } = request.params;
      const scope = { apps: appsOf(callerOf(request), "read"), ...request.query };
      const pause = app.pausesOf(request);
      const { changes, moreBans } = await changesBetween(
        app.database,
        scope,
        Math.min(from, to),
        Math.max(from, to),
        pause,
      );
      const readable = await changesFor(app, request, from <= to ? changes : changes.map(reversed));
      const shownChanges = await showInAnswer(reply, readable, pause);
      return { from, to, changes: shownChanges, ...(moreBans === 0 ? {} : { moreBans }) };
    },
  );

  app.post<{ Params: { revision: number }; Querystring: { wait?: string; dryRun: boolean } }>(
    "/revisions/:revision/rollback",
    {
      config: {
        access: "write",
        strangers: "refused",
        comparesDocuments: true,
        records: "revision",
        body: schemaOf(rollbackShape),
        refuses: [
          "app-not-found",
          "policy-not-found",
          "revision-not-found",
          "invalid-policy",
          "invalid-template",
          "bound-exceeded",
          "app-changing",
        ],
      },
      schema: {
        tags: ["history"],
        summary: "Bring a policy, or all policies and templates of an app, back to what they were at a revision",
        description:
          "This makes one new revision, or a few if there are many documents. What would be stored must be valid now. Bans, tokens and the app's settings stay as they are.",
        params: { type: "object", properties: { revision: revisionSegment } },
        querystring: querySchema(changeParameters),
        response: answers({ 200: "RollBack" }),
      },
    },
    async (request, reply) => {
      const { app: name, policy } = readBody<{ app: string; policy?: string }>(rollbackShape, request.body);
      const caller = callerOf(request);
      requireRight(caller, "write", name);
      const what = {
        app: name,
        apps: appsOf(caller, "read"),
        policy,
        to: request.params.revision,
        total: app.totalBounds,
        validate: (ofPolicy: string, document: unknown, templates: Templates, owner: App, isUnchanged: boolean) => {
          // A document that an admin has stored may stay, whoever asks.
          const context = { app: owner, forAllApps: isUnchanged || caller.isAdmin };
          const validation = validatePut(document, ofPolicy, redisIsSet, templates, context);
          if (validation.problems.length === 0) return validation.resolved;
          const errors = validation.problems.map((one) => ({ ...one, path: `policies.${ofPolicy}.${one.path}` }));
          throw new ApiError("invalid-policy", `The policy "${ofPolicy}" would not be valid now.`, { errors });
        },
        validateTemplate: (ofTemplate: string, document: unknown, owner: App) => {
          const problems = [
            ...validateTemplate(document),
            ...validateTemplateInApp(document, contextOf(owner, caller)),
          ];
          if (problems.length === 0) return;
          const errors = problems.map((one) => ({ ...one, path: `templates.${ofTemplate}.${one.path}` }));
          throw new ApiError("invalid-template", `The template "${ofTemplate}" would not be valid now.`, { errors });
        },
      };
      const { revision, changes } = await rollBack(app.database, originOf(request), what, app.pausesOf(request));
      const { dryRun, wait } = request.query;
      const announced = revision === undefined ? {} : await announceChange(app, reply, revision, wait);
      if ("changes" in announced) return announced;
      const shownChanges = await showInAnswer(reply, changes, app.pausesOf(request)).catch((error: unknown) => {
        if (dryRun || revision === undefined || !(error instanceof ApiError)) throw error;
        const detail = `The roll-back is stored, up to revision ${revision}. Too many diffs, roll-backs and dry runs go on for showing what it changed.`;
        throw new ApiError(error.code, detail, {}, error.headers);
      });
      return { changes: shownChanges, ...(dryRun ? { dryRun: true } : {}), ...announced };
    },
  );
}

/** The documents of a revision, as whoever asks may read them. */
async function documentsFor(
  app: FastifyInstance,
  request: FastifyRequest,
  { action, app: name = "", subject = "", before, after }: RevisionDetails,
): Promise<{ readonly before?: unknown; readonly after?: unknown }> {
  const isOfBan = action === "create-ban" || action === "delete-ban";
  if (!isOfBan) return { before, after };
  const [change] = await changesFor(app, request, [{ kind: "ban", app: name, name: subject, before, after }]);
  return change ?? {};
}

function shown({ number, atMs, who, from, action, app, policy, subject }: Revision) {
  // The subject of many documents says where a roll-back went back to, or how many there are.
  const isMany = isOfMany(action);
  const what = isMany ? policy : (subject ?? policy);
  const path = what === undefined ? app : `${app}/${what}`;
  const more = action === "roll-back" || subject === undefined ? subject : `(${subject})`;
  const words = [verbs[action], path, isMany ? more : undefined];
  const summary = words.filter((word) => word !== undefined).join(" ");
  return {
    n: number,
    at: new Date(atMs).toISOString(),
    who,
    from,
    action,
    app,
    policy,
    subject,
    summary,
  };
}
