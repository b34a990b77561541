// /api/v1/library: actions and policies for common purposes, supplied with Sluice.

import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { library } from "../library/supplied.ts";
import { querySchema, templateSegment } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";

const tags = ["library"];

export default async function libraryRoutes(app: FastifyInstance): Promise<void> {
  app.get(
    "/library",
    {
      config: { access: "person" },
      schema: {
        tags,
        summary: "List what is supplied, by name",
        querystring: querySchema({}),
        response: answers({ 200: "Library" }),
      },
    },
    async () => ({ templates: [...library.values()] }),
  );

  app.get<{ Params: { template: string } }>(
    "/library/:template",
    {
      config: { access: "person", refuses: ["template-not-found"] },
      schema: {
        tags,
        summary: "Read one supplied action or policy",
        params: { type: "object", properties: { template: templateSegment } },
        querystring: querySchema({}),
        response: answers({ 200: "SuppliedTemplate" }),
      },
    },
    async (request) => {
      const { template: name } = request.params;
      const supplied = library.get(name);
      if (supplied === undefined) {
        const known = [...library.keys()].join(", ");
        throw new ApiError("template-not-found", `The library has no template "${name}". It has: ${known}.`);
      }
      return supplied;
    },
  );
}
