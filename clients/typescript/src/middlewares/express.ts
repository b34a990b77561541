// Limits requests of Express: `app.use(limit(sluice, { policy: "api", key: (request) => [request.ip ?? ""] }))`.

import type { NextFunction, Request, RequestHandler, Response } from "express";
import type { SluiceClient } from "../client.ts";
import type { Decision } from "../decision.ts";
import { type Limit, requireLimit, ruleOn } from "./limit.ts";

export interface ExpressLimit extends Limit<Request> {
  /** Answers a refused request, or passes it on, in place of the problem document. */
  readonly onRefused?:
    | ((decision: Decision, request: Request, response: Response, next: NextFunction) => unknown)
    | undefined;
}

/** Errors go to Express's error handlers. */
export function limit(sluice: SluiceClient, options: ExpressLimit): RequestHandler {
  requireLimit(options);
  return async (request, response, next) => {
    const left = new AbortController();
    response.once("close", () => left.abort());
    try {
      const ruling = await ruleOn(sluice, options, request, left.signal);
      if (ruling === "has left") return;
      if (ruling !== "goes on") {
        if (options.onRefused !== undefined) await options.onRefused(ruling.decision, request, response, next);
        else response.status(ruling.status).set(ruling.headers).send(ruling.body);
        return;
      }
    } catch (error) {
      next(error);
      return;
    }
    next();
  };
}
