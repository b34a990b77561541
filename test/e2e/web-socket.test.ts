// Tests that a WebSocket passes through nginx.conf, and that its handshake is a request like any other for Sluice.

import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

/** Echoes the messages of a WebSocket, and answers any other request with the headers that it got. */
const service = createServer(({ headers }, response) => response.end(JSON.stringify(headers)));
const sockets = new WebSocketServer({ server: service });
sockets.on("connection", (socket) => socket.on("message", (message) => socket.send(`echo ${message}`)));

let gateway: LoneGateway;
beforeAll(async () => {
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  gateway = await LoneGateway.start({
    policies: [
      {
        name: "handshakes",
        match: { paths: ["/handshakes"] },
        limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
      },
      { name: "at-once", match: { paths: ["/at-once"] }, limits: [{ algorithm: "concurrency", quota: 1 }] },
    ],
    env: { SLUICE_UPSTREAM: `http://127.0.0.1:${(service.address() as AddressInfo).port}` },
  });
});
afterAll(async () => {
  sockets.close();
  service.close();
  service.closeAllConnections();
  await gateway?.stop();
});

/** @returns the open socket, or the status of the answer that refused it */
function open(path: string): Promise<WebSocket | number> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${gateway.url.replace("http", "ws")}${path}`);
    socket.on("open", () => resolve(socket));
    socket.on("unexpected-response", (_request, { statusCode = 0 }) => resolve(statusCode));
    socket.on("error", reject);
  });
}

async function opened(path: string): Promise<WebSocket> {
  const socket = await open(path);
  expect(socket).toBeInstanceOf(WebSocket);
  return socket as WebSocket;
}

function echo(socket: WebSocket, message: string): Promise<string> {
  return new Promise((resolve) => {
    socket.once("message", (answer) => resolve(`${answer}`));
    socket.send(message);
  });
}

async function close(socket: WebSocket): Promise<void> {
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.close();
  await closed;
}

it("carries messages both ways", async () => {
  const socket = await opened("/free");
  expect(await echo(socket, "one")).toBe("echo one");
  expect(await echo(socket, "two")).toBe("echo two");
  await close(socket);
});

it("counts a handshake as one request, and its messages not at all", async () => {
  const socket = await opened("/handshakes");
  for (const message of ["one", "two", "three"]) expect(await echo(socket, message)).toBe(`echo ${message}`);
  expect(await open("/handshakes")).toBe(429);
  await close(socket);
});

it("holds a slot of concurrency until the connection ends", async () => {
  const socket = await opened("/at-once");
  expect(await open("/at-once")).toBe(429);
  expect(await echo(socket, "still here")).toBe("echo still here");
  await close(socket);
  await until("the slot is free again", async () => {
    const answer = await open("/at-once");
    if (answer instanceof WebSocket) await close(answer);
    return answer instanceof WebSocket;
  });
});

it("passes no upgrade to another protocol, whose requests Sluice would not see", async () => {
  const headers = { connection: "upgrade, http2-settings", upgrade: "h2c", "http2-settings": "AAMAAABkAAQAAP__" };
  const received: IncomingHttpHeaders = JSON.parse((await ask(`${gateway.url}/free`, { headers })).body);
  expect(received.upgrade).toBeUndefined();
  expect(received.connection ?? "").not.toMatch(/upgrade/i);
});

it("keeps connections to the service open for requests that are no WebSocket", async () => {
  const received: IncomingHttpHeaders = JSON.parse((await ask(`${gateway.url}/free`)).body);
  expect(received.upgrade).toBeUndefined();
  expect(received.connection).not.toBe("close");
});
