// What a request costs whose policy counts the bytes of its body: with a body, without one, and where nginx does not know.

import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const quota = 10_000;
const unknown = 1000;

let gateway: LoneGateway;
let http2Port: number;
beforeAll(async () => {
  [http2Port] = (await freePorts(1)) as [number];
  const limits = [{ algorithm: "fixed-window", quota, window: "366d" }];
  const cost = { from: "request-bytes", default: unknown };
  gateway = await LoneGateway.start({
    policies: [{ name: "bytes", key: ["header:x-client"], limits, cost }],
    edit: (config) => config.replace(/listen .*/, (line) => `${line} listen 127.0.0.1:${http2Port} http2;`),
  });
});
afterAll(() => gateway?.stop());

let clients = 0;
/** Returns a client whose counter nobody has used. */
function newClient(): string {
  clients += 1;
  return `client-${clients}`;
}
const costBy = (remaining: unknown) => quota - Number(remaining);

async function costOfHttp1(begin: string, lines: readonly string[] = [], body = ""): Promise<number> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  const head = [begin, "Host: x", "Connection: close", `X-Client: ${newClient()}`, ...lines];
  socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
  return costBy(/^X-RateLimit-Remaining: (\d+)/im.exec(await text(socket))?.[1]);
}

async function costOfHttp2(method: string, headers: Record<string, string> = {}, body?: string): Promise<number> {
  const session = connectHttp2(`http://127.0.0.1:${http2Port}`);
  try {
    const endStream = body === undefined;
    const head = { ":method": method, ":path": "/", "x-client": newClient(), ...headers };
    const stream = session.request(head, { endStream });
    if (!endStream) stream.end(body);
    const [answer] = await once(stream, "response");
    return costBy(answer["x-ratelimit-remaining"]);
  } finally {
    session.destroy();
  }
}

describe.each(["HTTP/1.1", "HTTP/1.0"])("by %s", (version) => {
  it.each(["GET", "HEAD", "DELETE", "OPTIONS", "POST"])("%s without a body costs 1", async (method) => {
    expect(await costOfHttp1(`${method} / ${version}`)).toBe(1);
    expect(await costOfHttp1(`${method} / ${version}`, ["Content-Length: 0"])).toBe(1);
  });

  it.each(["POST", "GET"])("%s with a body costs its bytes", async (method) => {
    expect(await costOfHttp1(`${method} / ${version}`, ["Content-Length: 10"], "0123456789")).toBe(10);
  });
});

it.each(["POST", "GET"])("a chunked body of %s costs the default, also if it is empty", async (method) => {
  const chunked = ["Transfer-Encoding: chunked"];
  expect(await costOfHttp1(`${method} / HTTP/1.1`, chunked, "3\r\nabc\r\n0\r\n\r\n")).toBe(unknown);
  expect(await costOfHttp1(`${method} / HTTP/1.1`, chunked, "0\r\n\r\n")).toBe(unknown);
});

describe("by HTTP/2", () => {
  it("a body costs what Content-Length says", async () => {
    expect(await costOfHttp2("POST", { "content-length": "10" }, "0123456789")).toBe(10);
    expect(await costOfHttp2("POST", { "content-length": "0" })).toBe(1);
    expect(await costOfHttp2("GET", { "content-length": "0" })).toBe(1);
  });

  it("a request without Content-Length costs the default, because nginx does not tell whether it has a body", async () => {
    expect(await costOfHttp2("POST", {}, "0123456789")).toBe(unknown);
    expect(await costOfHttp2("GET", {}, "0123456789")).toBe(unknown);
    expect(await costOfHttp2("GET")).toBe(unknown);
  });
});
