// More requests would wait than a worker may hold, for units and for their turn: the next one is refused and charged nothing,
// and the others go on. test/gateway/charging/waiting-requests_spec.lua plays it with several workers and many schedules.

import { type ClientHttp2Session, connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { auth, callerOf, post } from "../fixtures/clients/check-api-client.ts";
import { ask as request } from "../fixtures/clients/requests.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until, untilPasses } from "../fixtures/until.ts";

const mostWaiting = 20;

const shop = { app: "default", token: "a-token-of-the-shop" };

const leaky = (name: string, more: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-client"],
  limits: [{ algorithm: "leaky-bucket", quota: 1, window: "60s", burst: 20, maxDelay: "1h" }],
  ...more,
});
const delayed = (name: string, window: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-client"],
  limits: [{ algorithm: "token-bucket", quota: 1, window }],
  onLimit: { action: "delay", maxDelay: "2m", maxWaiting: 1000, status: 503 },
});
const policies = [
  leaky("leaky"),
  leaky("cluster", { scope: "cluster" }),
  leaky("several"),
  {
    name: "beside",
    match: { paths: ["/several"] },
    limits: [{ algorithm: "fixed-window", quota: 1000, window: "1d" }],
  },
  leaky("marked", { onLimit: { action: "tag", header: "x-mark: over" } }),
  leaky("degraded", { onLimit: { action: "degrade", response: { status: 200, body: "cheaper" } } }),
  delayed("delayed", "60s"),
  delayed("quick", "1s"),
];

interface Answer {
  readonly status: number;
  readonly retryAfter: number;
  readonly body: string;
}

let redis: RedisServer;
/** One whose operator left `sluice.log()` out, and one as it should be. */
const gateways: Gateway[] = [];

interface Gateway {
  readonly lone: LoneGateway;
  readonly url: string;
}

beforeAll(async () => {
  const [port, ...ports] = (await freePorts(3)) as [number, number, number];
  redis = new RedisServer(port);
  await redis.start();
  const withoutLog = (config: string) => config.replace(/log_by_lua_block \{\s*sluice\.log\(\)\s*\}/, "");
  gateways.push(...(await Promise.all([start(ports[0], withoutLog), start(ports[1], (config) => config)])));
});
afterAll(async () => {
  await Promise.all(gateways.map(({ lone }) => lone.stop()));
  await redis?.stop();
});

async function start(port: number, edit: (config: string) => string): Promise<Gateway> {
  const lone = await LoneGateway.start({
    policies,
    otherPolicies: { crm: [delayed("of-another-app", "60s")] },
    callers: [callerOf(shop)],
    env: { SLUICE_MAX_WAITING: `${mostWaiting}`, SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "2000" },
    edit: (config) =>
      edit(config)
        .replace(/(listen [^;]*);/, `$1; listen 127.0.0.1:${port} http2;`)
        .replace(
          "proxy_pass http://service;",
          `content_by_lua_block { ngx.print(ngx.req.get_headers()["x-mark"] or "served") }`,
        ),
  });
  return { lone, url: `http://127.0.0.1:${port}` };
}

/** Opens one connection of a client. */
const open = ({ url }: Gateway) => connect(url).on("error", () => {});

function ask(over: ClientHttp2Session, path: string, client: string): Promise<Answer> {
  return new Promise((resolve) => {
    const stream = over.request({ ":path": path, "x-client": client });
    let [status, retryAfter, body] = [0, 0, ""];
    stream.on("response", (headers) => {
      status = Number(headers[":status"]);
      retryAfter = Number(headers["retry-after"] ?? 0);
    });
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      body += text;
    });
    stream.on("error", () => {}).on("close", () => resolve({ status, retryAfter, body }));
    stream.end();
  });
}

/** Makes as many requests wait as may, by two policies. */
async function fill(over: ClientHttp2Session): Promise<void> {
  const waiting = Array.from({ length: mostWaiting }, async (_, i) => {
    const path = i % 2 === 0 ? "/leaky" : "/delayed";
    expect((await ask(over, path, `filler-${i}`)).status).toBe(200);
    void ask(over, path, `filler-${i}`);
  });
  await Promise.all(waiting);
}

/** @returns whether a request like this waits: it is not answered soon */
const waits = (over: ClientHttp2Session, path: string, client: string) =>
  Promise.race([ask(over, path, client).then(() => false), sleep(500).then(() => true)]);

it("with and without sluice.log(), clients that go away while they wait free their turn for those behind them", () =>
  Promise.all(
    gateways.map(async (gateway) => {
      const session = open(gateway);
      expect((await ask(session, "/quick", "one")).status).toBe(200);
      const begun = performance.now();
      const leaving = open(gateway);
      void ask(leaving, "/quick", "one");
      // They come in this order. On a machine that is too busy for that, there is nothing to free, and the rest is the same.
      await sleep(100);
      const behind = ask(session, "/quick", "one");
      await sleep(100);
      leaving.destroy();
      expect(await behind).toMatchObject({ status: 200 });
      expect(performance.now() - begun).toBeGreaterThan(500);
      session.destroy();
    }),
  ));

