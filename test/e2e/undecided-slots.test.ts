// A request holds its slots of concurrency from its charge on, although others have not decided it yet: its client may take as long as it
// likes to send a form, and `onLimit: delay` or a leaky-bucket may have it wait longer than slots live.

import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { callerOf } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until } from "../fixtures/until.ts";

const shop = { app: "default", token: "a-token-of-the-shop" };
/** How long the slots live: what waits, waits for longer than that. */
const lifeMs = 1_000;

/** Of requests that the gateway has not marked as over the limit. */
let [running, most] = [0, 0];
const service = createServer((request, response) => {
  request.resume();
  if (request.url === "/free" || request.headers["x-over"] !== undefined) return void response.end("at once");
  running += 1;
  most = Math.max(most, running);
  response.on("close", () => {
    running -= 1;
  });
  setTimeout(() => response.end("done"), 2 * lifeMs);
});

const slots = { name: "slots", algorithm: "concurrency", quota: 1, ttl: `${lifeMs}ms` };
const at = (path: string) => ({ match: { paths: [path] }, key: [] });
const hours = { name: "hours", algorithm: "fixed-window", quota: 1_000, window: "1h" };
const tag = { action: "tag", header: "x-over: 1" };
const forms = [
  ["on this node", "/node", {}],
  ["in the fleet, where those over the limit are marked", "/fleet", { scope: "cluster", onLimit: tag }],
  ["on this node, beside a rate", "/beside", { limits: [slots, hours] }],
] as const;
const lost = [
  ["/lost-marked", tag],
  ["/lost-refused", { action: "delay", maxDelay: "1ms" }],
] as const;
const policies = [
  ...forms.flatMap(([, path, more]) => [
    { name: `a${path.slice(1)}`, ...at(path), limits: [slots], ...more },
    { name: `b${path.slice(1)}`, ...at(path), key: ["form:user"], limits: [hours] },
  ]),
  ...lost.flatMap(([path, onLimit]) => [
    { name: path.slice(1), ...at(path), scope: "cluster", limits: [slots], onLimit },
    { name: `z-${path.slice(1)}-form`, ...at(path), key: ["form:user"], limits: [hours] },
  ]),
  ...Array.from({ length: 9 }, (_, i) => ({ name: `a-many-${i}`, ...at("/many"), limits: [slots] })),
  { name: "b-many", ...at("/many"), key: ["form:user"], limits: [hours] },
  { name: "a-slots", ...at("/delayed"), limits: [slots] },
  {
    name: "b-delay",
    match: { paths: ["/delayed", "/free"] },
    key: [],
    limits: [{ algorithm: "token-bucket", quota: 1, window: "3s", burst: 1 }],
    onLimit: { action: "delay", maxDelay: "60s" },
  },
  {
    name: "turns",
    ...at("/nowhere"),
    limits: [slots, { name: "turns", algorithm: "leaky-bucket", quota: 1, window: "3s" }],
  },
];

let redis: RedisServer;
let gateway: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  const { port } = service.address() as AddressInfo;
  const env = {
    SLUICE_UPSTREAM: `http://127.0.0.1:${port}`,
    SLUICE_REDIS_URL: redis.url,
    SLUICE_REDIS_DEADLINE_MS: "2000",
  };
  gateway = await LoneGateway.start({ policies, callers: [callerOf(shop)], env });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
  service.closeAllConnections();
  service.close();
});
afterEach(() => until("nothing runs", () => running === 0));

interface Sender {
  readonly socket: Socket;
  answer: string;
}

/** Sends a form but for its last byte. */
function begin(path: string): Sender {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1").on("error", () => {});
  const sender: Sender = { socket, answer: "" };
  socket.setEncoding("utf8").on("data", (text: string) => {
    sender.answer += text;
  });
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
  socket.write(`${head}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 8\r\n\r\nuser=an`);
  return sender;
}

