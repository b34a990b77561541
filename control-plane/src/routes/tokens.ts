// /api/v1/tokens: credentials for people and programs, each for one app. A token is shown only when it is made.

import { parseDuration } from "@sluice/limiter/document/duration.ts";
import { nameShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import type { FastifyInstance } from "fastify";
import { callerOf, refuseOtherApp } from "../plugins/authentication.ts";
import {
  afterIdParameter,
  limitParameter,
  querySchema,
  tokenSegment,
  tokenWaitParameter,
} from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { readBody } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { newId } from "../storage/new-id.ts";
import {
  type AppRole,
  appRoles,
  createToken,
  deleteTokenById,
  listTokens,
  type TokenRecord,
} from "../storage/tokens.ts";
import { hashToken, mintToken } from "../tokens/token.ts";
import { announceChange, originOf } from "./applied.ts";

const params = { type: "object", properties: { id: tokenSegment } } as const;
const tags = ["tokens"];

interface TokenBody {
  readonly name: string;
  readonly app: string;
  readonly role: AppRole;
  readonly expiresIn?: string;
}

const bodyShape: Shape = {
  kind: "record",
  fields: {
    name: {
      shape: {
        kind: "text",
        expected: "a text of 1 to 100 bytes in one line, without invisible characters and without spaces around it",
        maxBytes: 100,
        accepts: (text) => /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$/u.test(text) && text.trim() === text,
      },
      description: "Who has the token. The history shows changes under this name.",
      required: true,
    },
    app: { shape: nameShape, description: "The app that the token is for.", required: true },
    role: {
      shape: { kind: "choice", of: appRoles },
      description:
        "viewer may read. editor may also change policies, templates and bans. admin may also make tokens. caller may only use the check API of gateways.",
      required: true,
    },
    expiresIn: {
      shape: { kind: "duration", min: "1s", max: "3650d" },
      description: "How long the token is valid. Absent: it never expires.",
    },
  },
};

export default async function tokenRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Querystring: { after: string; limit: number } }>(
    "/tokens",
    {
      config: { access: "manage" },
      schema: {
        tags,
        summary: "List the tokens of the apps that your token is for, oldest first, without their values",
        querystring: querySchema({ after: afterIdParameter, limit: limitParameter }),
        response: answers({ 200: "TokenPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listTokens(app.database, callerOf(request).app, after, limit + 1);
      const tokens = found.slice(0, limit);
      const nowMs = app.now();
      return {
        tokens: tokens.map((token) => ({ ...shown(token), ...kept(token, nowMs) })),
        next: found.length > limit ? tokens.at(-1)?.id : undefined,
      };
    },
  );

  app.post<{ Querystring: { wait: string } }>(
    "/tokens",
    {
      config: { access: "manage", body: schemaOf(bodyShape) },
      schema: {
        tags,
        summary: "Create a token",
        description:
          "Only this answer contains the token: it can never be read again. A caller's token is pushed to the gateways as a hash, and the answer waits for them: `applied` says how many of the connected gateways know it.",
        querystring: querySchema({ wait: tokenWaitParameter }),
        response: answers({ 201: "NewToken" }),
      },
    },
    async (request, reply) => {
      const body = readBody<TokenBody>(bodyShape, request.body);
      refuseOtherApp(callerOf(request), body.app);
      const token = mintToken(body.role);
      const nowMs = app.now();
      const record = {
        id: newId(nowMs),
        hash: hashToken(token),
        name: body.name,
        role: body.role,
        app: body.app,
        createdAtMs: nowMs,
        expiresAtMs: body.expiresIn === undefined ? undefined : expiry(nowMs, body.expiresIn),
        lastFour: token.slice(-4),
      };
      const revision = await createToken(app.database, originOf(request), record, app.totalBounds);
      // The response contains a secret.
      reply.code(201).header("cache-control", "no-store");
      const answer = { ...shown(record), token };
      if (revision === undefined) return answer;
      return { ...answer, ...(await announceChange(app, reply, revision, request.query.wait)) };
    },
  );

  app.delete<{ Params: { id: string }; Querystring: { wait: string } }>(
    "/tokens/:id",
    {
      config: { access: "manage" },
      schema: {
        tags,
        summary: "Delete a token, which is invalid from now on",
        description:
          "If it is a caller's token, the answer waits for the gateways: `applied` says how many of the connected gateways refuse it.",
        params,
        querystring: querySchema({ wait: tokenWaitParameter }),
        response: answers({ 200: "TokenChange" }),
      },
    },
    async (request, reply) => {
      const { app: ofApp } = callerOf(request);
      const revision = await deleteTokenById(app.database, originOf(request), ofApp, request.params.id);
      return revision === undefined ? {} : announceChange(app, reply, revision, request.query.wait);
    },
  );
}

/** Rounds up to a whole second, because gateways count in whole seconds. */
function expiry(nowMs: number, expiresIn: string): number {
  return Math.ceil((nowMs + (parseDuration(expiresIn) ?? 0) / 1_000) / 1_000) * 1_000;
}

function shown({ id, name, app, role, expiresAtMs }: TokenRecord) {
  return {
    id,
    name,
    app,
    role,
    expiresAt: expiresAtMs === undefined ? undefined : new Date(expiresAtMs).toISOString(),
  };
}

function kept({ lastFour, createdAtMs, expiresAtMs }: TokenRecord, nowMs: number) {
  return {
    lastFour,
    createdAt: new Date(createdAtMs).toISOString(),
    expired: expiresAtMs !== undefined && expiresAtMs <= nowMs,
  };
}
