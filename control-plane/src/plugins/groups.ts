// The operator's mapping of an OpenID provider's groups to rights.

import fp from "fastify-plugin";
import type { GroupMapping } from "../rights/group-rights.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** Empty without OpenID Connect. */
    readonly groupMapping: GroupMapping;
  }
}

export default fp<{ mapping: GroupMapping }>(
  async (app, { mapping }) => {
    app.decorate("groupMapping", mapping);
  },
  { name: "groups" },
);
