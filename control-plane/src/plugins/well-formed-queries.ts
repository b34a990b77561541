// Refuses a query that does not decode to UTF-8, as Fastify does for a path. Fastify would read "%FF" in a query as those
// three characters, and the client would get another counter than the one that it meant.

import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";

export default fp(
  async (app) => {
    app.addHook("preValidation", async ({ url }) => {
      const query = url.indexOf("?");
      if (query < 0) return;
      try {
        decodeURIComponent(url.slice(query + 1));
      } catch {
        throw new ApiError("bad-request", "The query of the URL does not decode to UTF-8.");
      }
    });
  },
  { name: "well-formed-queries", dependencies: ["error-responses"] },
);
