// Serves the console's pages. They are built before (console/build); without a build, only the API is served.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import files from "@fastify/static";
import type { FastifyReply } from "fastify";
import fp from "fastify-plugin";
import { pagePolicy } from "./security-headers.ts";

/** The URLs of pages, besides those beneath them. console/src/app/router.tsx has the same. */
export const consolePaths = [
  "/",
  "/sign-in",
  "/overview",
  "/keys",
  "/try",
  "/gateways",
  "/policies",
  "/templates",
  "/bans",
  "/networks",
  "/consumers",
  "/history",
  "/audit",
  "/members",
  "/tokens",
] as const;

interface ConsoleOptions {
  /** Where the console was built to. */
  readonly directory: string;
  /** Whether the sign-in page offers OpenID Connect. */
  readonly hasOpenId: boolean;
}

export default fp<ConsoleOptions>(
  async (app, { directory, hasOpenId }) => {
    const page = join(directory, "index.html");
    if (!existsSync(page)) {
      app.log.warn({ directory }, "the console is not built, so only the API is served: npm run build");
      return;
    }
    const built = readFileSync(page, "utf8");
    const text = hasOpenId ? built.replace("</head>", '<meta name="sluice-openid" content="yes"></head>') : built;
    const showPage = async (_request: unknown, reply: FastifyReply) =>
      reply.header("content-security-policy", pagePolicy).type("text/html; charset=utf-8").send(text);
    const options = { config: { access: "public" }, schema: { hide: true } } as const;
    for (const path of consolePaths) {
      app.get(path, options, showPage);
      if (path !== "/") app.get(`${path}/*`, options, showPage);
    }
    await app.register(async (assets) => {
      assets.addHook("onRoute", (route) => {
        route.config = { ...route.config, access: "public" };
      });
      const common = { decorateReply: false, index: false, preCompressed: true } as const;
      // Their names have a hash of what is in them.
      const year = { maxAge: "365d", immutable: true };
      await assets.register(files, { ...common, ...year, root: join(directory, "assets"), prefix: "/assets/" });
      const icon = { root: directory, wildcard: false, globIgnore: ["assets/**", "*.html"] };
      await assets.register(files, { ...common, ...icon, prefix: "/", maxAge: "1h" });
    });
  },
  { name: "console", dependencies: ["authentication", "route-table"] },
);
