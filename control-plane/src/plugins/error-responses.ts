// Answers every error as problem+json with a code of the catalogue, whether a route, Fastify or Node's HTTP parser raised
// it.

import { type IncomingMessage, maxHeaderSize, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import { maxBodyBytes } from "../bodies/bounds.ts";
import { ApiError, problemDocument } from "../errors/api-error.ts";
import type { ErrorCode } from "../errors/catalogue.ts";
import { countedChunks, leastBytesOfThem, smallChunks } from "../http/small-chunks.ts";
import { problemsOf, quote } from "../schemas/validation-problems.ts";
import { DatabaseBusy, DatabaseUnreachable, DatabaseUnwritable } from "../storage/engines/database-errors.ts";
import { leastHeaders } from "./security-headers.ts";

const lingerMs = 1_000;
const retryAfterBusySeconds = 1;
const contentType = "application/problem+json";

/** Errors of Fastify that a client causes. */
const codesOfFastify: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported-media-type",
  FST_ERR_CTP_BODY_TOO_LARGE: "body-too-large",
  FST_ERR_CTP_EMPTY_JSON_BODY: "malformed-body",
  FST_ERR_CTP_INVALID_JSON_BODY: "malformed-body",
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: "bad-request",
  FST_ERR_BAD_URL: "bad-request",
  FST_ERR_ASYNC_CONSTRAINT: "not-found",
  FST_ERR_MAX_PARAM_LENGTH: "not-found",
  FST_STATIC_FORBIDDEN_PATH: "not-found",
};

const codesOfParser: Readonly<Record<string, ErrorCode>> = {
  ERR_HTTP_REQUEST_TIMEOUT: "request-timeout",
  HPE_HEADER_OVERFLOW: "headers-too-large",
  [smallChunks]: "malformed-body",
};

const details: Partial<Record<ErrorCode, string>> = {
  "body-too-large": `The body is larger than ${maxBodyBytes / 1024} KiB.`,
  "malformed-body": `The body comes in chunks that are too small: ${countedChunks} in a row must have ${leastBytesOfThem} bytes together. Send larger chunks, or a Content-Length.`,
  "bad-request": "The request is not well-formed.",
  "not-found": "There is nothing at this URL.",
  "request-timeout": "The whole request did not arrive in time.",
  "headers-too-large": `The URL and the headers together are larger than ${maxHeaderSize / 1024} KiB.`,
};

export default fp(
  async (app) => {
    app.setErrorHandler((error: FastifyError, request, reply) => answerError(error, request, reply));
    // Answered before the body is read, because the sender is not known.
    app.addHook("onRequest", async (request) => {
      if (request.is404) throw refusedByRouter.get(request.raw) ?? notFound(request);
    });
    app.setNotFoundHandler((request, reply) => answer(notFound(request), reply));
  },
  { name: "error-responses", dependencies: ["minute-log"] },
);

function notFound(request: FastifyRequest): ApiError {
  return new ApiError("not-found", `There is nothing at ${request.url.split("?", 1)[0]}.`);
}

/** For routes that answer some of their errors otherwise. */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return answer(apiErrorFrom(error, request), reply);
}

/** Requests that the router refused, such as one whose URL cannot be decoded. */
const refusedByRouter = new WeakMap<IncomingMessage, ApiError>();

/** No route is here. */
const nowhere = "/nowhere";

/**
 * Answers what the router refuses. Fastify runs no hook for that, so it would count for no limit, and be in no log. So the request
 * goes through the router once more, with a URL for which there is no route, and meets the hooks of all such requests.
 */
export function answerRefusedByRouter(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  request.raw.url = refuseByRouter(request.raw, apiErrorFrom(error, request));
  request.server.routing(request.raw, reply.raw);
}

/** @returns a URL that has the error as its answer */
export function refuseByRouter(request: IncomingMessage, error: ApiError): string {
  refusedByRouter.set(request, error);
  return nowhere;
}

/** Answers bytes that never became a request: there is no reply object yet, only the socket. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket, detail?: string): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const code = codesOfParser[error.code ?? ""] ?? "bad-request";
  const document = problemDocument(new ApiError(code, detail ?? details[code] ?? ""));
  const body = JSON.stringify(document);
  const head = [
    `HTTP/1.1 ${document.status} ${STATUS_CODES[document.status]}`,
    `Content-Type: ${contentType}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    ...Object.entries(leastHeaders).map(([name, value]) => `${name}: ${value}`),
  ];
  // The client may never close its side, and a stop of the control plane would wait for it.
  socket.setTimeout(lingerMs, () => socket.destroy());
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

function answer(error: ApiError, reply: FastifyReply): FastifyReply {
  return reply.code(error.statusCode).headers(error.headers).type(contentType).send(problemDocument(error));
}

/**
 * Returns what the client is told of an error, which the log has if it is ours.
 * @param isOfPart whether the request has stored something before
 */
export function apiErrorFrom(thrown: unknown, request: FastifyRequest, isOfPart = false): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const error = thrown as FastifyError;
  if (error.validation !== undefined) {
    const errors = problemsOf(error.validation);
    const first = errors[0];
    const detail =
      first === undefined ? "The request is invalid." : `${first.path}: expected ${first.expected}, got ${first.got}.`;
    return new ApiError("invalid-request", detail, { errors });
  }
  const code = codesOfFastify[error.code ?? ""];
  if (code === "malformed-body") return new ApiError(code, error.message);
  if (code === "unsupported-media-type") {
    const expected = "application/json or application/yaml";
    const got = request.headers["content-type"];
    return new ApiError(code, `Content-Type: expected ${expected}, got ${got === undefined ? "none" : quote(got)}.`);
  }
  if (code !== undefined) return new ApiError(code, details[code] ?? "");
  // The client left in the middle of its body: there is nobody to answer and nothing to investigate.
  if (error.code === "ECONNRESET") return new ApiError("bad-request", details["bad-request"] ?? "");
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    // Any client can cause that as often as it wants.
    request.log.info({ err: error }, "a client error without a code of its own");
    return new ApiError("bad-request", details["bad-request"] ?? "");
  }
  const outcome = isOfPart ? "" : ": nothing was changed";
  // The log says once that this began, and not for every request.
  if (thrown instanceof DatabaseUnwritable) {
    if (thrown.fault === "unwritable") {
      return new ApiError("storage-unwritable", `The database cannot be written to${outcome}.`);
    }
    return new ApiError("storage-full", `The disk of the database is full${outcome}.`);
  }
  if (thrown instanceof DatabaseUnreachable) {
    const during = isOfPart
      ? "The database went away while a part was stored, which it has stored whole or not at all."
      : "The database went away during the change: it was stored whole, or nothing was. Read what is stored before you repeat it.";
    const detail = thrown.mayBeStored ? during : `The database does not answer${outcome}.`;
    return new ApiError("database-unreachable", detail, {}, { "retry-after": String(retryAfterBusySeconds) });
  }
  if (thrown instanceof DatabaseBusy) {
    const what = "the database was busy for too long";
    request.server.minuteLog.say("warn", what, { requestId: request.id, err: error }, what);
    const detail = `Another process holds the database's lock, and did not let go in time${outcome}.`;
    return new ApiError("database-busy", detail, {}, { "retry-after": String(retryAfterBusySeconds) });
  }
  // The cause goes only into the log: messages of drivers and of Node contain paths, SQL and values.
  request.log.error({ err: error }, "request failed");
  return new ApiError("internal", "The control plane failed; its log says why.", { requestId: request.id });
}
