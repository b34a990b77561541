// /api/v1/apps: the tenants.

import { isName, nameRule } from "@sluice/limiter/policy/shape.ts";
import type { FastifyInstance } from "fastify";
import { boundNames, boundsOf, type TotalBounds, type Usage } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { callerOf } from "../plugins/authentication.ts";
import { appBodySchema, readAppBody } from "../schemas/app-body.ts";
import { afterParameter, appSegment, limitParameter, querySchema, waitParameter } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";
import { type App, deleteApp, getApp, listApps, putApp } from "../storage/apps.ts";
import { noUsage, readUsage, readUsages } from "../storage/usage.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, isKnown, preconditionOf } from "./preconditions.ts";

const params = { type: "object", properties: { app: appSegment } } as const;
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
      const usages = await readUsages(
        app.database,
        apps.map(({ name }) => name),
      );
      return {
        apps: apps.map((one) => shown(one, app.totalBounds, usages.get(one.name))),
        next: found.length > limit ? apps.at(-1)?.name : undefined,
      };
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
      if (isKnown(request, etag)) return reply.code(304).send();
      return shown(found, app.totalBounds, await readUsage(app.database, found.name));
    },
  );

  app.put<OneApp>(
    "/apps/:app",
    {
      config: { body: appBodySchema },
      schema: {
        tags,
        summary: "Make an app, or change what is set of it; with a token for all apps",
        description: "A field that is absent stays as it is; null takes back what was set.",
        params,
        querystring: querySchema({ wait: waitParameter }),
        response: answers({ 200: "Change", 201: "Change" }),
      },
    },
    async (request, reply) => {
      const { app: name } = request.params;
      if (!isName(name)) {
        const problem = { path: "app", expected: nameRule, got: JSON.stringify(name.slice(0, 80)) };
        throw new ApiError("invalid-request", "The app's name is no name.", { errors: [problem] });
      }
      const asked = readAppBody(request.body);
      const precondition = preconditionOf(request);
      const { revision, created } = await putApp(app.database, originOf(request), name, asked, precondition);
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

function shown(app: App, total: TotalBounds, used: Usage = noUsage()) {
  return {
    name: app.name,
    createdAt: new Date(app.createdAtMs).toISOString(),
    revision: app.revision,
    bounds: boundsOf(app.name, app.bounds, total),
    used: Object.fromEntries(boundNames.map((name) => [name, used[name]])),
  };
}