it("with and without sluice.log(), a request beyond the bound is refused as its policy says and charged nothing, others are served, and clients that go away leave their places", () =>
  Promise.all(
    gateways.map(async (gateway, which) => {
      const { lone } = gateway;
      const session = open(gateway);
      const filling = open(gateway);
      await fill(filling);

      const refused = [
        ["/leaky", 429],
        ["/several", 429],
        ["/cluster", 429],
        ["/delayed", 503],
      ] as const;
      let refusals = 0;
      for (const [path, status] of refused) {
        // Redis has the counters of more than one gateway.
        const client = `late-${which}`;
        expect((await ask(session, path, client)).status, path).toBe(200);
        for (let i = 0; i < 3; i++) {
          // Redis has the refund of a request a moment after its answer.
          await untilPasses(async () => {
            refusals += 1;
            const answer = await ask(session, path, client);
            expect(answer, path).toMatchObject({ status });
            expect(answer.retryAfter).toBeGreaterThan(50);
            // Refused requests hold no place in the bucket; each would add a minute.
            expect(answer.retryAfter, `${path}: ${i + 1} were refused`).toBeLessThanOrEqual(60);
          });
        }
      }
      await untilPasses(async () => expect(await lone.metric("sluice_waiting_refusals_total")).toBe(refusals));
      expect(lone.log).toMatch(/requests are refused, because too many wait already: default\/leaky/);

      // An eighth more is for those of apps that have less.
      for (const client of ["one", "two"]) {
        expect((await ask(session, "/of-another-app", client)).status).toBe(200);
        expect(await waits(session, "/of-another-app", client)).toBe(true);
      }

      for (const [path, body] of [
        ["/marked", "over"],
        ["/degraded", "cheaper"],
      ] as const) {
        expect((await ask(session, path, "late")).body).toBe("served");
        for (let i = 0; i < 3; i++) expect(await ask(session, path, "late")).toMatchObject({ status: 200, body });
      }

      const check = () => auth(lone.privateUrl, shop, "policy=leaky&key=checked");
      expect((await check()).status).toBe(204);
      for (let i = 0; i < 3; i++) {
        const { status, headers } = await check();
        expect(status).toBe(429);
        expect(Number(headers["retry-after"]), `${i + 1} were refused`).toBeGreaterThan(50);
        expect(Number(headers["retry-after"]), `${i + 1} were refused`).toBeLessThanOrEqual(60);
      }

      filling.destroy();
      await until("others may wait", () => waits(session, "/leaky", `late-${which}`));
      // As many may wait as before.
      for (let i = 1; i < mostWaiting; i++) void ask(session, "/leaky", `late-${which}`);
      expect((await ask(session, "/delayed", "last")).status).toBe(200);
      await until("no more may wait", async () => (await ask(session, "/delayed", "last")).status === 503);
      session.destroy();
    }),
  ));

it.each(["auth", "check"])(
  "checks of one policy take half of the places at most, also for their turn: %s",
  async (how) => {
    const lone = await LoneGateway.start({
      callers: [callerOf(shop)],
      env: { SLUICE_MAX_WAITING: `${mostWaiting}` },
      edit: (config) => config.replace("proxy_pass http://service;", `content_by_lua_block { ngx.print("served") }`),
      policies: [
        { name: "turns", key: [], limits: [{ algorithm: "leaky-bucket", quota: 1, window: "1s", burst: 1000 }] },
        { ...delayed("site", "1s"), key: [] },
      ].map((policy) => ({ match: { paths: ["/nowhere"] }, ...policy })),
    });
    const checks = [{ policy: "turns", key: [], maxWait: "60s" }];
    const one = () =>
      how === "auth"
        ? auth(lone.privateUrl, shop, "policy=turns")
        : post(lone.privateUrl, shop, JSON.stringify({ checks }));
    let refused = 0;
    for (let i = 0; i < 2 * mostWaiting; i++) {
      one().then(
        ({ status, body }) => {
          if (status === 429 || body.includes('"allowed":false')) refused += 1;
        },
        // Those that still wait are cut off at the end.
        () => {},
      );
    }
    // One goes on at once, and perhaps another meanwhile.
    await until("the others are refused", () => refused >= 1.5 * mostWaiting - 2);
    expect(await lone.metric('sluice_waiting_requests\\{worker="0"\\}')).toBeLessThanOrEqual(mostWaiting / 2);
    // The other half is for others: the second request waits for its unit.
    for (let i = 0; i < 2; i++) expect((await request(`${lone.url}/site`)).status).toBe(200);
    await lone.stop();
  },
);
