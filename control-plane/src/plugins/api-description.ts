// Serves the API's description as OpenAPI 3.1, made from the routes' own schemas, and the pages that show it. Registered
// before the routes.

import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import type { FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import manifest from "../../package.json" with { type: "json" };
import type { ErrorCode } from "../errors/catalogue.ts";
import { type PreparedAnswer, prepareAnswer, sendPrepared } from "../http/prepared-answer.ts";
import { type Conditions, conditionHeaders, notModified, refusals } from "../schemas/described-route.ts";
import type { JsonSchema } from "../schemas/policy-schema.ts";
import { answers, sharedSchemas } from "../schemas/responses.ts";
import { rowOf } from "./route-table.ts";
import { pagePolicy } from "./security-headers.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /**
     * The schema of the body, for OpenAPI only. The limiter's validator checks the body: two validators would sooner or
     * later disagree.
     */
    readonly body?: JsonSchema;
    /** The types of the body. Absent: those of one document. */
    readonly bodyTypes?: readonly string[];
    /** The refusals of this route, besides those that every route has (schemas/described-route.ts). */
    readonly refuses?: readonly ErrorCode[];
    /** Whether a browser gets the route's errors as pages. */
    readonly pages?: boolean;
    /** Whether the route honours If-Match and If-None-Match. */
    readonly conditions?: Conditions;
  }
}

export const documentTypes = ["application/json", "application/yaml"];

export default fp(
  async (app) => {
    for (const schema of sharedSchemas) app.addSchema(schema);
    await app.register(swagger, {
      openapi: {
        openapi: "3.1.0",
        info: {
          title: "Sluice control plane",
          description: "Keeps rate limit policies and pushes them to gateways.",
          version: manifest.version,
        },
        components: {
          securitySchemes: {
            token: { type: "http", scheme: "bearer" },
            session: { type: "apiKey", in: "cookie", name: "sluice-session" },
          },
        },
        security: [{ token: [] }, { session: [] }],
      },
      refResolver: { buildLocalReference: (json, _baseUri, _fragment, i) => String(json.$id ?? `schema-${i}`) },
      transform: ({ schema, url, route }) => {
        if (schema?.hide === true) return { schema, url };
        const { access, conditions, limited = true, pages = false, refuses = [] } = route.config ?? {};
        const isPublic = access === "public";
        const method = [route.method].flat()[0] ?? "GET";
        const { properties = {} } = (schema?.querystring ?? {}) as { properties?: object };
        const comparesDocuments = route.config?.comparesDocuments === true || "dryRun" in properties;
        const row = rowOf(method, route);
        const response = (schema?.response ?? {}) as Record<string, JsonSchema>;
        const described: Record<string, unknown> = {
          ...schema,
          response: {
            ...response,
            ...(conditions === "read" ? { 304: notModified } : {}),
            ...refusals({
              method,
              isPublic,
              records: row.records !== "nothing",
              conditions,
              limited,
              comparesDocuments,
              refuses,
              pages,
            }),
          },
        };
        Object.assign(described, { "x-access": row.access, "x-records": row.records, "x-strangers": row.strangers });
        const headers = conditionHeaders(conditions);
        if (headers !== undefined) described["headers"] = headers;
        if (route.config?.body !== undefined) {
          described["body"] = route.config.body;
          described["consumes"] = isPublic ? ["application/json"] : (route.config.bodyTypes ?? documentTypes);
        }
        if (isPublic) described["security"] = [];
        return { schema: described, url };
      },
    });
    // Its text has half a megabyte and is the same for everybody.
    let json: PreparedAnswer | undefined;
    let yaml: PreparedAnswer | undefined;
    const sendJson = async (request: FastifyRequest, reply: FastifyReply) => {
      json ??= prepareAnswer(JSON.stringify(app.swagger()), "application/json; charset=utf-8");
      return sendPrepared(request, reply, json);
    };
    const sendYaml = async (request: FastifyRequest, reply: FastifyReply) => {
      yaml ??= prepareAnswer(app.swagger({ yaml: true }), "application/yaml; charset=utf-8");
      return sendPrepared(request, reply, yaml);
    };
    app.get(
      "/openapi.json",
      {
        config: { access: "public", conditions: "read" },
        schema: {
          tags: ["operation"],
          summary: "Read this description of the API",
          response: answers({
            200: { type: "object", description: "An OpenAPI 3.1 document. Its ETag is that of its text." },
          }),
        },
      },
      sendJson,
    );
    await app.register(async (pages) => {
      pages.addHook("onRoute", (route) => {
        route.config = { ...route.config, access: "public" };
        if (route.url === "/docs/json") route.handler = sendJson;
        if (route.url === "/docs/yaml") route.handler = sendYaml;
      });
      await pages.register(swaggerUi, { routePrefix: "/docs", staticCSP: pagePolicy });
    });
  },
  { name: "api-description", dependencies: ["authentication", "long-reads", "route-table"] },
);
