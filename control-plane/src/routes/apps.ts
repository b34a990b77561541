// /api/v1/apps: the tenants.

import { isName, nameRule } from "@sluice/limiter/document/policy-shape.ts";
import { maxProblems } from "@sluice/limiter/document/problems.ts";
import { describeValue, type Problem } from "@sluice/limiter/document/validate.ts";
import type { RealmDocument } from "@sluice/limiter/realm/realm.ts";
import type { FastifyInstance } from "fastify";
import { boundNames, boundsOf, type TotalBounds, type Usage } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { isKnown } from "../http/etags.ts";
import { appsOf, callerOf } from "../plugins/authentication.ts";
import { missingLists } from "../policies/missing-lists.ts";
import { outsiders } from "../policies/validate-realm.ts";
import { appBodySchema, readAppBody } from "../schemas/app-body.ts";
import { afterParameter, appSegment, changeParameters, limitParameter, querySchema } from "../schemas/parameters.ts";
import { invalidRequest } from "../schemas/read-body.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import { type App, deleteApp, getApp, listApps, type PolicyOfApp, putApp } from "../storage/apps.ts";
import { noUsage, readUsage, readUsages } from "../storage/usage.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, preconditionOf } from "./preconditions.ts";

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
      config: { access: "read", strangers: "filtered" },
      schema: {
        tags,
        summary: "List the apps that your token is for, by name",
        querystring: querySchema({ after: afterParameter, limit: limitParameter }),
        response: answers({ 200: "AppPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listApps(app.database, appsOf(callerOf(request), "read"), after, limit + 1);
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
      config: { access: "read", conditions: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "Read an app",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "App" }, etagHeader),
      },
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
      config: {
        records: "revision",
        body: appBodySchema,
        conditions: "change",
        refuses: ["app-protected", "outside-realm"],
      },
      schema: {
        tags,
        summary: "Create an app or change its settings",
        description:
          "The realm is what the app's policies may match and redirect to. Without a realm they match no traffic and are only for the check API. `exempt` is whom they do not count. An absent field keeps its value; null removes the setting.",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "AppChange", 201: "AppChange" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: name } = request.params;
      if (!isName(name)) {
        throw invalidRequest({ path: "app", expected: nameRule, got: describeValue(name) });
      }
      const put = { name, asked: readAppBody(request.body), precondition: preconditionOf(request), check };
      const { revision, created, silenced } = await putApp(app.database, originOf(request), put);
      reply.code(created ? 201 : 200).header("etag", etagOf(revision));
      const warnings = [
        ...silencedPolicies(name, silenced),
        ...(await missingLists(app.database, name, put.asked.exempt)),
      ];
      return {
        ...(await announceChange(app, reply, revision, request.query.wait)),
        ...(warnings.length === 0 ? {} : { warnings }),
      };
    },
  );

  app.delete<OneApp>(
    "/apps/:app",
    {
      config: {
        records: "revision",
        conditions: "change",
        refuses: ["app-not-found", "app-protected", "app-not-empty"],
      },
      schema: {
        tags,
        summary: "Delete an app without policies, templates and lists of networks, with its bans and tokens",
        description:
          "The counters stay until they expire. An app of the same name, with policies of the same names, goes on counting where they are.",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const revision = await deleteApp(app.database, originOf(request), request.params.app, preconditionOf(request));
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}

function shown(
  { name, createdAtMs, revision, realm, bounds, exempt }: App,
  total: TotalBounds,
  used: Usage = noUsage(),
) {
  return {
    name,
    createdAt: new Date(createdAtMs).toISOString(),
    revision,
    realm: realm.state === "set" ? realm.document : null,
    realmState: realm.state,
    exempt: exempt ?? null,
    bounds: boundsOf(name, bounds, total),
    used: Object.fromEntries(boundNames.map((bound) => [bound, used[bound]])),
  };
}

/** @throws ApiError outside-realm */
async function check(realm: RealmDocument, policies: readonly PolicyOfApp[], templates: Templates): Promise<void> {
  const found = await outsiders(policies, realm, templates);
  if (found.length === 0) return;
  const names = found.map(({ name }) => name);
  const some = names.length > 20 ? [...names.slice(0, 20), "…"] : names;
  const detail = `${names.length === 1 ? "The policy" : "The policies"} ${some.join(", ")} would be outside of the realm.`;
  const errors = found.flatMap(({ name, problems }) =>
    problems.map(({ path, ...problem }) => ({ path: `policies.${name}.${path}`, ...problem })),
  );
  throw new ApiError("outside-realm", detail, { policies: names, errors: errors.slice(0, maxProblems) });
}

/** @param silenced how many policies stop matching traffic */
function silencedPolicies(name: string, silenced: number): Problem[] {
  if (silenced === 0) return [];
  const got = `none: ${silenced === 1 ? "its policy matches" : `its ${silenced} policies match`} no traffic now`;
  return [{ path: "realm", expected: `a realm for app ${name}`, got }];
}
