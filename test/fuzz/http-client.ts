// Sends requests as a hostile client would: any method, any bytes as a body, over one connection that is kept.

import { Agent, request } from "node:http";

export interface Sent {
  readonly method: string;
  /** Characters that a URL cannot have are sent escaped. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
}

export interface Answer {
  /** 0 if the connection was cut while a large body was still being sent. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

const timeoutMs = 30_000;
/** A server that refuses so large a body may hang up before it has read it. */
const largeBytes = 60_000;

export class Client {
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(url: string) {
    this.#url = url;
  }

  /** @throws if no answer comes */
  async send(sent: Sent): Promise<Answer> {
    try {
      return await this.#send(sent, this.#agent);
    } catch (error) {
      // A kept connection may be closed just when it is used again.
      if (!(error instanceof BrokenConnection)) throw error;
      if (!error.reused && sizeOf(sent.body) > largeBytes) return { status: 0, headers: {}, body: "" };
      return await this.#send(sent, false).catch((second) => {
        if (second instanceof BrokenConnection && sizeOf(sent.body) > largeBytes)
          return { status: 0, headers: {}, body: "" };
        throw second;
      });
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #send({ method, path, headers: given, body }: Sent, agent: Agent | false): Promise<Answer> {
    const { hostname, port } = new URL(this.#url);
    // For a method that usually has no body, Node would send no length, and the body would be read as another request.
    const headers = body === undefined ? given : { ...given, "content-length": Buffer.byteLength(body) };
    return new Promise((resolve, reject) => {
      const outgoing = request(
        { hostname, port, path: escaped(path), method, headers: { ...headers }, agent, timeout: timeoutMs },
        (incoming) => {
          const parts: Buffer[] = [];
          const end = () => {
            const body = Buffer.concat(parts).toString("utf8");
            resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body });
          };
          incoming.on("data", (part: Buffer) => {
            parts.push(part);
            // It has no end.
            if (incoming.headers["content-type"]?.startsWith("text/event-stream") !== true) return;
            end();
            outgoing.destroy();
          });
          incoming.on("error", fail);
          incoming.on("end", end);
        },
      );
      const fail = (error: NodeJS.ErrnoException) =>
        reject(
          error.code === "ECONNRESET" || error.code === "EPIPE"
            ? new BrokenConnection(outgoing.reusedSocket, `${method} ${path}: ${error.message}`)
            : error,
        );
      outgoing.on("timeout", () => outgoing.destroy(new Error(`no answer within ${timeoutMs} ms`)));
      outgoing.on("error", fail);
      outgoing.end(body);
    });
  }
}

class BrokenConnection extends Error {
  readonly reused: boolean;

  constructor(reused: boolean, message: string) {
    super(message);
    this.reused = reused;
  }
}

function sizeOf(body: Uint8Array | string | undefined): number {
  return body === undefined ? 0 : body.length;
}

function escaped(path: string): string {
  return path.toWellFormed().replace(/[^\x21-\x7e]/gu, (character) => encodeURIComponent(character));
}
