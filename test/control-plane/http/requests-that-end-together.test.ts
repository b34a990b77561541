// Requests whose last bytes come at once, on very many connections: whatever is done with each is done when its turn has come.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, it } from "vitest";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import { send } from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { untilPasses } from "../../fixtures/until.ts";

const connections = 1_500;
const connectedAtOnce = 250;
/** Each computes for some tenths of a millisecond or more: all in one go would take half a second, or seconds. */
const mostTurnMs = 200;

/** @returns the longest turn, in ms of the processor, after all requests but for their last byte have come */
async function longestTurnOf(makeRequest: (url: string) => Promise<string>, status: string): Promise<number> {
  const { url, longestTurnMs } = await startMeasuredProcess();
  const text = await makeRequest(url);
  const { hostname, port } = new URL(url);
  const begun = async () => {
    const socket = connect(Number(port), hostname);
    onFinished(() => void socket.destroy());
    await once(socket, "connect");
    await new Promise((resolve) => socket.write(text.slice(0, -1), resolve));
    return socket;
  };
  const sockets: Socket[] = [];
  while (sockets.length < connections) {
    sockets.push(...(await Promise.all(Array.from({ length: connectedAtOnce }, begun))));
    // The system resets connections that wait to be accepted beyond the 511 that it keeps.
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  }
  // The control plane has read what came when it answers another request, in a turn of its own.
  await untilPasses(async () => expect((await fetch(`${url}/healthz`)).status).toBe(200));
  await longestTurnMs();
  const statuses = new Set<string | undefined>();
  await Promise.all(
    sockets.map(async (socket) => {
      const answered = once(socket, "data");
      socket.write(text.slice(-1));
      statuses.add(String((await answered)[0]).split(" ", 2)[1]);
    }),
  );
  // Others may be answered before their last bytes come.
  expect([...statuses]).toEqual([status]);
  return longestTurnMs();
}

const fields = (count: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, i])));

function post(path: string, headers: string, body: string): string {
  const head = `POST /api/v1${path} HTTP/1.1\r\nhost: x\r\n${headers}content-type: application/json\r\n`;
  return `${head}content-length: ${body.length}\r\n\r\n${body}`;
}

async function validatedByViewer(url: string): Promise<string> {
  await send(url, "PUT", "/apps/small", { body: { realm: { hosts: ["a.test"] } } });
  const { body } = await send(url, "POST", "/tokens", { body: { name: "v", app: "small", role: "viewer" } });
  return post("/apps/small/policies/validate", `authorization: Bearer ${body.token}\r\n`, fields(560));
}

const names = (separator: string) =>
  Array.from({ length: 3_900 }, (_, i) => i.toString(36))
    .join(separator)
    .slice(0, 12_000);
const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${headers}\r\n`;

it.each<[string, string, (url: string) => Promise<string>]>([
  ["have bodies of strangers", "400", async () => post("/session", "", fields(560))],
  ["have bodies of a viewer", "422", validatedByViewer],
  ["have thousands of parameters", "400", async () => get(`/healthz?${names("&")}`)],
  ["have a parameter of thousands of bytes", "200", async () => get(`/healthz?a=${"%61".repeat(5_000)}`)],
  ["have a path of thousands of bytes", "400", async () => get(`/${"%61".repeat(5_000)}`)],
  [
    "have long headers that are read early",
    "200",
    async () =>
      get("/healthz", `baggage: ${names("=1,").slice(0, 7_900)}\r\ntracestate: ${names("=1,").slice(0, 7_000)}\r\n`),
  ],
])("that %s begin in turns", async (_, status, makeRequest) => {
  const turnMs = await longestTurnOf(makeRequest, status);
  console.log(`longest turn: ${turnMs} ms`);
  expect(turnMs).toBeLessThan(mostTurnMs);
});
