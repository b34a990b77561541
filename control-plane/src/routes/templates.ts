// /api/v1/apps/{app}/templates: actions and costs that several policies refer to by name.

import { isName, nameRule } from "@sluice/limiter/document/policy-shape.ts";
import { describeValue, type Problem } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance } from "fastify";
import { documentBytes } from "../bounds/policy-size.ts";
import { ApiError, countOfErrors } from "../errors/api-error.ts";
import { isKnown } from "../http/etags.ts";
import { callerOf } from "../plugins/authentication.ts";
import { contextOf } from "../policies/validate-realm.ts";
import { misfits, validateTemplate, validateTemplateInApp } from "../policies/validate-template.ts";
import {
  afterParameter,
  appSegment,
  changeParameters,
  limitParameter,
  querySchema,
  templateSegment,
} from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import type { App } from "../storage/apps.ts";
import { checkDocumentBytes } from "../storage/check-bounds.ts";
import {
  deleteTemplate,
  getTemplate,
  listTemplates,
  putTemplate,
  type StoredTemplate,
  templateBytes,
  type UsingPolicy,
} from "../storage/templates.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { templateShape } from "../templates/template-shape.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, preconditionOf } from "./preconditions.ts";

const appParams = { type: "object", properties: { app: appSegment } } as const;
const params = { type: "object", properties: { app: appSegment, template: templateSegment } } as const;
const tags = ["templates"];

interface OneTemplate {
  Params: { app: string; template: string };
  Querystring: { wait?: string };
}

export default async function templateRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Params: { app: string }; Querystring: { after: string; limit: number } }>(
    "/apps/:app/templates",
    {
      config: { access: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "List an app's templates by name",
        params: appParams,
        querystring: querySchema({ after: afterParameter, limit: limitParameter }),
        response: answers({ 200: "TemplatePage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listTemplates(app.database, request.params.app, after, limit + 1);
      const templates = found.slice(0, limit);
      return { templates: templates.map(listed), next: found.length > limit ? templates.at(-1)?.name : undefined };
    },
  );

  app.get<OneTemplate>(
    "/apps/:app/templates/:template",
    {
      config: { access: "read", conditions: "read", refuses: ["app-not-found", "template-not-found"] },
      schema: {
        tags,
        summary: "Read a template",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "Template" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { document, revision } = await getTemplate(app.database, request.params.app, request.params.template);
      const etag = etagOf(revision);
      reply.header("etag", etag);
      return isKnown(request, etag) ? reply.code(304).send() : document;
    },
  );

  app.put<OneTemplate>(
    "/apps/:app/templates/:template",
    {
      config: {
        access: "write",
        records: "revision",
        body: schemaOf(templateShape),
        conditions: "change",
        refuses: ["app-not-found", "invalid-template", "bound-exceeded"],
      },
      schema: {
        tags,
        summary: "Store a template and push the policies that use it",
        description:
          "A template has either onLimit or cost, as in a policy. Every policy that uses it must stay valid.",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change", 201: "Change" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: appName, template: name } = request.params;
      const { body } = request;
      checkDocumentBytes("template", documentBytes(body), await templateBytes(app.database, appName, name));
      const problems = validateTemplate(body);
      if (!isName(name)) problems.push({ path: "name", expected: nameRule, got: describeValue(name) });
      refuse(problems, "Invalid template");
      const put = {
        app: appName,
        name,
        document: body as Record<string, unknown>,
        precondition: preconditionOf(request),
        total: app.totalBounds,
        validate: (owner: App) =>
          refuse(validateTemplateInApp(body, contextOf(owner, callerOf(request))), "The app cannot have this template"),
        check: async (users: readonly UsingPolicy[], templates: Templates) =>
          refuse(await misfits(users, templates), "A policy that uses the template could not have it"),
      };
      const { revision, created } = await putTemplate(app.database, originOf(request), put);
      reply.code(created ? 201 : 200).header("etag", etagOf(revision));
      return announceChange(app, reply, revision, request.query.wait);
    },
  );

  app.delete<OneTemplate>(
    "/apps/:app/templates/:template",
    {
      config: {
        access: "write",
        records: "revision",
        conditions: "change",
        refuses: ["app-not-found", "template-not-found", "template-in-use"],
      },
      schema: {
        tags,
        summary: "Delete a template that no policy uses",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const { app: appName, template: name } = request.params;
      const precondition = preconditionOf(request);
      const revision = await deleteTemplate(app.database, originOf(request), appName, name, precondition);
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}

/** @throws ApiError invalid-template if there are problems */
function refuse(problems: readonly Problem[], what: string): void {
  if (problems.length === 0) return;
  throw new ApiError("invalid-template", `${what}: ${countOfErrors(problems.length)}.`, { errors: problems });
}

function listed({ name, revision, updatedAtMs, document }: StoredTemplate) {
  return { name, etag: etagOf(revision), revision, updatedAt: new Date(updatedAtMs).toISOString(), document };
}
