// /api/v1/apps/{app}/bans: who is refused until a time, whatever the limits say.

import type { FastifyInstance, FastifyRequest } from "fastify";
import { banBodyShape, checkBannedKey, checkBannedList, checkKindsOfBans, readBanBody } from "../schemas/ban-body.ts";
import {
  afterIdParameter,
  appSegment,
  banSegment,
  changeParameters,
  limitParameter,
  querySchema,
} from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { answers } from "../schemas/responses.ts";
import { type Ban, createBan, deleteBan, getBan, listBans } from "../storage/bans.ts";
import { announceChange, originOf } from "./applied.ts";
import { bannedFor } from "./readers.ts";

const appParams = { type: "object", properties: { app: appSegment } } as const;
const params = { type: "object", properties: { app: appSegment, ban: banSegment } } as const;
const tags = ["bans"];
const location = { location: { type: "string", description: "The URL of the ban." } };

interface OneBan {
  Params: { app: string; ban: string };
  Querystring: { wait?: string };
}

export default async function banRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Params: { app: string }; Querystring: { after: string; limit: number } }>(
    "/apps/:app/bans",
    {
      config: { access: "read", refuses: ["app-not-found"] },
      schema: {
        tags,
        summary: "List an app's bans in force, oldest first",
        params: appParams,
        querystring: querySchema({ after: afterIdParameter, limit: limitParameter }),
        response: answers({ 200: "BanPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listBans(app.database, request.params.app, app.now(), after, limit + 1);
      const bans = found.slice(0, limit);
      return { bans: bans.map((ban) => shown(request, ban)), next: found.length > limit ? bans.at(-1)?.id : undefined };
    },
  );

  app.post<{ Params: { app: string }; Querystring: { wait?: string } }>(
    "/apps/:app/bans",
    {
      config: {
        access: "write",
        records: "revision",
        body: schemaOf(banBodyShape),
        refuses: ["app-not-found", "too-many-bans", "bound-exceeded"],
      },
      schema: {
        tags,
        summary: "Ban a network, a list of networks, or key values of a policy, and push it",
        description: "The body contains either cidr, or policy with key or keyPattern; and either until or for.",
        params: appParams,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "NewBan", 201: "NewBan" }, location),
      },
    },
    async (request, reply) => {
      const asked = readBanBody(request.body, app.now());
      const check = (policy: unknown) => checkBannedKey(asked.banned, policy);
      const checkList = (isThere: boolean) => checkBannedList(request.params.app, asked.banned, isThere);
      const wanted = {
        ...asked,
        app: request.params.app,
        check,
        checkList,
        checkKinds: checkKindsOfBans,
        total: app.totalBounds,
      };
      const ban = await createBan(app.database, originOf(request), wanted);
      reply.code(201).header("location", `/api/v1/apps/${ban.app}/bans/${ban.id}`);
      return { ...shown(request, ban), ...(await announceChange(app, reply, ban.revision, request.query.wait)) };
    },
  );

  app.get<OneBan>(
    "/apps/:app/bans/:ban",
    {
      config: { access: "read", refuses: ["app-not-found", "ban-not-found"] },
      schema: {
        tags,
        summary: "Read a ban in force",
        params,
        querystring: querySchema({}),
        response: answers({ 200: "Ban" }),
      },
    },
    async (request) => shown(request, await getBan(app.database, request.params.app, app.now(), request.params.ban)),
  );

  app.delete<OneBan>(
    "/apps/:app/bans/:ban",
    {
      config: { access: "write", records: "revision", refuses: ["app-not-found", "ban-not-found"] },
      schema: {
        tags,
        summary: "End a ban now",
        params,
        querystring: querySchema(changeParameters),
        response: answers({ 200: "Change" }),
      },
    },
    async (request, reply) => {
      const revision = await deleteBan(app.database, originOf(request), request.params.app, request.params.ban);
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}

function shown(request: FastifyRequest, ban: Ban) {
  const { id, app, untilMs, reason, createdAtMs, createdBy, revision } = ban;
  return {
    id,
    app,
    ...bannedFor(request, ban),
    until: new Date(untilMs).toISOString(),
    reason,
    createdAt: new Date(createdAtMs).toISOString(),
    createdBy,
    revision,
  };
}
