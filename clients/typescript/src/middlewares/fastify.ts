// Limits requests of Fastify. `app.register(limit(sluice, { policy: "api", key: (request) => [request.ip] }))` limits all routes of
// the context in which it is registered; `limitHook` limits one route, or runs as another hook than onRequest.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { SluiceClient } from "../client.ts";
import type { Decision } from "../decision.ts";
import { type Limit, requireLimit, ruleOn } from "./limit.ts";

export interface FastifyLimit extends Limit<FastifyRequest> {
  /** Answers a refused request in place of the problem document. If it sends nothing, the request goes on. */
  readonly onRefused?: ((decision: Decision, request: FastifyRequest, reply: FastifyReply) => unknown) | undefined;
}

/** Errors go to Fastify's error handler. */
export function limit(sluice: SluiceClient, options: FastifyLimit): (app: FastifyInstance) => Promise<void> {
  const hook = limitHook(sluice, options);
  const plugin = async (app: FastifyInstance) => {
    app.addHook("onRequest", hook);
  };
  // Without it, the plugin would have a context of its own, which has no routes.
  return Object.assign(plugin, { [Symbol.for("skip-override")]: true, [Symbol.for("fastify.display-name")]: "sluice" });
}

/** For `onRequest`, `preParsing`, `preValidation` or `preHandler`; the last knows the body. */
export function limitHook(
  sluice: SluiceClient,
  options: FastifyLimit,
): (request: FastifyRequest, reply: FastifyReply) => Promise<unknown> {
  requireLimit(options);
  return async (request, reply) => {
    const left = new AbortController();
    reply.raw.once("close", () => left.abort());
    const ruling = await ruleOn(sluice, options, request, left.signal);
    if (ruling === "goes on") return undefined;
    if (ruling === "has left") {
      reply.hijack();
      return reply;
    }
    if (options.onRefused === undefined) return reply.code(ruling.status).headers(ruling.headers).send(ruling.body);
    await options.onRefused(ruling.decision, request, reply);
    return reply.sent ? reply : undefined;
  };
}
