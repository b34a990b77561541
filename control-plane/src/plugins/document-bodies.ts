// Parses bodies in UTF-8: JSON and YAML. Both refuse a key that comes twice in one object: if
// there are two quotas, nobody can guess which was meant. Parsing on the main thread takes a few milliseconds at most.

import type { FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { faultOfJson } from "../bodies/json-faults.ts";
import { takeTurns } from "../bodies/turns.ts";
import { YamlThread } from "../bodies/yaml-thread.ts";
import { ApiError } from "../errors/api-error.ts";

const yamlTypes = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"];

/** Ten times the size of a typical policy. Checking smaller bodies takes a negligible time. */
const largeBytes = 8 * 1024;

export default fp<{ yamlDeadlineMs: number }>(
  async (app, { yamlDeadlineMs }) => {
    const parseJson = app.getDefaultJsonParser("error", "error");
    const nextTurn = takeTurns();
    const yaml = new YamlThread(yamlDeadlineMs);
    app.addHook("onClose", () => yaml.stop());
    app.removeAllContentTypeParsers();
    app.addContentTypeParser(
      "application/json",
      { parseAs: "buffer" },
      async (request: FastifyRequest, bytes: Buffer) => {
        if (isNone(request, bytes)) return undefined;
        if (bytes.length > largeBytes) await nextTurn();
        const text = decode(bytes);
        const fault = faultOfJson(text);
        if (fault !== undefined) throw new ApiError("malformed-body", `The body is refused: ${fault}.`);
        let read: unknown;
        // The parser calls back before it returns.
        parseJson(request, text, (error, value) => {
          if (error !== null) throw jsonError(text);
          read = value;
        });
        return read;
      },
    );
    app.addContentTypeParser(yamlTypes, { parseAs: "buffer" }, async (request: FastifyRequest, bytes: Buffer) => {
      if (isNone(request, bytes)) return undefined;
      // One thread reads all YAML, and strangers must not take its time.
      if (request.caller === undefined) {
        throw new ApiError(
          "unsupported-media-type",
          "Send a body as application/json: YAML is for requests with a token.",
        );
      }
      const { app: named = "" } = (request.params ?? {}) as { app?: string };
      return yaml.read(decode(bytes), { app: named, name: request.caller.who });
    });
  },
  { name: "document-bodies", dependencies: ["error-responses", "authentication"] },
);

/** Returns whether there is no body. Many clients send the content type with every request; a DELETE needs no body. */
function isNone({ method }: FastifyRequest, bytes: Buffer): boolean {
  return method === "DELETE" && bytes.length === 0;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Without this, bytes that are not UTF-8 would be stored as "\ufffd", which nobody wrote.
 * @throws ApiError malformed-body
 */
function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new ApiError("malformed-body", "The body is not UTF-8.");
  }
}

/** @param text that Fastify's parser refused */
function jsonError(text: string): ApiError {
  if (text.trim() === "") return new ApiError("malformed-body", "The body is empty, though its Content-Type is JSON.");
  try {
    JSON.parse(text);
  } catch (error) {
    return new ApiError("malformed-body", `The body is not JSON: ${(error as Error).message}.`);
  }
  return new ApiError("malformed-body", 'The keys "__proto__" and "constructor.prototype" are not accepted.');
}
