// A real gateway that takes the time from each request (given-time.lua), and a client that sends it requests one after the other.

import { Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { projectDir } from "../../launch/settings.ts";
import type { Answer } from "../fixtures/clients/requests.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

export interface TimedRequest {
  readonly atUs: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A request that shows it is told what a policy in shadow mode would have done. */
export const debugSecret = "a secret of the operator";

export async function gatewayAtGivenTimes(policies: readonly Record<string, unknown>[]): Promise<LoneGateway> {
  const prelude = join(projectDir, "test/forecast/given-time.lua");
  return LoneGateway.start({
    policies,
    env: { SLUICE_HEADERS: "both", SLUICE_DEBUG_SECRET: debugSecret },
    edit: (config) =>
      config
        .replace('sluice = require("sluice")', `given_time = dofile("${prelude}")\n    sluice = require("sluice")`)
        .replace("sluice.access()", "given_time.set()\n        sluice.access()")
        .replace("proxy_pass http://service;", "content_by_lua_block {\n        given_time.serve()\n      }")
        .replace(
          "location = /sluice/healthz {",
          "location = /release {\n      content_by_lua_block {\n        given_time.release()\n      }\n    }\n    location = /sluice/healthz {",
        )
        .replace("events {", "worker_rlimit_nofile 4096;\nevents {")
        .replace("server_tokens off;", "server_tokens off;\n  keepalive_requests 1000000;"),
  });
}

/** One connection, on which all requests of a list are sent at once. nginx decides them one after the other. */
export class Pipeline {
  readonly #socket: Socket;
  #text = "";
  #wanted = 0;
  #answers: Answer[] = [];
  #settle: { resolve(answers: Answer[]): void; reject(error: Error): void } | undefined;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("data", (text: string) => this.#read(text));
    this.#socket.on("close", () => this.#settle?.reject(new Error("nginx closed the connection")));
    this.#socket.on("error", (error) => this.#settle?.reject(error));
  }

  async send(requests: readonly TimedRequest[]): Promise<Answer[]> {
    this.#wanted = requests.length;
    this.#answers = [];
    const answered = new Promise<Answer[]>((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    let text = "";
    for (const { atUs, path, headers } of requests) {
      text += `GET ${path} HTTP/1.1\r\nHost: gateway\r\nX-At: ${atUs}\r\n`;
      for (const [name, value] of Object.entries(headers)) text += `${name}: ${value}\r\n`;
      text += "\r\n";
    }
    this.#socket.write(text);
    return answered;
  }

  close(): void {
    this.#settle = undefined;
    this.#socket.destroy();
  }

  #read(piece: string): void {
    this.#text += piece;
    for (;;) {
      const end = this.#text.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [first = "", ...lines] = this.#text.slice(0, end).split("\r\n");
      const headers: Record<string, string> = {};
      for (const line of lines) {
        const name = line.slice(0, line.indexOf(":")).toLowerCase();
        const value = line.slice(line.indexOf(":") + 2);
        headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
      }
      const bodyEnd = end + 4 + Number(headers["content-length"] ?? 0);
      if (this.#text.length < bodyEnd) return;
      this.#answers.push({ status: Number(first.slice(9, 12)), headers, body: this.#text.slice(end + 4, bodyEnd) });
      this.#text = this.#text.slice(bodyEnd);
      if (this.#answers.length === this.#wanted) this.#settle?.resolve(this.#answers);
    }
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: 200 });

/** Sends requests each of which lasts for so long, once it goes on. */
export async function sendLasting(
  url: string,
  requests: readonly TimedRequest[],
  durationUs: number,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  const lasting: { readonly endUs: number; readonly id: string; readonly response: IncomingMessage }[] = [];
  const endUntil = async (atUs: number) => {
    for (let first = lasting[0]; first !== undefined && first.endUs <= atUs; first = lasting[0]) {
      lasting.shift();
      const ended = bodyOf(first.response);
      await ask(`${url}/release`, { headers: { "x-at": `${first.endUs}`, "x-id": first.id }, agent });
      await ended;
    }
  };
  for (const [index, { atUs, path, headers }] of requests.entries()) {
    await endUntil(atUs);
    const id = `${path}-${index}`;
    const response = await responseTo(`${url}${path}`, { ...headers, "x-at": `${atUs}`, "x-hold": id });
    const status = response.statusCode ?? 0;
    const answer = { status, headers: response.headers as Record<string, string>, body: "" };
    if (status === 200) {
      const sleptUs = Number(answer.headers["x-slept-ms"] ?? 0) * 1000;
      const endUs = atUs + sleptUs + durationUs;
      const place = lasting.findIndex((other) => other.endUs > endUs);
      lasting.splice(place < 0 ? lasting.length : place, 0, { endUs, id, response });
      answers.push(answer);
    } else {
      answers.push({ ...answer, body: await bodyOf(response) });
    }
  }
  await endUntil(Number.POSITIVE_INFINITY);
  return answers;
}

async function responseTo(url: string, headers: Record<string, string>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { headers, agent });
    outgoing.on("response", resolve);
    outgoing.on("error", reject);
    outgoing.end();
  });
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  let body = "";
  response.setEncoding("utf8");
  for await (const text of response) body += text;
  return body;
}
