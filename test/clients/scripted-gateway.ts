// A gateway that answers by a script: it expects the requests of one step of a conformance case, and answers each as the case says.
// Clients are held against what they send and what they make of the answer, so everything that the case does not expect is a fault.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export const token = "a-caller-token-of-the-conformance-suite";

export interface Response {
  /** Default: 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly text?: string | { readonly repeat: string; readonly times: number };
  /** A body of so many spaces and an object. */
  readonly bytes?: number;
  readonly afterMs?: number;
  /** What is sent in place of an answer, as it is. The connection stays. */
  readonly raw?: string;
  /** What happens in place of an answer: the connection ends, ends in the middle of the body, or nothing comes. */
  readonly instead?: "close" | "cut" | "silence";
}

export interface Exchange {
  /** Without it, a request may be as it likes. */
  readonly request?: { readonly path?: string; readonly body: unknown };
  readonly response: Response;
}

/** Answers every check by the last value of its key, in as many requests as the client needs. */
export interface Answering {
  readonly byKey: Readonly<Record<string, unknown>>;
  readonly mostRequests: number;
  readonly mostChecks: number;
  readonly mostBytes?: number;
  readonly afterMs?: number;
}

export interface Script {
  readonly exchanges?: readonly Exchange[];
  readonly answering?: Answering;
  /** Answers whatever comes. */
  readonly always?: Response;
}

interface Check {
  readonly key: readonly string[];
}

const checkPath = "/sluice/v1/check";

export class ScriptedGateway {
  readonly faults: string[] = [];
  /** Connections of clients that ended before they had their answer. */
  left = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #script: Script = {};
  #left: Exchange[] = [];
  #requests = 0;
  readonly #asked: string[] = [];

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<ScriptedGateway> {
    const gateway = new ScriptedGateway();
    await new Promise<void>((resolve) => gateway.#server.listen(0, "127.0.0.1", resolve));
    return gateway;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Expects the requests of the next step. */
  expect(script: Script): void {
    this.#script = script;
    this.#left = [...(script.exchanges ?? [])];
    this.#requests = 0;
    this.#asked.length = 0;
  }

  /** What of the step was not as expected. */
  takeFaults(): string[] {
    const faults = this.faults.splice(0);
    for (const { request } of this.#left) faults.push(`no such request came: ${JSON.stringify(request?.body)}`);
    const { answering } = this.#script;
    if (answering !== undefined && this.#requests > answering.mostRequests)
      faults.push(`${this.#requests} requests came, at most ${answering.mostRequests} were expected`);
    const twice = this.#asked.filter((key, i) => this.#asked.indexOf(key) !== i);
    if (twice.length > 0) faults.push(`asked more than once: ${twice.join(", ")}`);
    this.#left = [];
    return faults;
  }

  closeConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.closeConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.once("close", () => {
      if (!response.writableFinished) this.left += 1;
    });
    const body = await textOf(request);
    this.#checkHead(request, body);
    this.#requests += 1;
    const answer = this.#answerTo(request, body);
    if (answer.afterMs !== undefined) await sleep(answer.afterMs);
    send(response, answer);
  }

  #checkHead(request: IncomingMessage, body: string): void {
    const { method, headers } = request;
    const { authorization } = headers;
    if (method !== "POST") this.faults.push(`the method is ${method}`);
    if (authorization !== `Bearer ${token}`) this.faults.push(`the header authorization is ${authorization}`);
    if (headers["content-type"] !== "application/json") this.faults.push(`content-type is ${headers["content-type"]}`);
    if (headers["transfer-encoding"] !== undefined || headers["content-length"] !== `${Buffer.byteLength(body)}`)
      this.faults.push(`the body has no length: ${JSON.stringify(headers)}`);
  }

  #answerTo(request: IncomingMessage, text: string): Response {
    const { answering, always } = this.#script;
    if (always !== undefined) return always;
    if (answering !== undefined) return this.#answerChecks(answering, text);
    const i = this.#left.findIndex(({ request: wanted }) => wanted === undefined || isAsWanted(wanted, request, text));
    if (i !== -1) return (this.#left.splice(i, 1)[0] as Exchange).response;
    this.faults.push(`not expected: ${request.url} ${text}`);
    return { status: 500 };
  }

  #answerChecks({ byKey, mostChecks, mostBytes = 65_536, afterMs = 0 }: Answering, text: string): Response {
    const { mode, checks } = JSON.parse(text) as { mode?: string; checks: readonly Check[] };
    if (mode !== "each") this.faults.push(`mode is ${mode}`);
    if (checks.length > mostChecks) this.faults.push(`${checks.length} checks in one request`);
    if (Buffer.byteLength(text) > mostBytes) this.faults.push(`${Buffer.byteLength(text)} bytes in one request`);
    const results = checks.map(({ key }) => {
      const last = key.at(-1) ?? "";
      this.#asked.push(last);
      return byKey[last] ?? byKey["*"];
    });
    const allowed = results.every((result) => (result as { allowed: boolean }).allowed);
    return { afterMs, json: { allowed, results } };
  }
}

/** The order of the fields counts too. */
function isAsWanted(wanted: NonNullable<Exchange["request"]>, request: IncomingMessage, text: string): boolean {
  if (request.url !== (wanted.path ?? checkPath)) return false;
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(wanted.body);
  } catch {
    return false;
  }
}

function send(response: ServerResponse, answer: Response): void {
  const { status = 200, headers = {}, raw, instead } = answer;
  if (raw !== undefined) return void response.socket?.write(raw);
  if (instead === "silence") return;
  if (instead === "close") return void response.socket?.destroy();
  const body = textOfAnswer(answer);
  const type = status < 400 ? "application/json" : "application/problem+json";
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body), ...headers });
  if (instead !== "cut") return void response.end(body);
  response.write(body.slice(0, Math.floor(body.length / 2)), () => response.socket?.destroy());
}

function textOfAnswer({ json, text, bytes }: Response): string {
  if (bytes !== undefined) return `${" ".repeat(bytes)}{}`;
  if (typeof text === "object") return text.repeat.repeat(text.times);
  return text ?? JSON.stringify(json) ?? "";
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
