// 405 for a URL that exists under other methods. Fastify answers 404 there, which sends people looking for a typo in
// the URL. Registered after all routes.

import type { HTTPMethods } from "fastify";
import fp from "fastify-plugin";
import { ApiError } from "../errors/api-error.ts";

/** Call before routes are added. @returns the plugin to register after them */
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
        // policies/validate is a policy's name too: what is not for the one URL is for the other.
        if (url.includes("*") || watched.some(([pattern]) => covers(pattern, url))) continue;
        const allow = [...methods].sort().join(", ");
        const others = app.supportedMethods.filter((method) => !methods.has(method)) as HTTPMethods[];
        app.route({
          url,
          method: others,
          schema: { hide: true },
          config: { access: "public" },
          exposeHeadRoute: false,
          // Before the body is read: what is in it does not matter.
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

/** Whether the pattern, by its parameters, takes in all that the other URL does. */
function covers(pattern: string, url: string): boolean {
  if (pattern === url) return false;
  const segments = url.split("/");
  const wanted = pattern.split("/");
  return wanted.length === segments.length && wanted.every((want, i) => want === segments[i] || want.startsWith(":"));
}
