// Gives each request an id, which the client may choose, and logs one line when it is answered. A line never has a URL, a header
// or a body: those may contain secrets.

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { type FastifyRequest, LogController } from "fastify";
import fp from "fastify-plugin";

/** Long enough for what other programs make, and without characters that a log or a shell reads in another way. */
const wellFormed = /^[A-Za-z0-9._~+/=:@-]{1,128}$/;

/** Routes that programs ask all the time. */
const quiet = new Set(["/healthz", "/readyz", "/metrics"]);

/** Returns the options of Fastify for ids and the log. */
export function requestLogOptions() {
  return {
    logController: new OneLine({ requestIdLogLabel: "requestId" }),
    requestIdHeader: false as const,
    genReqId: ({ headers }: IncomingMessage) => {
      const given = headers["x-request-id"];
      return typeof given === "string" && wellFormed.test(given) ? given : randomUUID();
    },
  };
}

/** Leaves out Fastify's own lines for each request: they have the URL. */
class OneLine extends LogController {
  override incomingRequest(): void {}
  override requestCompleted(): void {}
  override routeNotFound(): void {}
}

export default fp(
  async (app) => {
    app.addHook("onRequest", async (request, reply) => {
      reply.header("x-request-id", request.id);
    });
    app.addHook("onResponse", async (request, reply) => {
      const { caller } = request;
      const route = routeOf(request);
      const line = {
        method: request.method,
        route,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 10) / 10,
        ...(caller === undefined ? {} : { caller: { id: caller.id, who: caller.who } }),
        address: request.address,
      };
      if (isProbe(request)) request.log.debug(line, "answered");
      else request.log.info(line, "answered");
    });
  },
  { name: "request-log", dependencies: ["client-address"] },
);

/** Returns whether the request is one of those that programs send all the time. */
export function isProbe(request: FastifyRequest): boolean {
  return quiet.has(routeOf(request));
}

/** Returns the pattern of the route, of which there are few, and not the URL. */
export function routeOf(request: FastifyRequest): string {
  return (request.is404 ? undefined : request.routeOptions.url) ?? "unknown";
}
