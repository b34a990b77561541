// /api/v1/epoch: begins a new history, for gateways that hold revisions which this database never had or has lost.

import type { FastifyInstance } from "fastify";
import { changeParameters, querySchema } from "../schemas/parameters.ts";
import { answers } from "../schemas/responses.ts";
import { beginEpoch } from "../storage/epoch.ts";
import { announceChange, originOf } from "./applied.ts";

export default async function epochRoutes(app: FastifyInstance): Promise<void> {
  app.post<{ Querystring: { wait?: string } }>(
    "/epoch",
    {
      config: { records: "revision" },
      schema: {
        tags: ["epochs"],
        summary: "Begin a new epoch: every gateway loads the snapshot again, whatever its revision",
        description:
          "For a database that was restored from a backup from before gateways got proofs. In all other cases the control plane notices the restore by itself. The stored documents do not change.",
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const revision = await beginEpoch(app.database, originOf(request));
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}
