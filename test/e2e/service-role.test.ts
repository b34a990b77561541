// A gateway in the role of a service: it has no upstream, and answers the check API on loopback, by TLS and by a unix socket.

import { readFileSync } from "node:fs";
import { Agent, request as requestPlain } from "node:http";
import { type RequestOptions, request as requestTls, Agent as TlsAgent } from "node:https";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { requireFreeSocket } from "../../launch/socket-file.ts";
import { callerOf, check, post } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";

const tls = resolve(import.meta.dirname, "../fixtures/tls");
const shop = { app: "default", token: "a-token-of-the-shop" };
const bank = { app: "default", token: "a-token-of-the-bank" };
const callers = [
  { ...callerOf(shop), name: 'shop "east"' },
  { ...callerOf(bank), name: "bank" },
];
const policyOf = (scope: string) => ({
  name: scope,
  scope,
  key: ["header:x-key"],
  limits: [{ algorithm: "fixed-window", quota: 1000, window: "366d" }],
});
const policies = [policyOf("node"), policyOf("cluster")];
const role = { SLUICE_ROLE: "service" };

let gateway: LoneGateway | undefined;
let redis: RedisServer | undefined;
let proxy: TcpProxy | undefined;
afterEach(async () => {
  await gateway?.stop();
  await redis?.stop();
  await proxy?.refuse();
  [gateway, redis, proxy] = [undefined, undefined, undefined];
});

async function startRedis(): Promise<string> {
  redis = new RedisServer(await freePort());
  await redis.start();
  return redis.url;
}

interface Heard {
  readonly status: number;
  readonly body: string;
}

