// One HTTP request to the gateway and what came of it: an answer, the caller's mistake, or a failure. It never asks twice, because
// what was perhaps charged must not be charged again.

import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";
import { Agent as SecureAgent, request as secureRequest } from "node:https";
import type { Settings } from "./settings.ts";
import { errorOf, type SluiceError } from "./sluice-error.ts";

export interface Failure {
  readonly kind: "failure";
  /** A sentence. */
  readonly failure: string;
  /** How long the gateway wants to be left alone, if it said so. */
  readonly retryAfterSeconds?: number;
  /** The gateway ended a connection that it had kept, as nginx does when it reloads: this says nothing about the next request. */
  readonly wasKept?: true;
}

export type Reply =
  | { readonly kind: "answer"; readonly body: Readonly<Record<string, unknown>> }
  | { readonly kind: "error"; readonly error: SluiceError }
  /** Its caller does not want it any more. */
  | { readonly kind: "abandoned" }
  | Failure;

const mostBodyBytes = 1024 * 1024;
const mostPieces = 1000;
/** Shorter than nginx keeps a connection (75 s): a request on one that nginx is closing would be a failure. */
const idleMs = 30_000;
const isProblem = /^application\/problem\+json\s*(;|$)/i;
const endsOfConnections: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE"]);

export function failed(failure: string): Failure {
  return { kind: "failure", failure };
}

export class Exchange {
  readonly #agent: Agent;
  readonly #send: (path: string, body: string) => ClientRequest;

  constructor({ target, token, ca }: Settings) {
    const { secure, host, port, socketPath } = target;
    const kept = { keepAlive: true, timeout: idleMs };
    this.#agent = secure ? new SecureAgent({ ...kept, ...(ca === undefined ? {} : { ca }) }) : new Agent(kept);
    const place = socketPath === undefined ? { host, ...(port === undefined ? {} : { port }) } : { socketPath };
    this.#send = (path, body) =>
      (secure ? secureRequest : request)({
        ...place,
        path,
        method: "POST",
        agent: this.#agent,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        },
      }).end(body);
  }

  /**
   * Sends the request now.
   *
   * @param timeoutMs after so long without the whole answer it is a failure
   * @param signal ends the request
   */
  post(path: string, body: string, timeoutMs: number, signal?: AbortSignal): Promise<Reply> {
    return new Promise((resolve) => {
      const outgoing = this.#send(path, body);
      let readBefore = 0;
      outgoing.once("socket", ({ bytesRead }) => {
        readBefore = bytesRead;
      });
      const hasEndedUnheard = (error?: NodeJS.ErrnoException) =>
        outgoing.reusedSocket &&
        outgoing.socket?.bytesRead === readBefore &&
        (error === undefined || endsOfConnections.has(error.code ?? ""));
      const noAnswer = `The gateway did not answer within ${Math.max(0, Math.ceil(timeoutMs))} ms.`;
      let isSettled = false;
      const settle = (reply: Reply) => {
        isSettled = true;
        clearTimeout(timer);
        signal?.removeEventListener("abort", abandon);
        resolve(reply);
      };
      const abandon = () => {
        settle({ kind: "abandoned" });
        outgoing.destroy();
      };
      signal?.addEventListener("abort", abandon);
      const fail = (failure: string, wasKept = false) => {
        if (isSettled) return;
        settle(wasKept ? { ...failed(failure), wasKept } : failed(failure));
        outgoing.destroy();
      };
      // A process that was busy for long finds its timers due before it reads: an answer that has come by then is heard first.
      const timer = setTimeout(() => setImmediate(fail, noAnswer), Math.max(0, timeoutMs)).unref();
      outgoing.on("error", (error) =>
        fail(`The gateway could not be asked: ${wordsOf(error)}.`, hasEndedUnheard(error)),
      );
      outgoing.on("close", () => fail("The connection to the gateway ended before its answer.", hasEndedUnheard()));
      outgoing.on("response", (incoming) => read(incoming, settle, fail));
    });
  }

  /** Ends idle connections, and lets those that are busy end after their answer. */
  close(): void {
    this.#agent.maxFreeSockets = 0;
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
  }
}

function read(incoming: IncomingMessage, settle: (reply: Reply) => void, fail: (failure: string) => void): void {
  const pieces: Buffer[] = [];
  let bytes = 0;
  incoming.on("data", (piece: Buffer) => {
    bytes += piece.length;
    if (bytes > mostBodyBytes) fail(`The gateway's answer is larger than ${mostBodyBytes} bytes.`);
    else pieces.push(piece);
    // An answer in chunks of a byte would take some hundred bytes for each.
    if (pieces.length === mostPieces) pieces.splice(0, mostPieces, Buffer.concat(pieces));
  });
  incoming.on("error", (error) => fail(`The gateway's answer broke off: ${wordsOf(error)}.`));
  incoming.on("end", () => {
    if (!incoming.complete) return;
    let reply: Reply;
    // Whatever is wrong with an answer, it must not end the process.
    try {
      reply = replyOf(incoming, Buffer.concat(pieces).toString());
    } catch (error) {
      fail(`The gateway's answer could not be read: ${wordsOf(error as Error)}.`);
      return;
    }
    settle(reply);
  });
}

function replyOf({ statusCode = 0, headers }: IncomingMessage, text: string): Reply {
  const body = parsed(text);
  if (statusCode === 200) {
    if (body !== undefined) return { kind: "answer", body };
    return failed("The gateway's answer is not a JSON object.");
  }
  const error = isProblem.test(headers["content-type"] ?? "") ? errorOf(statusCode, body) : undefined;
  if (error !== undefined) return { kind: "error", error };
  const failure = failed(`The gateway answered with status ${statusCode}.`);
  const asksForPause = statusCode === 503 || statusCode === 429;
  const retryAfter = headers["retry-after"] ?? "";
  return asksForPause && /^\d+$/.test(retryAfter) ? { ...failure, retryAfterSeconds: Number(retryAfter) } : failure;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** A name with several addresses fails with an error for each, and no message of its own. */
function wordsOf(error: Error): string {
  const first = error instanceof AggregateError ? (error.errors[0] as Error) : error;
  return first.message || ((first as NodeJS.ErrnoException).code ?? first.name);
}
