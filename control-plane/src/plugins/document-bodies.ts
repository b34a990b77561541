// Bodies: JSON, and YAML where a route takes documents. A key that comes twice in one object is refused in both: which
// of two quotas was meant is nobody's to guess.

import fp from "fastify-plugin";
import { isAlias, isScalar, parseDocument, visit } from "yaml";
import { ApiError } from "../errors/api-error.ts";
import { repeatedKey } from "../schemas/repeated-key.ts";

const yamlTypes = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"];

export default fp(
  async (app) => {
    const parseJson = app.getDefaultJsonParser("error", "error");
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("application/json", { parseAs: "string" }, (request, text, done) => {
      // Many clients put the type on everything they send. A deletion takes no body, so none is missing.
      if (request.method === "DELETE" && text === "") return done(null, undefined);
      parseJson(request, text as string, (error, value) => {
        if (error !== null) return done(jsonError(text as string));
        const key = repeatedKey(text as string);
        if (key !== undefined) return done(repeated(key));
        done(null, value);
      });
    });
    app.addContentTypeParser(yamlTypes, { parseAs: "string" }, async (_request: unknown, text: string) =>
      parseYaml(text),
    );
  },
  { name: "document-bodies", dependencies: ["error-responses"] },
);

/** @throws ApiError malformed-body */
function parseYaml(text: string): unknown {
  // Its own check of unique keys compares each with each: a megabyte of keys would take minutes.
  // At the level "silent" it would also keep quiet about a second document, and drop it.
  const options = { uniqueKeys: false, prettyErrors: false, logLevel: "error" } as const;
  const document = parseOrThrow(() => parseDocument(text, options));
  const error = document.errors[0];
  if (error !== undefined) {
    const line = text.slice(0, error.pos[0]).split("\n").length;
    throw new ApiError("malformed-body", `The body is not YAML: line ${line}: ${error.message}.`);
  }
  visit(document, {
    Map(_, map) {
      const seen = new Set<unknown>();
      for (const { key } of map.items) {
        if (isAlias(key) || !isScalar(key))
          throw new ApiError("malformed-body", "A key in the YAML is not a plain value.");
        const name = String(key.value);
        if (name === "__proto__") throw new ApiError("malformed-body", 'The key "__proto__" is not accepted.');
        if (seen.has(name)) throw repeated(name);
        seen.add(name);
      }
    },
  });
  // Few aliases: a short text can otherwise grow into gigabytes.
  return parseOrThrow(() => document.toJS({ maxAliasCount: 100 }));
}

function parseOrThrow<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof RangeError) throw new ApiError("malformed-body", "The YAML is nested too deeply.");
    throw new ApiError("malformed-body", `The body is not YAML: ${(error as Error).message}.`);
  }
}

/** @param text one that Fastify's parser refused */
function jsonError(text: string): ApiError {
  if (text.trim() === "") return new ApiError("malformed-body", "The body is empty, though its Content-Type is JSON.");
  try {
    JSON.parse(text);
  } catch (error) {
    return new ApiError("malformed-body", `The body is not JSON: ${(error as Error).message}.`);
  }
  return new ApiError("malformed-body", 'The keys "__proto__" and "constructor.prototype" are not accepted.');
}

function repeated(key: string): ApiError {
  return new ApiError("malformed-body", `The key ${JSON.stringify(key.slice(0, 80))} comes twice in one object.`);
}