/** Asks one check over this connection. */
function askBy(send: typeof requestPlain | typeof requestTls, options: RequestOptions, key: string): Promise<Heard> {
  const headers = { authorization: `Bearer ${shop.token}`, "content-type": "application/json" };
  return new Promise((answered, failed) => {
    const sent = send({ method: "POST", path: "/sluice/v1/check", headers, ...options }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      answered({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
    });
    sent.on("error", failed);
    sent.end(JSON.stringify({ checks: [{ policy: "node", key: [key] }] }));
  });
}

it("answers on loopback without a public listener or an upstream", async () => {
  gateway = await LoneGateway.start({ policies, callers, env: { ...role, SLUICE_UPSTREAM: "" } });
  expect(await check(gateway.privateUrl, shop, [{ policy: "node", key: ["a"] }])).toMatchObject({ allowed: true });
  await expect(ask(gateway.url)).rejects.toThrow();
  for (const path of ["/sluice/v1/", "/sluice/v1/checks", "/sluice/v1/check/", "/sluice/v1/toString"]) {
    expect((await ask(`${gateway.privateUrl}${path}`)).status).toBe(404);
  }
});

it("answers by a unix socket, also after a kill that has left the socket's file", async () => {
  const socketPath = join(makeMemoryDir("socket"), "check.sock");
  gateway = await LoneGateway.start({ policies, callers, env: { ...role, SLUICE_CHECK_SOCKET: socketPath } });
  expect(await askBy(requestPlain, { socketPath }, "s")).toMatchObject({ status: 200 });
  await expect(requireFreeSocket(socketPath)).rejects.toThrow("at which another process listens");

  const { pid } = gateway;
  const workers = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  for (const killed of [pid, ...workers.map(Number)]) process.kill(killed, "SIGKILL");
  await until("the end of nginx", () => gateway?.ended === true);
  await until("nobody listens", () =>
    requireFreeSocket(socketPath).then(
      () => true,
      () => false,
    ),
  );
  await gateway.restart();
  expect(await askBy(requestPlain, { socketPath }, "s")).toMatchObject({ status: 200 });
});

it("answers by TLS to those who trust its certificate, and shows no metrics there", async () => {
  const port = await freePort();
  const env = {
    ...role,
    SLUICE_CHECK_TLS_PORT: `${port}`,
    SLUICE_CHECK_TLS_CERTIFICATE: join(tls, "localhost.pem"),
    SLUICE_CHECK_TLS_KEY: join(tls, "localhost.key"),
  };
  gateway = await LoneGateway.start({ policies, callers, env });
  const agent = new TlsAgent({ ca: readFileSync(join(tls, "authority.pem")) });
  const options = { host: "127.0.0.1", port, servername: "localhost", agent };
  expect(await askBy(requestTls, options, "t")).toMatchObject({ status: 200 });
  expect(await askBy(requestTls, { ...options, path: "/sluice/metrics" }, "t")).toMatchObject({ status: 404 });
  await expect(askBy(requestTls, { ...options, agent: new TlsAgent() }, "t")).rejects.toThrow(/certificate/);
  agent.destroy();
});

it.each(["node", "cluster"])(
  "answers a hundred pipelined requests of scope %s in their order, on one connection",
  async (scope) => {
    gateway = await LoneGateway.start({ policies, callers, env: { ...role, SLUICE_REDIS_URL: await startRedis() } });
    const requests = Array.from({ length: 100 }, (_, i) => {
      const body = JSON.stringify({ checks: [{ policy: scope, key: ["one"], cost: i + 1 }] });
      return `POST /sluice/v1/check HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    });
    const socket = connect(Number(new URL(gateway.privateUrl).port), "127.0.0.1");
    let heard = "";
    let closed = false;
    socket.setEncoding("utf8").on("data", (text: string) => {
      heard += text;
    });
    socket.on("close", () => {
      closed = true;
    });
    socket.write(requests.join(""));
    const remaining = () => [...heard.matchAll(/"remaining":(\d+)/g)].map(([, figure]) => Number(figure));
    await until("a hundred answers", () => remaining().length === 100);
    // 1000 units are enough for costs of 1 to 44; a refusal says what is left.
    let left = 1000;
    const expected = requests.map((_, i) => {
      if (i + 1 <= left) left -= i + 1;
      return left;
    });
    expect(remaining()).toEqual(expected);
    expect(closed).toBe(false);
    socket.destroy();
  },
);

it("has places for checks of an app when another app has taken SLUICE_MAX_CHECKS", async () => {
  const sales = { app: "sales", token: "a-token-of-sales" };
  proxy = await TcpProxy.start(Number(new URL(await startRedis()).port));
  const env = { ...role, SLUICE_MAX_CHECKS: "8", SLUICE_REDIS_URL: proxy.url, SLUICE_REDIS_DEADLINE_MS: "20000" };
  const otherPolicies = { sales: [policyOf("cluster")] };
  gateway = await LoneGateway.start({ policies, otherPolicies, callers: [...callers, callerOf(sales)], env });
  const { privateUrl } = gateway;
  const body = JSON.stringify({ checks: [{ policy: "cluster", key: ["busy"] }] });
  await post(privateUrl, shop, body);
  proxy.delayMs = 3_000;
  const ofShop = Array.from({ length: 20 }, () => post(privateUrl, shop, body));
  // Those that are turned away are answered before Redis is.
  expect((await Promise.race(ofShop)).status).toBe(503);
  expect((await post(privateUrl, sales, body)).status).toBe(200);
  const answers = await Promise.all(ofShop);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(8);
});

it("turns callers away with 503 beyond SLUICE_MAX_CHECKS, charges them nothing, and takes others when those before have ended or left", async () => {
  proxy = await TcpProxy.start(Number(new URL(await startRedis()).port));
  const env = { ...role, SLUICE_MAX_CHECKS: "5", SLUICE_REDIS_URL: proxy.url, SLUICE_REDIS_DEADLINE_MS: "20000" };
  gateway = await LoneGateway.start({ policies, callers, env });
  const { privateUrl } = gateway;
  const body = JSON.stringify({ checks: [{ policy: "cluster", key: ["busy"] }] });
  await check(privateUrl, shop, [{ policy: "cluster", key: ["busy"] }]);

  // In this time, all of them come.
  proxy.delayMs = 3_000;
  const answers = await Promise.all(Array.from({ length: 40 }, () => post(privateUrl, shop, body)));
  const turnedAway = answers.filter(({ status }) => status === 503);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
  expect(turnedAway).toHaveLength(35);
  expect(turnedAway[0]?.headers["retry-after"]).toBe("1");
  expect(JSON.parse(turnedAway[0]?.body ?? "")).toMatchObject({ code: "overloaded", status: 503 });

  // Those that leave make room, too.
  const leaving = new Agent();
  const headers = { authorization: `Bearer ${shop.token}`, "content-type": "application/json" };
  const sent = { method: "POST", headers, body, agent: leaving };
  const left = Array.from({ length: 5 }, () => ask(`${privateUrl}/sluice/v1/check`, sent).catch(() => undefined));
  const beside: Promise<unknown>[] = [];
  await until("there is no room", () => {
    const one = post(privateUrl, shop, body);
    beside.push(one);
    // One that finds room is not answered soon.
    return Promise.race([one.then(({ status }) => status === 503), sleep(200).then(() => false)]);
  });
  // A check of scope node needs no Redis, and is decided meanwhile.
  const mixed = [
    { policy: "node", key: ["a"] },
    { policy: "cluster", key: ["a"] },
  ];
  expect((await check(privateUrl, shop, mixed.slice(0, 1))).allowed).toBe(true);
  expect((await post(privateUrl, shop, JSON.stringify({ checks: mixed }))).status).toBe(503);
  leaving.destroy();
  await Promise.all([...left, ...beside]);
  await until("room again", async () => (await post(privateUrl, shop, body)).status === 200);
});

it("counts decisions by caller", async () => {
  gateway = await LoneGateway.start({ policies, callers, env: role });
  const { privateUrl } = gateway;
  const key = ["counted"];
  await check(privateUrl, shop, [{ policy: "node", key, cost: 600 }]);
  await check(privateUrl, shop, [{ policy: "node", key, cost: 600 }]);
  await check(privateUrl, shop, [{ policy: "node", key, cost: 600, peek: true }]);
  await check(privateUrl, bank, [
    { policy: "node", key },
    { policy: "node", key: ["other"] },
  ]);
  const series = async () => {
    const { body } = await ask(`${privateUrl}/sluice/metrics`);
    return body
      .split("\n")
      .filter((line) => line.startsWith("sluice_check_decisions_total{"))
      .sort();
  };
  await until("four series", async () => (await series()).length === 4);
  expect(await series()).toEqual([
    'sluice_check_decisions_total{app="default",caller="bank",result="allowed"} 2',
    'sluice_check_decisions_total{app="default",caller="bank",result="refused"} 0',
    'sluice_check_decisions_total{app="default",caller="shop \\"east\\"",result="allowed"} 1',
    'sluice_check_decisions_total{app="default",caller="shop \\"east\\"",result="refused"} 1',
  ]);
});
