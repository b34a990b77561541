// /api/v1/session: signing in by a token, who is signed in, and signing out.

import type { Shape } from "@sluice/limiter/document/shape.ts";
import type { FastifyInstance } from "fastify";
import { callerOf, requirePerson } from "../plugins/authentication.ts";
import { requireOwnOrigin } from "../plugins/same-site.ts";
import type { Session } from "../plugins/sessions.ts";
import { type Caller, ownerOf } from "../rights/caller.ts";
import { querySchema } from "../schemas/parameters.ts";
import { schemaOf } from "../schemas/policy-schema.ts";
import { readBody } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";
import { signInByToken } from "../storage/sign-in.ts";

const tags = ["session"];

const bodyShape = {
  kind: "record",
  fields: {
    token: {
      shape: { kind: "text", expected: "a token", maxBytes: 4_096 },
      description: "An API token of any role but gateway and caller.",
      required: true,
    },
  },
} as const satisfies Shape;

export default async function sessionRoutes(
  app: FastifyInstance,
  { publicOrigin }: { publicOrigin: string | undefined },
): Promise<void> {
  // The answers contain the session's CSRF token.
  app.addHook("onSend", async (_request, reply) => {
    reply.header("cache-control", "no-store");
  });

  app.post(
    "/session",
    {
      config: {
        access: "public",
        records: "audit",
        refuses: [
          "unauthorized",
          "forbidden",
          "cross-site-request",
          "too-many-failed-sign-ins",
          "database-busy",
          "database-unreachable",
        ],
        body: schemaOf(bodyShape),
      },
      schema: {
        tags,
        summary: "Sign in by a token: the answer sets the cookie of a session",
        description:
          "The session has the rights of the token, and ends with it. Requests with the cookie that change something need the header X-CSRF-Token.",
        querystring: querySchema({}),
        response: answers({ 201: "Session" }),
      },
    },
    async (request, reply) => {
      // Otherwise another site's page could sign somebody in as somebody else.
      requireOwnOrigin(request, publicOrigin);
      const { token } = readBody<{ token: string }>(bodyShape, request.body);
      const caller = await app.identifyToken(token, request, reply);
      requirePerson(caller);
      const session = await onBehalfOf.run(ownerOf(caller), async () => {
        await app.sessions.endFormer(request, reply);
        const place = { atMs: app.now(), from: request.address };
        return app.sessions.begin(reply, (fresh) => signInByToken(app.database, place, caller, fresh));
      });
      reply.code(201);
      return shown(caller, session);
    },
  );

  app.get(
    "/session",
    {
      config: { access: "person" },
      schema: {
        tags,
        summary: "Who sends the request, and what they may do",
        description: "With a session's cookie, also when the session ends, and its CSRF token.",
        querystring: querySchema({}),
        response: answers({ 200: "Session" }),
      },
    },
    async (request) => shown(callerOf(request), request.session),
  );

  app.delete(
    "/session",
    {
      config: { access: "person", records: "audit" },
      schema: {
        tags,
        summary: "Sign out: the session ends",
        description: "A request with a token has no session, and ends nothing.",
        querystring: querySchema({}),
        response: answers({ 200: "Nothing" }),
      },
    },
    async (request, reply) => {
      await app.sessions.end(request, reply, callerOf(request));
      return {};
    },
  );
}

function shown({ who, member, isAdmin, roles }: Caller, session: Session | undefined) {
  const caller = { who, member, admin: isAdmin, roles: Object.fromEntries(roles) };
  if (session === undefined) return caller;
  return {
    ...caller,
    signedInBy: session.signedInBy,
    startedAt: new Date(session.startedAtMs).toISOString(),
    endsAt: new Date(session.endsAtMs).toISOString(),
    endsUnusedAt: new Date(session.idleEndsAtMs).toISOString(),
    csrfToken: session.csrfToken,
  };
}
