// Serves the API's description as OpenAPI 3.1, made from the routes' own schemas, and the pages that show it. Registered
// before the routes.

import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import fp from "fastify-plugin";
import manifest from "../../package.json" with { type: "json" };
import type { JsonSchema } from "../schemas/policy-schema.ts";
import { sharedSchemas } from "../schemas/responses.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /**
     * The schema of the body, for OpenAPI only. The limiter's validator checks the body: two validators would sooner or
     * later disagree.
     */
    readonly body?: JsonSchema;
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
        const described = { ...schema };
        if (route.config?.body !== undefined) {
          described.body = route.config.body;
          described.consumes = documentTypes;
        }
        if (route.config?.access === "public") described.security = [];
        return { schema: described, url };
      },
    });
    app.get("/openapi.json", { schema: {}, config: { access: "public" } }, async () => app.swagger());
    await app.register(async (pages) => {
      pages.addHook("onRoute", (route) => {
        route.config = { ...route.config, access: "public" };
      });
      await pages.register(swaggerUi, { routePrefix: "/docs", staticCSP: true });
    });
  },
  { name: "api-description", dependencies: ["authentication"] },
);
