// Answers that are the same for everybody: made and compressed once, however often they are asked for.

import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";
import { isKnown } from "./etags.ts";

export interface PreparedAnswer {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly gzip: Buffer;
}

export function prepareAnswer(text: string, type: string): PreparedAnswer {
  const plain = Buffer.from(text);
  const etag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  return { type, etag, plain, gzip: gzipSync(plain) };
}

/** 304 without a body if the client has it already (RFC 9110 §13.1.2), and compressed if the client takes that. */
export function sendPrepared(
  request: FastifyRequest,
  reply: FastifyReply,
  { type, etag, plain, gzip }: PreparedAnswer,
): FastifyReply {
  reply.headers({ etag, vary: "accept-encoding" });
  if (isKnown(request, etag)) return reply.code(304).send();
  reply.type(type);
  if (!takesGzip(request.headers["accept-encoding"])) return reply.send(plain);
  return reply.header("content-encoding", "gzip").send(gzip);
}

/** RFC 9110 §12.5.3; a weight of 0 means that the client does not take it. */
function takesGzip(accepted: string | string[] | undefined): boolean {
  return /(?:^|,)\s*(?:gzip|\*)\s*(?:$|,|;\s*q=(?!0(?:\.0*)?\s*(?:,|$)))/i.test(`${accepted ?? ""}`);
}
