// A query that does not decode to UTF-8 is refused, as a path is. Fastify would take "%FF" for the three characters that
// it is written with, and a client that meant something else would be told of a counter that it did not ask for.

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
