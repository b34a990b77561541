// Clients send by drops, or nothing, or more than anybody reads: none holds a connection for long.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import {
  adminToken,
  gatewayToken,
  onePerSecond,
  type Running,
  sharedControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

const httpTimes = { headersMs: 300, requestMs: 600, silenceMs: 900, keepAliveMs: 400, checkEveryMs: 50 };
/** What the control plane does not cut by itself stays for 90 s. */
const soonMs = 45_000;
const put = "PUT /api/v1/apps/default/policies/p HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
const withToken = `authorization: Bearer ${adminToken}\r\n`;

const hurried = sharedControlPlane({}, { httpTimes });
const patient = sharedControlPlane({}, { httpTimes: { ...httpTimes, silenceMs: 5_000 } });
/** Its times are so long that only the answer itself closes a connection. */
const usual = sharedControlPlane();

setFlagsFromString("--expose-gc");
/** What nobody holds any more is not counted as memory. A busy process collects it late. */
const collectGarbage = runInNewContext("gc") as () => void;

interface Talk {
  readonly socket: Socket;
  received(): string;
  /** Milliseconds for which the server kept the connection. */
  readonly closed: Promise<number>;
}

function talk({ url }: Running, text = ""): Talk {
  const began = performance.now();
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  onFinished(() => void socket.destroy());
  let received = "";
  socket.on("data", (data) => (received += data.toString()));
  socket.on("error", () => undefined);
  if (text !== "") socket.write(text);
  const closed = once(socket, "close").then(() => performance.now() - began);
  return { socket, received: () => received, closed };
}

/** Sends the text every 50 ms for as long as the socket is writable. */
function drip({ socket }: Talk, text = " "): void {
  const timer = setInterval(() => socket.writable && socket.write(text), 50);
  socket.on("close", () => clearInterval(timer));
  onFinished(() => clearInterval(timer));
}

