// /api/v1/apps/{app}/policies: the policies that gateways enforce.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { FastifyInstance } from "fastify";
import { documentBytes } from "../bounds/policy-size.ts";
import { ApiError, countOfErrors } from "../errors/api-error.ts";
import { refuseWarnings } from "../errors/refuse-warnings.ts";
import { isKnown } from "../http/etags.ts";
import { callerOf } from "../plugins/authentication.ts";
import { fleetWarnings } from "../policies/fleet-warnings.ts";
import { missingLists } from "../policies/missing-lists.ts";
import { validatePut } from "../policies/validate-policy.ts";
import { contextOf } from "../policies/validate-realm.ts";
import {
  afterParameter,
  appSegment,
  changeParameters,
  limitParameter,
  policySegment,
  querySchema,
  strictParameter,
} from "../schemas/parameters.ts";
import { policyBodySchema } from "../schemas/policy-schema.ts";
import { answers, etagHeader } from "../schemas/responses.ts";
import { type App, getApp } from "../storage/apps.ts";
import { checkDocumentBytes, documentProblems } from "../storage/check-bounds.ts";
import { deletePolicy, getPolicy, listPolicies, putPolicy, type StoredPolicy } from "../storage/policies.ts";
import { readTemplates } from "../storage/template-documents.ts";
import type { Templates } from "../templates/resolve-templates.ts";
import { announceChange, originOf } from "./applied.ts";
import { etagOf, preconditionOf } from "./preconditions.ts";

const appParams = { type: "object", properties: { app: appSegment } } as const;
const params = { type: "object", properties: { app: appSegment, policy: policySegment } } as const;
const tags = ["policies"];

interface OnePolicy {
  Params: { app: string; policy: string };
  Querystring: { wait?: string; strict: boolean };
}

