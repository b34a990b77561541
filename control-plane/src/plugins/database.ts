// The database, opened elsewhere, for routes and other plugins; closed after the last request.

import fp from "fastify-plugin";
import type { Database } from "../storage/database.ts";

declare module "fastify" {
  interface FastifyInstance {
    readonly database: Database;
  }
}

export default fp<{ database: Database }>(
  async (app, { database }) => {
    app.decorate("database", database);
    app.addHook("onClose", () => database.destroy());
  },
  { name: "database" },
);
