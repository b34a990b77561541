// Tells browsers to do as little as possible with the answers. /docs has a policy of its own, which lets its scripts run.

import helmet from "@fastify/helmet";
import fp from "fastify-plugin";

const nothing = "default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'";

/** For answers to what never became a request: no hook sees them. */
export const leastHeaders: Readonly<Record<string, string>> = {
  "content-security-policy": nothing,
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

export default fp(
  async (app) => {
    await app.register(helmet, {
      contentSecurityPolicy: {
        useDefaults: false,
        directives: Object.fromEntries(nothing.split(";").map((one) => one.split(" ") as [string, string])),
      },
      frameguard: { action: "deny" },
      // TLS ends at a proxy, which knows whether all of its host has TLS: it is the one to promise that.
      strictTransportSecurity: false,
    });
    // Answers have tokens, policies and names of people.
    app.addHook("onSend", async (_request, reply) => {
      if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store");
    });
  },
  { name: "security-headers" },
);
