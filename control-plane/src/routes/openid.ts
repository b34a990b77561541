// /api/v1/session/oidc: signing in by OpenID Connect. A browser comes here by navigation, so errors are pages for it.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { LogLevel, OpenIdConfiguration } from "../configuration.ts";
import { ApiError } from "../errors/api-error.ts";
import { errorCatalogue } from "../errors/catalogue.ts";
import { failurePage, goOnPage, pageHeaders } from "../openid/pages.ts";
import type { Identified, OpenIdProvider } from "../openid/provider.ts";
import { SignInFailure } from "../openid/sign-in-failure.ts";
import { isLocalPath, mostUnderWaySeconds, SignInsUnderWay } from "../openid/sign-in-under-way.ts";
import { answerError } from "../plugins/error-responses.ts";
import { querySchema } from "../schemas/parameters.ts";
import { invalidRequest } from "../schemas/read-body.ts";
import { answers } from "../schemas/responses.ts";
import { onBehalfOf } from "../storage/engines/turns.ts";
import { refusePerson, refuseSignIn, signInByIdentity } from "../storage/sign-in.ts";

const tags = ["session"];
const beginPath = "/api/v1/session/oidc";

/** A browser may sign in in several windows at once. */
const mostUnderWay = 5;

/** Strangers can fail to sign in as often as they want, so no more of that is stored and logged in a minute. */
const mostTracesAMinute = 100;

const returnTo = {
  type: "string",
  default: "/docs",
  description: "Where the browser goes afterwards: a path of the control plane.",
  "x-expected": 'a path of the control plane, like "/docs"',
} as const;

const html = { "text/html": { schema: { type: "string" } } };
const page = { description: "A page.", content: html };
const redirect = { description: "To the provider.", type: "null" };

