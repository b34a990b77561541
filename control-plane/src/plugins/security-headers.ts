// Tells browsers to do as little as possible with the answers. Pages have a policy of their own, which lets their scripts run.

import helmet from "@fastify/helmet";
import fp from "fastify-plugin";

const nothing = "default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'";

/** Of the pages of the console and of /docs. Nothing runs that is not a file of this control plane, and the page talks to nobody but this control plane. */
export const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join(";");

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