export default async function policyRoutes(
  app: FastifyInstance,
  { redisIsSet }: { redisIsSet: boolean },
): Promise<void> {
  app.get<{ Params: { app: string }; Querystring: { after: string; limit: number } }>(
    "/apps/:app/policies",
    {
      config: { access: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "List an app's policies by name",
        params: appParams,
        querystring: querySchema({ after: afterParameter, limit: limitParameter }),
        response: answers({ 200: "PolicyPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const { policies, hasMore } = await listPolicies(app.database, request.params.app, after, limit);
      return { policies: policies.map(listed), next: hasMore ? policies.at(-1)?.name : undefined };
    },
  );

  app.post<{ Params: { app: string }; Querystring: { strict: boolean } }>(
    "/apps/:app/policies/validate",
    {
      config: { access: "read", records: "nothing", body: policyBodySchema, refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "Check a document without storing it",
        description:
          "Answers 200 for a valid document, with the warnings that PUT would have, and 422 for an invalid one, with all errors. The name may be absent, as for PUT.",
        params: appParams,
        querystring: querySchema({ strict: strictParameter }),
        response: answers({ 200: "Validity", 422: "Validity" }),
      },
    },
    async (request, reply) => {
      const owner = await getApp(app.database, request.params.app);
      const context = contextOf(owner, callerOf(request));
      const templates = await readTemplates(app.database, request.params.app);
      const tooLarge = documentProblems(documentBytes(request.body));
      if (tooLarge.length > 0) return reply.code(422).send({ valid: false, errors: tooLarge });
      const validation = validatePut(request.body, undefined, redisIsSet, templates, context);
      const problems = [...validation.problems, ...documentProblems(documentBytes(validation.resolved))];
      if (problems.length > 0) return reply.code(422).send({ valid: false, errors: problems });
      const warnings = [
        ...validation.warnings,
        ...fleetWarnings(validation.resolved, app.fleet.list()),
        ...(await missingLists(app.database, owner.name, exemptOf(request.body))),
      ];
      const isRefused = request.query.strict && warnings.length > 0;
      return isRefused
        ? reply.code(422).send({ valid: false, errors: warnings })
        : { valid: true, ...reported(warnings) };
    },
  );

  app.get<OnePolicy>(
    "/apps/:app/policies/:policy",
    {
      config: { access: "read", conditions: "read", refuses: ["app-not-found", "policy-not-found"] },
      schema: {
        tags,
        summary: "Read a policy",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "Policy" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { document, revision } = await getPolicy(app.database, request.params.app, request.params.policy);
      const etag = etagOf(revision);
      reply.header("etag", etag);
      return isKnown(request, etag) ? reply.code(304).send() : document;
    },
  );

  app.put<OnePolicy>(
    "/apps/:app/policies/:policy",
    {
      config: {
        access: "write",
        records: "revision",
        body: policyBodySchema,
        conditions: "change",
        refuses: ["app-not-found", "invalid-policy", "bound-exceeded"],
      },
      schema: {
        tags,
        summary: "Store a policy and push it",
        description:
          "The policy gets the name in the URL, which may be absent from the document. Putting the same document again changes nothing.",
        params,
        querystring: querySchema({ ...changeParameters, strict: strictParameter }),
        response: answers({ 200: "PolicyChange", 201: "PolicyChange" }, etagHeader),
      },
    },
    async (request, reply) => {
      const { app: appName, policy: name } = request.params;
      const missing = await missingLists(app.database, appName, exemptOf(request.body));
      let warnings: readonly Problem[] = [];
      const put = {
        app: appName,
        name,
        precondition: preconditionOf(request),
        total: app.totalBounds,
        validate: (templates: Templates, owner: App, bytesBefore: number | undefined) => {
          // This comes before it is validated, so that a document that is far too large costs little time.
          checkDocumentBytes("policy", documentBytes(request.body), bytesBefore);
          const context = contextOf(owner, callerOf(request));
          const validation = validatePut(request.body, name, redisIsSet, templates, context);
          if (validation.problems.length > 0) throw invalidPolicy(validation.problems);
          const ofFleet = fleetWarnings(validation.resolved, app.fleet.list());
          warnings = [...validation.warnings, ...ofFleet, ...missing];
          if (request.query.strict) refuseWarnings("invalid-policy", warnings);
          return validation;
        },
      };
      const { revision, created } = await putPolicy(app.database, originOf(request), put);
      reply.code(created ? 201 : 200).header("etag", etagOf(revision));
      return {
        ...(await announceChange(app, reply, revision, request.query.wait)),
        ...reported(warnings),
      };
    },
  );

  app.delete<OnePolicy>(
    "/apps/:app/policies/:policy",
    {
      config: {
        access: "write",
        records: "revision",
        conditions: "change",
        refuses: ["app-not-found", "policy-not-found"],
      },
      schema: {
        tags,
        summary: "Delete a policy, with the bans of its keys",
        description:
          "The counters stay until they expire. A policy that is put again under this name, with limits of the same names, algorithms and windows, goes on counting where they are: reset the counters of the keys that are to begin anew.",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const { app: appName, policy: name } = request.params;
      const precondition = preconditionOf(request);
      const revision = await deletePolicy(app.database, originOf(request), appName, name, precondition);
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}

function exemptOf(document: unknown): unknown {
  return (document as { exempt?: unknown } | null)?.exempt;
}

/** The field is absent if there are no warnings. */
function reported(warnings: readonly Problem[]): { warnings?: readonly Problem[] } {
  return warnings.length === 0 ? {} : { warnings };
}

function listed({ name, revision, updatedAtMs, owner, document }: StoredPolicy) {
  return { name, etag: etagOf(revision), revision, updatedAt: new Date(updatedAtMs).toISOString(), owner, document };
}

function invalidPolicy(problems: readonly Problem[]): ApiError {
  return new ApiError("invalid-policy", `Invalid policy: ${countOfErrors(problems.length)}.`, { errors: problems });
}