describe("a client that", () => {
  beside("is disabled before its body is there changes nothing", async () => {
    const running = usual();
    await running.call("POST", "/members", { body: { name: "ann", roles: { default: "editor" } } });
    const { token } = (await running.call("POST", "/tokens", { body: { name: "laptop", member: "ann" } })).body;
    const body = JSON.stringify(onePerSecond);
    const path = "/apps/default/policies/late";
    const slow = talk(
      running,
      `${put.replace("/p ", "/late ")}authorization: Bearer ${token}\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n{`,
    );
    // By now the member was identified. On a machine that is too busy for that, the member is refused then, with the same answer.
    await sleep(500);
    await running.call("PATCH", "/members/ann", { body: { disabled: true } });
    slow.socket.write(body.slice(1));
    await slow.closed;
    expect(slow.received()).toMatch(/^HTTP\/1\.1 401 .*"detail":"The member to whom the token belongs is disabled\."/s);
    expect((await running.call("GET", path)).status).toBe(404);
  });

  beside("sends its body by drops is answered 408, and cut", async () => {
    const running = hurried();
    const slow = talk(running, `${put}${withToken}content-length: 1000\r\n\r\n{`);
    drip(slow);
    expect(await slow.closed).toBeLessThan(soonMs);
    expect(slow.received()).toMatch(/^HTTP\/1\.1 408 .*"code":"request-timeout"/s);
    // Another client is not affected.
    expect((await running.call("PUT", "/apps/default/policies/p", { body: onePerSecond })).status).toBe(201);
  });

  beside("sends its chunks by drops is answered 408, and cut", async () => {
    const running = hurried();
    const slow = talk(running, `${put}${withToken}transfer-encoding: chunked\r\n\r\n`);
    drip(slow, "1\r\n \r\n");
    expect(await slow.closed).toBeLessThan(soonMs);
    expect(slow.received()).toMatch(/^HTTP\/1\.1 408 /);
  });

  beside("sends its headers by drops is answered 408, and cut", async () => {
    const slow = talk(hurried(), "GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: ");
    drip(slow, "a");
    expect(await slow.closed).toBeLessThan(soonMs);
    expect(slow.received()).toMatch(/^HTTP\/1\.1 408 /);
  });

  beside("says nothing at all is cut", async () => {
    expect(await talk(hurried()).closed).toBeLessThan(soonMs);
  });

  beside("says nothing after its answer is cut", async () => {
    const idle = talk(hurried(), "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    expect(await idle.closed).toBeLessThan(soonMs);
    expect(idle.received()).toMatch(/^HTTP\/1\.1 200 /);
  });

  beside("waits for gateways, as it may, is not cut for its silence", async () => {
    const running = patient();
    await connectGateway(running, "never-applies");
    const { status, body } = await running.call("PUT", "/apps/default/policies/p?wait=2s", { body: onePerSecond });
    expect([status, body.applied]).toEqual([201, { gateways: 1, acked: 0, refused: 0 }]);
  });

  beside("is a gateway and has nothing to send keeps its socket", async () => {
    const running = hurried();
    const gateway = await connectGateway(running, "quiet");
    let isClosed = false;
    void gateway.closed.then(() => (isClosed = true));
    // Nothing else shows that it stays. A busy machine cuts it no earlier.
    await sleep(2 * httpTimes.silenceMs);
    expect(isClosed).toBe(false);
  });

  beside.each([
    ["no token", put, 401],
    ["an unknown token", `${put}authorization: Bearer nobody-knows-this-one\r\n`, 401],
    ["a gateway's token", `${put}authorization: Bearer ${gatewayToken}\r\n`, 403],
    ["a method that the URL does not have", put.replace("PUT", "PATCH") + withToken, 405],
    ["a URL that there is not", put.replace("/api/v1/apps", "/nowhere"), 404],
    ["a media type that nobody reads", put.replace("json", "xml") + withToken, 415],
  ])("comes with %s and a large body is answered, and its body is not waited for", async (_, head, status) => {
    const running = usual();
    for (const body of ["content-length: 100000000", "transfer-encoding: chunked"]) {
      const client = talk(running, `${head}${body}\r\n\r\n`);
      drip(client, body.startsWith("t") ? "1\r\n \r\n" : " ");
      expect(await client.closed).toBeLessThan(soonMs);
      expect(client.received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(client.received().toLowerCase()).toContain("connection: close");
    }
  });

  // Node has a buffer for each chunk: those of one body took 45 MB.
  beside.each([
    ["its body for nobody", "GET /nothing HTTP/1.1\r\nhost: x\r\n"],
    ["its sign-in", "POST /api/v1/session HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"],
    ["its list of networks", `${put.replace("policies/p", "networks/n").replace("json", "text")}${withToken}`],
  ])("sends %s in chunks of one byte is cut", async (_, head) => {
    const client = talk(usual(), `${head}transfer-encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(260_000)}`);
    expect(await client.closed).toBeLessThan(soonMs);
    const metrics = await (await fetch(`${usual().url}/metrics`)).text();
    expect(metrics).toMatch(/^sluice_control_connections_cut_total\{reason="chunks"\} [1-9]/m);
  });

  it("sends a sign-in in chunks of one byte is told why it is cut", async () => {
    const head = "POST /api/v1/session HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    const client = talk(usual(), `${head}transfer-encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(200)}`);
    expect(await client.closed).toBeLessThan(soonMs);
    expect(client.received()).toMatch(/^HTTP\/1\.1 400 .*chunks that are too small/s);
  });

  beside("announces more than 256 KiB is answered 413 before it sends them", async () => {
    const client = talk(usual(), `${put}${withToken}content-length: 262145\r\n\r\n`);
    expect(await client.closed).toBeLessThan(soonMs);
    expect(client.received()).toMatch(/^HTTP\/1\.1 413 /);
  });

  // Bodies of 8 MB do not fit the kernel's buffers for a connection, so the client is still writing when it is answered.
  it.each([
    ["more than 256 KiB", withToken, 413],
    ["a body without a token", "", 401],
  ])("sends %s reads its answer, and gets no reset, also if it sends everything first", async (_, token, status) => {
    const running = usual();
    const body = Buffer.alloc(8_000_000, " ");
    for (let i = 0; i < 10; i++) {
      const client = talk(running, `${put}${token}content-length: ${body.length}\r\n\r\n`);
      let failure: unknown;
      client.socket.on("error", (error) => (failure = error));
      const sent = new Promise((resolve) => client.socket.write(body, resolve));
      await Promise.race([sent, client.closed]);
      client.socket.end();
      expect(await client.closed).toBeLessThan(soonMs);
      expect([client.received().slice(0, 12), failure]).toEqual([`HTTP/1.1 ${status}`, undefined]);
    }
  });

  it("sends while the control plane is busy for longer than it waits for a silent client gets no reset either", async () => {
    const client = talk(usual(), `${put}content-length: 30000000\r\n\r\n`);
    const failures: unknown[] = [];
    client.socket.on("error", (error) => failures.push(error));
    client.socket.write(Buffer.alloc(30_000_000, " "));
    await untilPasses(() => expect(client.received()).toContain("HTTP/1.1 401"));
    expect(client.socket.writableLength).toBeGreaterThan(0);
    // Both ends are in this process.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
    client.socket.end();
    expect(await client.closed).toBeLessThan(soonMs);
    expect(failures).toEqual([]);
  });

  it("goes on sending for ever after its answer is cut", async () => {
    const client = talk(usual(), `${put}content-length: 100000000000\r\n\r\n`);
    const block = Buffer.alloc(65_536, " ");
    const sendOn = () => client.socket.writable && client.socket.write(block, sendOn);
    sendOn();
    expect(await client.closed).toBeLessThan(soonMs);
    expect(client.received()).toMatch(/^HTTP\/1\.1 401 /);
  });

  it("comes without a token and without a body keeps its connection", async () => {
    const running = usual();
    const client = talk(running);
    for (let i = 1; i <= 2; i++) {
      client.socket.write("GET /api/v1/apps HTTP/1.1\r\nhost: x\r\n\r\n");
      await untilPasses(() => expect(client.received().split("HTTP/1.1 401 ").length).toBe(i + 1));
    }
    expect(client.received().toLowerCase()).not.toContain("connection: close");
  });
});

const upgrade =
  "host: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

it.each([
  ["with a token have 64 MiB of memory at most", `${put}${withToken}content-length: ${256 * 1024}`, 110, "bodies-busy"],
  [
    "without one send no more than a sign-in",
    "POST /api/v1/session HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked",
    60,
    "body-too-large",
  ],
])("many clients that keep back the end of a body, %s, and keep nobody out", async (_, head, mostMb, code) => {
  const { url } = usual();
  const clients: Talk[] = [];
  const body = Buffer.concat([
    Buffer.from(head.endsWith("chunked") ? "40000\r\n" : ""),
    Buffer.alloc(256 * 1024 - 1, " "),
  ]);
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 600; i++) {
    const client = talk(usual(), `${head}\r\n\r\n`);
    await new Promise((resolve) => client.socket.write(body, resolve));
    clients.push(client);
  }
  const refused = () => clients.filter(({ received }) => received().includes(`"code":"${code}"`));
  await untilPasses(() => expect(refused().length).toBeGreaterThan(300));
  await untilPasses(() => {
    collectGarbage();
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(mostMb * 1_048_576);
  });
  const signIn = await fetch(`${url}/api/v1/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token: adminToken }),
  });
  expect(signIn.status).toBeLessThan(300);
  for (const { socket } of clients) socket.destroy();
});

describe("an upgrade to WebSocket", () => {
  it.each([
    ["GET /healthz", "", 200],
    ["GET /api/v1/apps", withToken, 200],
    ["GET /api/v1/apps", "", 401],
    ["GET /nowhere", "", 404],
    ["GET /api/v1/apps/%zz", withToken, 400],
    ["POST /api/v1/apps/default/bans", withToken, 400],
    ["GET /openapi.json", "", 200],
  ])("of what is no socket is answered as HTTP: %s", async (line, token, status) => {
    const client = talk(usual(), `${line} HTTP/1.1\r\n${upgrade}${token}content-length: 0\r\n\r\n`);
    await untilPasses(() => expect(client.received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `)));
    client.socket.end();
    await client.closed;
    expect(client.received()).not.toContain("101 Switching");
  });

  it("of the push socket to another protocol is answered with what the URL is for", async () => {
    const gateway = `authorization: Bearer ${gatewayToken}\r\n`;
    const h2c = upgrade.replace("upgrade: websocket", "upgrade: h2c");
    const client = talk(usual(), `GET /api/v1/push HTTP/1.1\r\n${h2c}${gateway}\r\n`);
    await untilPasses(() => expect(client.received()).toMatch(/^HTTP\/1\.1 426 /));
  });
});
