// Refuses a URL whose query does not decode to UTF-8, as Fastify does for a path: "%FF" would be read as another character, and the client would
// get another counter than the one that it meant. Refuses names that databases read differently: to PostgreSQL, a text with NUL is an error, and
// to MySQL "shop " is equal to "shop". Queries are read when the request's turn has come, and the router does not decode long paths: what it does,
// it does in one go for all requests that have come.

import type { IncomingMessage } from "node:http";
import { parse } from "node:querystring";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";
import { refuseByRouter } from "./error-responses.ts";

/** In a query. */
const namesInQuery: ReadonlySet<string> = new Set(["app", "policy"]);
/** In a path, all others are names. Ids of consumers are whatever clients send, and compared exactly. */
const anyTextInPath: ReadonlySet<string> = new Set(["consumer"]);
/** Values of a policy's key are whatever clients send. */
const anyTextInQuery: ReadonlySet<string> = new Set(["key"]);

/** Far more than any route has. */
const mostParameters = 50;
/** The longest name in a path has 1,024 characters. */
const mostPathBytes = 4_096;

/** For the router, which would read the query before the request has its turn. */
export const readNoQuery = (): Record<string, never> => ({});

/** For the router: a path that is too long is none of any route. */
export function shortUrl(request: IncomingMessage): string {
  const { url = "" } = request;
  if (url.length <= mostPathBytes || url.slice(0, mostPathBytes + 1).includes("?")) return url;
  const detail = `The path of the URL is longer than ${mostPathBytes} bytes.`;
  return refuseByRouter(request, new ApiError("bad-request", detail));
}

export default fp(
  async (app) => {
    app.addHook("onRequest", async (request) => {
      request.query = parse(queryOf(request.url), "&", "=", { maxKeys: mostParameters });
    });
    app.addHook("preValidation", async ({ url, params, query }) => {
      requireReadable(url);
      for (const [segment, value] of Object.entries(params as object)) {
        refuse(`The URL's ${segment}`, value, !anyTextInPath.has(segment));
      }
      for (const [parameter, value] of Object.entries(query as object)) {
        if (!anyTextInQuery.has(parameter)) refuse(`The query's ${parameter}`, value, namesInQuery.has(parameter));
      }
    });
  },
  { name: "well-formed-urls", dependencies: ["error-responses", "fair-turns"] },
);

/** @throws ApiError bad-request */
function requireReadable(url: string): void {
  const query = queryOf(url);
  if (query.split("&", mostParameters + 1).length > mostParameters) {
    throw new ApiError("bad-request", `The query of the URL has more than ${mostParameters} parameters.`);
  }
  try {
    decodeURIComponent(query);
  } catch {
    throw new ApiError("bad-request", "The query of the URL does not decode to UTF-8.");
  }
}

function queryOf(url: string): string {
  const at = url.indexOf("?");
  return at < 0 ? "" : url.slice(at + 1);
}

/** @throws ApiError bad-request */
function refuse(what: string, value: unknown, isName: boolean): void {
  const texts = Array.isArray(value) ? value : [value];
  if (texts.some((text) => typeof text === "string" && text.includes("\0"))) {
    throw new ApiError("bad-request", `${what} has a NUL character (%00).`);
  }
  if (isName && texts.some((text) => typeof text === "string" && text.endsWith(" "))) {
    throw new ApiError("bad-request", `${what} ends with a space, as no name does.`);
  }
}