export default async function openIdRoutes(
  app: FastifyInstance,
  { openId, logLevel }: { openId: OpenIdConfiguration | undefined; logLevel: LogLevel },
): Promise<void> {
  const provider = openId === undefined ? undefined : await providerOf(openId, app.now);
  const underWay = new SignInsUnderWay(openId?.clientSecret ?? "");
  let traces = { minute: 0, count: 0 };

  const common = {
    config: {
      access: "public",
      pages: true,
      refuses: [
        "sign-in-failed",
        "sign-in-refused",
        "sign-in-unavailable",
        "too-many-failed-sign-ins",
        "openid-not-configured",
        "database-busy",
        "database-unreachable",
        "storage-unwritable",
        "storage-full",
      ],
    },
    exposeHeadRoute: false,
    // The log of requests has their URLs, and the answer of a provider is in one.
    logLevel: isVerbose(logLevel) ? "warn" : logLevel,
    errorHandler: async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
      if (error instanceof SignInFailure) await noteFailure(error, request);
      return wantsPage(request) && error instanceof ApiError
        ? answerPage(error, request, reply)
        : answerError(error, request, reply);
    },
  } as const;

  app.get<{ Querystring: { returnTo: string } }>(
    "/session/oidc",
    {
      ...common,
      schema: {
        tags,
        summary: "Sign in by OpenID Connect: sends the browser to the provider",
        querystring: querySchema({ returnTo }),
        response: answers({ 302: redirect }),
      },
    },
    async (request, reply) => {
      const { returnTo: path } = request.query;
      if (!isLocalPath(path)) {
        throw invalidRequest({ path: "returnTo", expected: returnTo["x-expected"], got: JSON.stringify(path) });
      }
      const { url, checks } = await required(provider).begin();
      makeRoom(request, reply);
      reply.setCookie(cookieFor(request, checks.state), underWay.write({ ...checks, returnTo: path }, app.now()), {
        ...attributesFor(request),
        maxAge: mostUnderWaySeconds,
      });
      return reply.header("cache-control", "no-store").redirect(url.href, 302);
    },
  );

  app.get<{ Querystring: { state?: unknown } }>(
    "/session/oidc/callback",
    {
      ...common,
      schema: {
        tags,
        summary: "Where the provider sends the browser back to: sets the cookie of a session",
        querystring: {
          type: "object",
          properties: {
            code: { type: "string", description: "What the provider gives for the tokens." },
            state: { type: "string", description: "Names the sign-in that this browser has begun." },
            error: { type: "string", description: "Why the provider refuses." },
          },
        },
        response: answers({ 200: page }),
      },
    },
    async (request, reply) => {
      const asked = required(provider);
      const name = cookieFor(request, String(request.query.state ?? ""));
      const begun = underWay.read(request.cookies[name] ?? "", app.now());
      // It serves once, whatever comes of it.
      reply.clearCookie(name, attributesFor(request));
      if (begun === undefined) {
        throw new SignInFailure(
          "sign-in-failed",
          "This browser has not begun this sign-in, or more than ten minutes ago. Begin again.",
          "no cookie of the sign-in came with the answer",
        );
      }
      // This limits how often a client that has begun a sign-in can make us ask the provider.
      const complete = () => asked.complete(queryOf(request), begun);
      const person = await app.requestLimits.tryToSignIn(request, reply, complete, isRefusal);
      const owner = JSON.stringify(["person", person.issuer, person.subject]);
      await onBehalfOf.run(owner, () => signIn(person, request, reply));
      return reply.headers(pageHeaders).send(goOnPage(begun.returnTo));
    },
  );

  async function signIn(person: Identified, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const place = { atMs: app.now(), from: request.address };
    const groups = [...new Set(person.groups)].filter((group) => app.groupMapping.has(group)).sort();
    const known = { ...person, groups };
    if (groups.length === 0) {
      await refusePerson(app.database, place, known, "no group that gives rights");
      throw new ApiError(
        "sign-in-refused",
        `The OpenID provider knows you as "${person.name}", but none of your groups there gives rights here. Ask whoever runs this control plane.`,
      );
    }
    try {
      await app.sessions.begin(reply, async (session) => {
        await signInByIdentity(app.database, place, known, session);
        return session.endsAtMs;
      });
    } catch (error) {
      if (error instanceof ApiError && error.code === "sign-in-refused") {
        await refusePerson(app.database, place, known, error.message);
      }
      throw error;
    }
  }

  /** Somebody who is not known failed to sign in. */
  async function noteFailure({ code, reason }: SignInFailure, { address, log }: FastifyRequest): Promise<void> {
    const atMs = app.now();
    const minute = Math.floor(atMs / 60_000);
    if (traces.minute !== minute) traces = { minute, count: 0 };
    traces.count += 1;
    const line = { code, reason, address };
    if (traces.count > mostTracesAMinute) {
      log.debug(line, "a sign-in by OpenID Connect failed");
      return;
    }
    log.warn(line, "a sign-in by OpenID Connect failed");
    if (traces.count === mostTracesAMinute)
      log.warn("sign-ins by OpenID Connect that fail in this minute are not shown any more");
    try {
      await refuseSignIn(app.database, { atMs, from: address }, "unknown", reason);
    } catch (error) {
      log.warn({ err: error }, "cannot store that a sign-in failed");
    }
  }

  /** The provider's answer is a navigation from its site, with which a browser sends no cookie that is SameSite=Strict. */
  function attributesFor(request: FastifyRequest) {
    return { path: "/", httpOnly: true, sameSite: "lax", secure: app.sessions.isSecure(request) } as const;
  }

  function cookieFor(request: FastifyRequest, state: string): string {
    return prefixFor(request) + state.replace(/[^A-Za-z0-9_-]/g, "").slice(0, 8);
  }

  function prefixFor(request: FastifyRequest): string {
    return app.sessions.isSecure(request) ? "__Host-sluice-sign-in-" : "sluice-sign-in-";
  }

  function makeRoom(request: FastifyRequest, reply: FastifyReply): void {
    const names = Object.keys(request.cookies).filter((name) => name.startsWith(prefixFor(request)));
    if (names.length < mostUnderWay) return;
    for (const name of names) reply.clearCookie(name, attributesFor(request));
  }
}

/** If the provider does not answer, nobody has failed to sign in. */
function isRefusal(thrown: unknown): boolean {
  return thrown instanceof SignInFailure && thrown.code === "sign-in-failed";
}

function isVerbose(level: LogLevel): boolean {
  return level === "info" || level === "debug" || level === "trace";
}

/** @throws ApiError openid-not-configured */
/** The client of OpenID Connect is loaded only where it is used. */
async function providerOf(openId: OpenIdConfiguration, now: () => number): Promise<OpenIdProvider> {
  return new (await import("../openid/provider.ts")).OpenIdProvider(openId, now);
}

function required(provider: OpenIdProvider | undefined): OpenIdProvider {
  if (provider !== undefined) return provider;
  throw new ApiError("openid-not-configured", "There is no sign-in by OpenID Connect here: sign in by a token.");
}

function queryOf({ url }: FastifyRequest): string {
  const at = url.indexOf("?");
  return at < 0 ? "" : url.slice(at + 1);
}

function wantsPage({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes("text/html") === true;
}

function answerPage(error: ApiError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { status, title } = errorCatalogue[error.code];
  const { returnTo: path } = request.query as { returnTo?: unknown };
  const again = typeof path === "string" && isLocalPath(path) ? `?returnTo=${encodeURIComponent(path)}` : "";
  const text = failurePage(title, error.message, `${beginPath}${again}`);
  return reply
    .code(status)
    .headers({ ...error.headers, ...pageHeaders })
    .send(text);
}
