// Answers 405 for a URL that exists with other methods. Fastify answers 404, which makes people look for a typo in the URL.
// Registered after all routes.

import type { HTTPMethods } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";

/**
 * Must be called before routes are added.
 * @returns the plugin `watch` to register before the routes and the plugin `refuse` to register after them
 */
export function watchMethods() {
  const methodsOfUrl = new Map<string, Set<string>>();

  const watch = fp(
    async (app) => {
      app.addHook("onRoute", ({ url, method }) => {
        const methods = methodsOfUrl.get(url) ?? new Set();
        for (const one of [method].flat()) methods.add(one);
        methodsOfUrl.set(url, methods);
      });
    },
    { name: "watch-methods" },
  );

  const refuse = fp(
    async (app) => {
      const watched = [...methodsOfUrl];
      for (const [url, methods] of watched) {
        // policies/validate could also be the name of a policy: methods that one URL does not have belong to the other.
        if (url.includes("*") || watched.some(([pattern]) => covers(pattern, url))) continue;
        const allow = [...methods].sort().join(", ");
        const others = app.supportedMethods.filter((method) => !methods.has(method)) as HTTPMethods[];
        app.route({
          url,
          method: others,
          schema: { hide: true },
          config: { access: "public" },
          exposeHeadRoute: false,
          // Answered before the body is read, because its content does not matter.
          onRequest: async (request) => {
            throw new ApiError(
              "method-not-allowed",
              `${request.method} is not allowed here; use ${allow}.`,
              {},
              { allow },
            );
          },
          handler: async () => undefined,
        });
      }
    },
    { name: "method-not-allowed", dependencies: ["watch-methods", "error-responses", "authentication"] },
  );

  return { watch, refuse };
}

/** Returns whether the pattern with its parameters matches every URL that the other one matches. */
function covers(pattern: string, url: string): boolean {
  if (pattern === url) return false;
  const segments = url.split("/");
  const wanted = pattern.split("/");
  return wanted.length === segments.length && wanted.every((want, i) => want === segments[i] || want.startsWith(":"));
}