const send = (path: string) =>
  ask(gateway.url + path, {
    method: "POST",
    body: "user=ann",
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
const stored = (keys: readonly string[]) =>
  Promise.all(keys.map(async (key) => String(await redis.command("dump", key))));
const statusOf = ({ answer }: Sender) => Number(answer.split(" ")[1] ?? 0);

describe.each(forms)("slots %s", (_, path, more) => {
  /** What a request gets that is over the limit. */
  const over = "onLimit" in more ? { status: 200, body: "at once" } : { status: 429 };

  it("are a request's whose form comes slowly, and nobody else's", async () => {
    most = 0;
    const senders: Sender[] = [];
    for (let i = 0; i < 3; i++) {
      senders.push(begin(path));
      await sleep(1.2 * lifeMs);
    }
    expect(await send(path)).toMatchObject(over);
    for (const { socket } of senders) socket.write("n");
    await until("all are answered", () => senders.every((sender) => statusOf(sender) > 0));
    expect(senders.map(statusOf)).toEqual([200, over.status, over.status]);
    expect(most).toBe(1);
  });

  it("are free at once when a client leaves before its form has come", async () => {
    const leaving = begin(path);
    await sleep(1.2 * lifeMs);
    leaving.socket.destroy();
    await sleep(0.3 * lifeMs);
    expect(await send(path)).toMatchObject({ status: 200, body: "done" });
  });
});

it.each([
  ["marked", "/lost-marked", { status: 200, body: "at once" }],
  ["refused", "/lost-refused", { status: 429 }],
] as const)(
  "a request whose slot was reset, and is somebody else's by now, is %s",
  async (_, path, { status, ...more }) => {
    const waiting = begin(path);
    await sleep(0.5 * lifeMs);
    const keys = (await redis.command("keys", `*${path.slice(1)}*`)) as string[];
    expect(keys).toHaveLength(1);
    // If it were renewed between the reset and the other's request, it would have its slot again.
    const [taken] = await stored(keys);
    await until("its slot is renewed", async () => (await stored(keys))[0] !== taken);
    // As an operator's reset does.
    await redis.command("del", ...keys);
    const other = begin(path);
    await sleep(lifeMs);
    waiting.socket.write("n");
    await until("it is answered", () => statusOf(waiting) > 0);
    expect(statusOf(waiting)).toBe(status);
    if ("body" in more) expect(waiting.answer).toContain(more.body);
    other.socket.write("n");
    await until("the other is answered", () => other.answer.includes("done"));
  },
);

it("a request of many policies takes nothing until its form has come", async () => {
  const slow = begin("/many");
  await sleep(0.5 * lifeMs);
  expect(await send("/many")).toMatchObject({ status: 200, body: "done" });
  await sleep(0.3 * lifeMs);
  slow.socket.write("n");
  await until("it is answered", () => statusOf(slow) > 0);
  expect(slow.answer).toContain("done");
});

it("slots are a request's that is delayed, and nobody else's", async () => {
  most = 0;
  // It takes the unit that is there.
  await ask(`${gateway.url}/free`);
  const first = ask(`${gateway.url}/delayed`);
  await sleep(1.3 * lifeMs);
  expect((await ask(`${gateway.url}/delayed`)).status).toBe(429);
  expect((await first).status).toBe(200);
  expect(most).toBe(1);
});

it("a caller that holds slots has waited for its turn with them, and holds them for a whole life from then on", async () => {
  const hold = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${shop.token}`, "content-type": "application/json" };
    const url = `${gateway.privateUrl}/sluice/v1/${path}`;
    return JSON.parse((await ask(url, { method: "POST", headers, body: JSON.stringify(body) })).body);
  };
  const request = { policy: "turns", key: [], maxWait: "20s" };
  const first = await hold("hold", request);
  expect(await hold("release", { hold: first.hold })).toEqual({ released: true });
  const second = hold("hold", request);
  await sleep(1.3 * lifeMs);
  // It waits for its turn, and has the slot meanwhile.
  expect((await hold("hold", { policy: "turns", key: [], maxWait: "1ms" })).allowed).toBe(false);
  const held = await second;
  expect(held).toMatchObject({ allowed: true, ttl: 1 });
  await sleep(0.7 * lifeMs);
  expect(await hold("renew", { hold: held.hold })).toEqual({ renewed: true, ttl: 1 });
  expect(await hold("release", { hold: held.hold })).toEqual({ released: true });
});
