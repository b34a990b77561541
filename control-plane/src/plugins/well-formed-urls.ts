// Refuses a URL whose query does not decode to UTF-8, as Fastify does for a path: Fastify would read "%FF" in a query as those three
// characters, and the client would get another counter than the one that it meant. Refuses names that databases read
// differently: to PostgreSQL, a text with NUL is an error, and to MySQL "shop " is equal to "shop".

import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";

/** In a query. */
const namesInQuery: ReadonlySet<string> = new Set(["app", "policy"]);
/** In a path, all others are names. Ids of consumers are whatever clients send, and compared exactly. */
const anyTextInPath: ReadonlySet<string> = new Set(["consumer"]);
/** Values of a policy's key are whatever clients send. */
const anyTextInQuery: ReadonlySet<string> = new Set(["key"]);

export default fp(
  async (app) => {
    app.addHook("preValidation", async ({ url, params, query }) => {
      requireDecodable(url);
      for (const [segment, value] of Object.entries(params as object)) {
        refuse(`The URL's ${segment}`, value, !anyTextInPath.has(segment));
      }
      for (const [parameter, value] of Object.entries(query as object)) {
        if (!anyTextInQuery.has(parameter)) refuse(`The query's ${parameter}`, value, namesInQuery.has(parameter));
      }
    });
  },
  { name: "well-formed-urls", dependencies: ["error-responses"] },
);

/** @throws ApiError bad-request */
function requireDecodable(url: string): void {
  const query = url.indexOf("?");
  if (query < 0) return;
  try {
    decodeURIComponent(url.slice(query + 1));
  } catch {
    throw new ApiError("bad-request", "The query of the URL does not decode to UTF-8.");
  }
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
