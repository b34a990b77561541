// /api/v1/apps: the tenants.

import { isName, nameRule, type Shape } from "@sluice/limiter/policy/shape.ts";
import { describeValue } from "@sluice/limiter/policy/validate.ts";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { callerOf } from "../plugins/authentication.ts";
import { afterParameter, appSegment, limitParameter, querySchema, waitParameter } from "../schemas/parameters.ts";
import { readBody } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { type App, deleteApp, getApp, listApps, putApp } from "../storage/apps.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, isKnown, preconditionOf } from "./preconditions.ts";

const params = { type: "object", properties: { app: appSegment } } as const;
const bodyShape: Shape = { kind: "record", fields: {} };
const tags = ["apps"];

interface OneApp {
  Params: { app: string };
  Querystring: { wait?: string };
}

export default async function appRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Querystring: { after: string; limit: number } }>(
    "/apps",
    {
      config: { access: "read" },
      schema: {
        tags,
        summary: "The apps that the token is for, by name",
        querystring: querySchema({ after: afterParameter, limit: limitParameter }),
        response: answers({ 200: "AppPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listApps(app.database, callerOf(request).app, after, limit + 1);
      const apps = found.slice(0, limit);
      return { apps: apps.map(shown), next: found.length > limit ? apps.at(-1)?.name : undefined };
    },
  );

  app.get<OneApp>(
    "/apps/:app",
    {
      config: { access: "read" },
      schema: { tags, summary: "One app", params, querystring: querySchema({}), response: answers({ 200: "App" }) },
    },
    async (request, reply) => {
      const found = await getApp(app.database, request.params.app);
      const etag = etagOf(found.revision);
      reply.header("etag", etag);
      return isKnown(request, etag) ? reply.code(304).send() : shown(found);
    },
  );

  app.put<OneApp>(
    "/apps/:app",
    {
      schema: {
        tags,
        summary: "Make an app, unless it exists; with a token for all apps",
        params,
        querystring: querySchema({ wait: waitParameter }),
        response: answers({ 200: "Change", 201: "Change" }),
      },
    },
    async (request, reply) => {
      const { app: name } = request.params;
      if (!isName(name)) {
        const problem = { path: "app", expected: nameRule, got: describeValue(name) };
        throw new ApiError("invalid-request", "The app's name is no name.", { errors: [problem] });
      }
      // Nothing, or {}: an app has nothing to set yet.
      readBody(bodyShape, request.body ?? {});
      const { revision, created } = await putApp(app.database, originOf(request), name, preconditionOf(request));
      reply.code(created ? 201 : 200).header("etag", etagOf(revision));
      return announceChange(app, reply, revision, request.query.wait);
    },
  );

  app.delete<OneApp>(
    "/apps/:app",
    {
      schema: {
        tags,
        summary:
          "Delete an app that has no policies and no templates, with its bans and tokens; with a token for all apps",
        params,
        querystring: querySchema({ wait: waitParameter }),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const revision = await deleteApp(app.database, originOf(request), request.params.app, preconditionOf(request));
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}

function shown(app: App) {
  return { name: app.name, createdAt: new Date(app.createdAtMs).toISOString(), revision: app.revision };
}
