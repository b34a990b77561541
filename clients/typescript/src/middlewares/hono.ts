// Limits requests of Hono: `app.use(limit(sluice, { policy: "api", key: (c) => [c.req.header("x-user") ?? ""] }))`.

import type { Context, Env, MiddlewareHandler } from "hono";
import type { SluiceClient } from "../client.ts";
import type { Decision } from "../decision.ts";
import { type Limit, requireLimit, ruleOn } from "./limit.ts";

export interface HonoLimit<E extends Env> extends Limit<Context<E>> {
  /** Returns the answer to a refused request, in place of the problem document; nothing: the request goes on. */
  readonly onRefused?:
    | ((decision: Decision, context: Context<E>) => Response | undefined | Promise<Response | undefined>)
    | undefined;
}

/** Nobody gets it: nginx logs this status, too, for a client that has left. */
const clientHasLeft = 499;

/** Errors go to `app.onError`. */
// biome-ignore lint/suspicious/noExplicitAny: as in Hono itself; an app's own variables are found by naming its Env.
export function limit<E extends Env = any>(sluice: SluiceClient, options: HonoLimit<E>): MiddlewareHandler<E> {
  requireLimit(options);
  return async (context, next) => {
    const ruling = await ruleOn(sluice, options, context, context.req.raw.signal);
    if (ruling === "has left") return new Response(null, { status: clientHasLeft });
    if (ruling !== "goes on") {
      if (options.onRefused === undefined) return context.body(ruling.body, ruling.status, ruling.headers);
      const answer = await options.onRefused(ruling.decision, context);
      if (answer !== undefined) return answer;
    }
    await next();
    return undefined;
  };
}
