// Parses bodies in UTF-8: JSON and YAML. Both refuse a key that comes twice in one object: if
// there are two quotas, nobody can guess which was meant. Parsing on the main thread takes a few milliseconds at most. A route may
// take many documents in one body instead, and reads them while they arrive.

import { Readable } from "node:stream";
import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import type { FastifyInstance, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { BodiesHeld, type BodyKind, type HeldBody, type Sender } from "../bodies/bodies-held.ts";
import { maxBodyBytes, maxStrangersBytes } from "../bodies/bounds.ts";
import type { Waiter } from "../bodies/fair-line.ts";
import { faultOfJson } from "../bodies/json-faults.ts";
import { type ManyFormat, manyDocuments, type ReadDocument, readMany } from "../bodies/many-documents.ts";
import { YamlThread } from "../bodies/yaml-thread.ts";
import { ApiError } from "../errors/api-error.ts";
import { type Caller, ownerOf } from "../rights/caller.ts";
import { callerOf } from "./authentication.ts";

const yamlTypes = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"];

export const linesTypes = ["application/jsonl", "application/x-ndjson"];

export const manyTypes = [...linesTypes, "application/yaml"];

declare module "fastify" {
  interface FastifyInstance {
    /** Counts a large body, before it is read. To be ended when nothing of it is in memory any more. @throws ApiError bodies-busy */
    holdBody(request: FastifyRequest, kind: BodyKind): HeldBody;
    /** Reads the body of a route of `takeManyDocuments`: documents in lists, in their order. Rejects if it breaks off, or as HeldBody does. */
    readDocuments(request: FastifyRequest, held: HeldBody): AsyncIterable<readonly ReadDocument[]>;
  }
}

/** For a plugin of routes that take many documents, and nothing else. */
export function takeManyDocuments(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser([...linesTypes, ...yamlTypes], async (request: FastifyRequest, stream: Readable) => {
    refuseAnnounced(request, manyDocuments);
    const encoding = request.headers["content-encoding"] ?? "identity";
    if (encoding !== "identity") {
      throw new ApiError("unsupported-media-type", `Content-Encoding: expected none, got ${JSON.stringify(encoding)}.`);
    }
    return stream;
  });
  app.addContentTypeParser("*", async ({ headers }: FastifyRequest) => {
    const given = headers["content-type"];
    const got = given === undefined || given === "" ? "none" : JSON.stringify(given);
    throw new ApiError("unsupported-media-type", `Content-Type: expected ${manyTypes.join(" or ")}, got ${got}.`);
  });
}

function formatOf({ headers }: FastifyRequest): ManyFormat {
  const [type = ""] = (headers["content-type"] ?? "").split(";", 1);
  return yamlTypes.includes(type.trim().toLowerCase()) ? "yaml" : "jsonl";
}

const oneDocument: BodyKind = {
  mostBytes: maxBodyBytes,
  tooLarge: `The body is larger than ${maxBodyBytes / 1024} KiB.`,
  bytesForEach: 1,
  leastBytes: 0,
};

/** A sign-in is all that is read without a token. */
const ofStranger: BodyKind = {
  ...oneDocument,
  mostBytes: maxStrangersBytes,
  tooLarge: `The body is larger than ${maxStrangersBytes / 1024} KiB.`,
};

export default fp<{ yamlDeadlineMs: number }>(
  async (app, { yamlDeadlineMs }) => {
    const parseJson = app.getDefaultJsonParser("error", "error");
    /** Fastify's parser calls back before it returns. */
    const parse = (request: FastifyRequest, text: string): { value: unknown } | { error: Error } => {
      let read: { value: unknown } | { error: Error } = { value: undefined };
      parseJson(request, text, (error, value) => {
        read = error === null ? { value } : { error };
      });
      return read;
    };
    const largeBodies = new BodiesHeld();
    /** Apart from each other, so that no small body makes a large one give way. */
    const smallBodies = new BodiesHeld();
    const yaml = new YamlThread(yamlDeadlineMs);
    app.addHook("onClose", () => yaml.stop());
    app.decorate("holdBody", (request: FastifyRequest, kind: BodyKind) => largeBodies.begin(senderOf(request), kind));
    app.decorate("readDocuments", (request: FastifyRequest, held: HeldBody) => {
      // Fastify has no body if none was announced.
      if (request.body === undefined) return Readable.from([]);
      const parseLine = (text: string) => {
        const fault = faultOfJson(text);
        if (fault !== undefined) throw new Error(fault);
        const read = parse(request, text);
        if ("error" in read) throw new Error(clauseOf(text));
        return read.value;
      };
      const body = {
        stream: request.body as Readable,
        format: formatOf(request),
        yaml,
        waiter: waiterOf(callerOf(request)),
        held,
        ownTurn: () => app.ownTurn(request),
      };
      return readMany({ ...body, parseJson: parseLine });
    });
    // After YAML, and when the sender was identified again.
    app.addHook("preHandler", async (request) => {
      if (request.body !== undefined) await app.ownTurn(request);
    });
    app.removeAllContentTypeParsers();
    const readWhole = async (request: FastifyRequest, stream: Readable) => {
      const kind = request.caller === undefined ? ofStranger : oneDocument;
      refuseAnnounced(request, kind);
      const ownTurn = () => app.ownTurn(request);
      let held: HeldBody | undefined;
      try {
        held = smallBodies.begin(senderOf(request), kind);
        const bytes = await held.whole(stream, ownTurn);
        // Many bodies may end at once. Those that wait for their turns are in memory, and counted.
        await held.orGivenWay(ownTurn());
        return bytes;
      } catch (error) {
        held?.end();
        // Many bodies may be refused at once.
        await ownTurn();
        throw error;
      } finally {
        held?.end();
      }
    };
    app.addContentTypeParser("application/json", async (request: FastifyRequest, stream: Readable) => {
      const bytes = await readWhole(request, stream);
      if (isNone(request, bytes)) return undefined;
      const text = decode(bytes);
      const fault = faultOfJson(text);
      if (fault !== undefined) throw new ApiError("malformed-body", `The body is refused: ${fault}.`);
      const read = parse(request, text);
      if ("error" in read) throw jsonError(text);
      return read.value;
    });
    app.addContentTypeParser(yamlTypes, async (request: FastifyRequest, stream: Readable) => {
      const bytes = await readWhole(request, stream);
      if (isNone(request, bytes)) return undefined;
      // One thread reads all YAML, and strangers must not take its time.
      if (request.caller === undefined) {
        throw new ApiError(
          "unsupported-media-type",
          "Send a body as application/json: YAML is for requests with a token.",
        );
      }
      return yaml.read(decode(bytes), waiterOf(request.caller));
    });
  },
  { name: "document-bodies", dependencies: ["error-responses", "authentication", "fair-turns"] },
);

/** Strangers are known by their addresses. */
function senderOf({ params, caller, address }: FastifyRequest): Sender {
  const { app: named = "" } = (params ?? {}) as { app?: string };
  return { app: named, name: caller?.who ?? ipPrefix(address, 32, 64) };
}

/** @throws ApiError body-too-large, before anything of the body is read */
function refuseAnnounced({ headers }: FastifyRequest, { mostBytes, tooLarge }: BodyKind): void {
  if (Number(headers["content-length"] ?? 0) > mostBytes) throw new ApiError("body-too-large", tooLarge);
}

function waiterOf(caller: Caller): Waiter {
  return { owner: ownerOf(caller), token: caller.id };
}

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
  const clause = clauseOf(text);
  return new ApiError("malformed-body", clause === forbiddenKeys ? `${clause}.` : `The body is not JSON: ${clause}.`);
}

const forbiddenKeys = 'The keys "__proto__" and "constructor.prototype" are not accepted';

/** @param text that Fastify's parser refused @returns why, without a full stop */
function clauseOf(text: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    return (error as Error).message;
  }
  return forbiddenKeys;
}
