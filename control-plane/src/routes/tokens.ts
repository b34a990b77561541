// /api/v1/tokens: credentials for people and programs, each for one app. A token is shown only when it is made.

import { parseDuration } from "@sluice/limiter/document/duration.ts";
import { nameShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../errors/api-error.ts";
import { appsOf, callerOf, requireRight } from "../plugins/authentication.ts";
import type { Caller } from "../rights/caller.ts";
import { type AppRole, appRoles, type Role } from "../rights/roles.ts";
import {
  afterIdParameter,
  limitParameter,
  querySchema,
  tokenChangeParameters,
  tokenSegment,
} from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { invalidRequest, readBody } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { newId } from "../storage/new-id.ts";
import { createToken, deleteTokenById, listTokens, type TokenRecord, type TokenScope } from "../storage/tokens.ts";
import { hashToken, mintToken } from "../tokens/token.ts";
import { announceChange, originOf } from "./applied.ts";
import { nameField } from "./members.ts";

const params = { type: "object", properties: { id: tokenSegment } } as const;
const tags = ["tokens"];

interface TokenBody {
  readonly name: string;
  readonly app?: string;
  readonly role?: AppRole;
  readonly member?: string;
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
        accepts: (text) =>
          /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]+$/u.test(text) && text.trim() === text,
      },
      description: "Who has the token. The history shows changes under this name.",
      required: true,
    },
    app: { shape: nameShape, description: "The app that the token is for. It needs a role then." },
    role: {
      shape: { kind: "choice", of: appRoles },
      description:
        "viewer may read. editor may also change policies, templates, bans and counters. owner may also manage tokens and members. caller may only use the check API of gateways.",
    },
    member: {
      shape: nameField.shape,
      description: "The member to whom the token belongs, instead of an app: it has the member's rights.",
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
      config: { access: "member", strangers: "filtered" },
      schema: {
        tags,
        summary: "List your own tokens and those of the apps that you own, oldest first, without their values",
        querystring: querySchema({ after: afterIdParameter, limit: limitParameter }),
        response: answers({ 200: "TokenPage" }),
      },
    },
    async (request) => {
      const { after, limit } = request.query;
      const found = await listTokens(app.database, scopeOf(callerOf(request)), after, limit + 1);
      const tokens = found.slice(0, limit);
      const nowMs = app.now();
      return {
        tokens: tokens.map((token) => ({ ...shown(token), ...kept(token, nowMs) })),
        next: found.length > limit ? tokens.at(-1)?.id : undefined,
      };
    },
  );

  app.post<{ Querystring: { wait: string; dryRun: boolean } }>(
    "/tokens",
    {
      config: {
        access: "member",
        strangers: "refused",
        records: "audit",
        body: schemaOf(bodyShape),
        refuses: ["app-not-found", "member-not-found", "bound-exceeded", "too-many-tokens"],
      },
      schema: {
        tags,
        summary: "Create a token",
        description:
          "Only this answer contains the token: it can never be read again. A caller's token is pushed to the gateways as a hash, and the answer waits for them: `applied` says how many of the connected gateways know it.",
        querystring: querySchema(tokenChangeParameters),
        response: answers({ 200: "NewToken", 201: "NewToken" }),
      },
    },
    async (request, reply) => {
      const body = readBody<TokenBody>(bodyShape, request.body);
      requireAllowed(callerOf(request), body);
      const role: Role = body.role ?? "member";
      const token = mintToken(role);
      const nowMs = app.now();
      const record = {
        id: newId(nowMs),
        hash: hashToken(token),
        name: body.name,
        role,
        app: body.app,
        member: body.member,
        createdAtMs: nowMs,
        expiresAtMs: body.expiresIn === undefined ? undefined : expiry(nowMs, body.expiresIn),
        lastFour: token.slice(-4),
        lastUsedAtMs: undefined,
      };
      const revision = await createToken(app.database, originOf(request), record, app.totalBounds);
      // The response contains a secret. A dry run has none: its token is not stored.
      reply.code(request.query.dryRun ? 200 : 201).header("cache-control", "no-store");
      const answer = { ...shown(record), ...(request.query.dryRun ? { dryRun: true } : { token }) };
      if (revision === undefined) return answer;
      return { ...answer, ...(await announceChange(app, reply, revision, request.query.wait)) };
    },
  );

  app.delete<{ Params: { id: string }; Querystring: { wait: string; dryRun: boolean } }>(
    "/tokens/:id",
    {
      config: { access: "member", strangers: "not-found", records: "audit", refuses: ["token-not-found"] },
      schema: {
        tags,
        summary: "Delete a token, which is invalid from now on",
        description:
          "If it is a caller's token, the answer waits for the gateways: `applied` says how many of the connected gateways refuse it.",
        params,
        querystring: querySchema(tokenChangeParameters),
        response: answers({ 200: "TokenChange" }),
      },
    },
    async (request, reply) => {
      const scope = scopeOf(callerOf(request));
      const revision = await deleteTokenById(app.database, originOf(request), scope, request.params.id);
      if (!request.query.dryRun) app.forgetTokenUse(request.params.id);
      if (revision === undefined) return request.query.dryRun ? { dryRun: true } : {};
      return announceChange(app, reply, revision, request.query.wait);
    },
  );
}

/** Rounds up to a whole second, because gateways count in whole seconds. */
function expiry(nowMs: number, expiresIn: string): number {
  return Math.ceil((nowMs + (parseDuration(expiresIn) ?? 0) / 1_000) / 1_000) * 1_000;
}

function scopeOf(caller: Caller): TokenScope {
  return { apps: appsOf(caller, "manage"), member: caller.member };
}

/** Members make their own tokens: with one of another member, somebody would have rights that nobody gave them. */
function requireAllowed(caller: Caller, { app, role, member }: TokenBody): void {
  if ((app === undefined) !== (role === undefined) || (app === undefined) === (member === undefined)) {
    const given = Object.entries({ app, role, member }).filter(([, value]) => value !== undefined);
    const got = given.length === 0 ? "none of these" : given.map(([name]) => name).join(" and ");
    throw invalidRequest({ path: "", expected: "either app and role, or member", got });
  }
  if (app !== undefined) requireRight(caller, "manage", app);
  else if (!caller.isAdmin && member !== caller.member) {
    throw new ApiError("forbidden", "Only the member and admins may make a token of a member.");
  }
}

function shown({ id, name, app, member, role, expiresAtMs }: TokenRecord) {
  return {
    id,
    name,
    app,
    member,
    role,
    expiresAt: expiresAtMs === undefined ? undefined : new Date(expiresAtMs).toISOString(),
  };
}

function kept({ lastFour, lastUsedAtMs, createdAtMs, expiresAtMs }: TokenRecord, nowMs: number) {
  return {
    lastFour,
    lastUsedAt: lastUsedAtMs === undefined ? undefined : new Date(lastUsedAtMs).toISOString(),
    createdAt: new Date(createdAtMs).toISOString(),
    expired: expiresAtMs !== undefined && expiresAtMs <= nowMs,
  };
}
