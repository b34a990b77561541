// Tests cost: { from: response-bytes } in nginx itself: worked case 5's download quota, with real bodies. The clock of nginx
// and Redis stands where the test sets it. A HEAD has no body: it shows what remains and costs nothing.

import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { fullHour } from "../fixtures/documents/worked-cases.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { SetClock } from "../fixtures/servers/set-clock.ts";
import { until, untilPasses } from "../fixtures/until.ts";

const megabyte = 1_000_000;
const cost = { from: "response-bytes" };
const perMinute = (algorithm: string, more = {}) => [{ algorithm, quota: 10 * megabyte, window: "1m", ...more }];
const at = (name: string) => ({ name, match: { paths: [`/${name}`, `/${name}/*`] }, cost });

let upstreamRequests = 0;
/** Each sends the answer to a request with `?held`. */
const held: (() => void)[] = [];

/** Sends requests that Redis decides at once, and takes it away while their answers are on their way. */
async function letOn<T>(requests: readonly Promise<T>[], takeAway: () => Promise<unknown>): Promise<T[]> {
  await until("the upstream has them", () => held.length === requests.length);
  await takeAway();
  for (const answer of held.splice(0)) answer();
  return Promise.all(requests);
}

/** Answers /name/BYTES with as many bytes, after applying the query. */
function answer(upstream: Server) {
  upstream.on("request", (incoming, response) => {
    upstreamRequests += 1;
    const url = new URL(incoming.url ?? "", "http://x");
    const redirect = url.searchParams.get("redirect");
    if (redirect !== null) response.setHeader("X-Accel-Redirect", redirect);
    if (url.searchParams.has("unchanged")) {
      response.writeHead(304).end();
      return;
    }
    if (url.searchParams.has("cached")) response.setHeader("Cache-Control", "max-age=600");
    const mark = incoming.headers["x-over-limit"];
    if (mark !== undefined) response.setHeader("X-Seen", mark);
    const body = "x".repeat(Number(url.pathname.split("/").at(-1)));
    if (url.searchParams.has("held")) held.push(() => response.end(body));
    else response.end(body);
  });
}

const scopes = ["node", "cluster"] as const;
const gateways = [
  { name: "one worker", scope: "node", workers: 1 },
  { name: "two workers", scope: "node", workers: 2 },
  { name: "Redis", scope: "cluster", workers: 2 },
] as const satisfies readonly { name: string; scope: (typeof scopes)[number]; workers: number }[];

const upstream = createServer();
const clock = new SetClock(fullHour);
let redis: RedisServer;
beforeAll(async () => {
  answer(upstream);
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  redis = new RedisServer(await freePort(), clock.redisEnv);
  await redis.start();
});
afterAll(async () => {
  await redis?.stop();
  upstream.close();
  clock.remove();
});

describe.each(gateways)("by $name, a response", ({ scope, workers }) => {
  let gateway: LoneGateway;
  beforeAll(async () => {
    clock.set(fullHour);
    gateway = await LoneGateway.start({
      workers,
      clock,
      env: {
        SLUICE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
        SLUICE_REDIS_URL: redis.url,
        SLUICE_REDIS_DEADLINE_MS: "10000",
      },
      policies: [
        { ...at("sliding"), scope, limits: perMinute("sliding-window", { precision: "5s" }) },
        { ...at("log"), scope, limits: perMinute("sliding-log") },
        { ...at("bucket"), scope, limits: perMinute("token-bucket", { burst: 2 * megabyte }) },
        {
          ...at("two"),
          scope,
          limits: [
            ...perMinute("fixed-window"),
            { name: "hour", algorithm: "fixed-window", quota: 20 * megabyte, window: "1h" },
          ],
        },
        { ...at("edge"), scope, limits: perMinute("fixed-window") },
        { ...at("sub"), match: { paths: ["/sub", "/sub/*", "/inner/*"] }, scope, limits: perMinute("fixed-window") },
        { ...at("shadow"), scope, limits: perMinute("fixed-window"), mode: "shadow" },
        {
          ...at("tag"),
          scope,
          limits: perMinute("fixed-window"),
          onLimit: { action: "tag", header: "x-over-limit: 1" },
        },
        { ...at("cheap"), scope, limits: perMinute("fixed-window"), onLimit: { action: "degrade", uri: "/free/7" } },
        {
          ...at("late"),
          scope,
          limits: [{ algorithm: "token-bucket", quota: 1000, window: "1s" }],
          onLimit: { action: "delay", maxDelay: "10s" },
        },
        {
          ...at("vip"),
          scope,
          key: ["header:x-user"],
          limits: perMinute("fixed-window"),
          overrides: [{ key: ["vip"], limits: perMinute("fixed-window", { quota: 20 * megabyte }) }],
        },
        {
          name: "strict",
          priority: -1,
          match: { paths: ["/edge/refused/*"] },
          limits: [{ ...perMinute("fixed-window")[0], quota: 1 }],
        },
      ],
      edit: (config) =>
        config
          .replace("server {", "proxy_cache_path cache keys_zone=cache:1m;\nserver {")
          .replace("proxy_pass http://service;", "proxy_cache cache;\nproxy_pass http://service;")
          .replace(
            "location = /sluice/healthz {",
            `location /sub {
              auth_request /inner/77;
              access_by_lua_block { sluice.access() }
              proxy_http_version 1.1;
              proxy_pass http://service;
            }
            location /inner {
              access_by_lua_block { sluice.access() }
              proxy_http_version 1.1;
              proxy_pass http://service;
            }
            location = /sluice/healthz {`,
          ),
    });
  });
  afterAll(() => gateway?.stop());

  const get = async (path: string, headers: Record<string, string> = {}, method = "GET") => {
    const { status, headers: got, body } = await ask(gateway.url + path, { method, headers });
    return {
      status,
      bytes: body.length,
      remaining: Number(got["x-ratelimit-remaining"]),
      retryAfter: got["retry-after"] === undefined ? undefined : Number(got["retry-after"]),
      seen: got["x-seen"],
    };
  };
  const left = (path: string, headers = {}) => get(`${path}/0`, headers, "HEAD");
  /** Waits until the charge shows: responses are charged a moment after they have been sent. */
  const settled = (path: string, remaining: number, headers = {}) =>
    untilPasses(async () => expect((await left(path, headers)).remaining).toBe(remaining));

  it("is charged when it has been sent: 10 MB a minute in blocks of 5 s, and an excess must be paid first", async () => {
    clock.set(fullHour);
    expect(await get(`/sliding/${4 * megabyte}`)).toMatchObject({ status: 200, remaining: 10 * megabyte });
    await settled("/sliding", 6 * megabyte);
    clock.set(fullHour + 30);
    // One byte of quota is enough to admit the request.
    expect(await get(`/sliding/${9 * megabyte}`)).toMatchObject({ status: 200, bytes: 9 * megabyte });
    await settled("/sliding", 0);
    // 3 MB are owed: the first 4 are free again when their block has left the minute.
    expect(await get("/sliding/1")).toMatchObject({ status: 429, retryAfter: 35 });
    clock.set(fullHour + 64.9);
    expect((await get("/sliding/1")).status).toBe(429);
    clock.set(fullHour + 65);
    expect(await left("/sliding")).toMatchObject({ status: 200, remaining: 1 * megabyte });
    clock.set(fullHour + 95);
    expect(await left("/sliding")).toMatchObject({ status: 200, remaining: 7 * megabyte });
    clock.set(fullHour + 130);
    expect((await left("/sliding")).remaining).toBe(10 * megabyte);
  });

  it("of several windows' size keeps its key refused for as many windows", async () => {
    clock.set(fullHour + 3600);
    expect((await get(`/log/${35 * megabyte}`)).bytes).toBe(35 * megabyte);
    await settled("/log", 0);
    expect(await get("/log/1")).toMatchObject({ status: 429, retryAfter: 180 });
    clock.set(fullHour + 3600 + 179.9);
    for (let i = 0; i < 5; i++) expect((await get("/log/1")).status).toBe(429);
    clock.set(fullHour + 3600 + 180);
    expect(await left("/log")).toMatchObject({ status: 200, remaining: 5 * megabyte });
    clock.set(fullHour + 3600 + 240);
    expect((await left("/log")).remaining).toBe(10 * megabyte);
  });

  it("larger than the bucket is paid by what refills", async () => {
    clock.set(fullHour + 7200);
    await get(`/bucket/${7 * megabyte}`);
    await settled("/bucket", 0);
    expect(await get("/bucket/1")).toMatchObject({ status: 429, retryAfter: 31 });
    clock.set(fullHour + 7200 + 29.9);
    expect((await get("/bucket/1")).status).toBe(429);
    clock.set(fullHour + 7200 + 36);
    expect((await left("/bucket")).remaining).toBe(1 * megabyte);
  });

  it("is owed to each limit separately", async () => {
    clock.set(fullHour + 7200);
    await get(`/two/${19 * megabyte}`);
    await settled("/two", 0);
    expect((await get("/two/1")).retryAfter).toBe(60);
    clock.set(fullHour + 7260);
    expect((await left("/two")).remaining).toBe(1 * megabyte);
    await get(`/two/${4 * megabyte}`);
    await settled("/two", 0);
    // Both the hour and the minute owe 3 MB to their next window.
    expect((await get("/two/1")).retryAfter).toBe(3540);
    clock.set(fullHour + 7200 + 3600);
    expect((await left("/two")).remaining).toBe(10 * megabyte);
  });

  it("is charged by the bytes sent, also without a body, refused, unchanged or redirected", async () => {
    clock.set(fullHour + 14_400);
    await left("/edge");
    await get("/edge/9?unchanged=1");
    expect((await get("/edge/refused/0", {}, "HEAD")).status).toBe(200);
    expect((await get("/edge/refused/0")).status).toBe(429);
    await get("/edge/1000?cached=1");
    await settled("/edge", 10 * megabyte - 1000);
    const sent = upstreamRequests;
    await get("/edge/1000?cached=1");
    expect(upstreamRequests).toBe(sent);
    await settled("/edge", 10 * megabyte - 2000);
    // The redirect goes to a location that is limited too.
    expect((await get("/edge/77?redirect=/edge/500")).bytes).toBe(500);
    await settled("/edge", 10 * megabyte - 2500);
    const refusedBefore = await Promise.all([get("/edge/refused/5"), get("/edge/refused/5")]);
    expect(refusedBefore.map(({ status }) => status)).toEqual([429, 429]);
    await settled("/edge", 10 * megabyte - 2500);
  });

  it("to a subrequest is not charged", async () => {
    clock.set(fullHour + 14_400);
    expect(await get("/sub/50")).toMatchObject({ status: 200, bytes: 50 });
    await settled("/sub", 10 * megabyte - 50);
  });

  it("to a client that goes away is charged as far as it was sent", async () => {
    clock.set(fullHour + 14_400);
    await new Promise<void>((resolve, reject) => {
      const outgoing = request(`${gateway.url}/log/${60 * megabyte}`, (incoming) => {
        incoming.once("data", () => {
          outgoing.destroy();
          resolve();
        });
      });
      outgoing.once("error", reject);
      outgoing.end();
    });
    await untilPasses(async () => expect((await left("/log")).remaining).toBeLessThan(10 * megabyte));
    expect((await left("/log")).retryAfter ?? 0).toBeLessThan(300);
  });

  it("is charged in full when many are sent at once", async () => {
    clock.set(fullHour + 18_000);
    await Promise.all(Array.from({ length: 200 }, (_, i) => get(`/edge/${1000 + i}`)));
    await settled("/edge", 10 * megabyte - 200 * 1000 - (199 * 200) / 2);
    expect(await gateway.metric("sluice_unsettled_responses_total")).toBe(0);
  });

  it("in shadow mode is charged, and refused to nobody", async () => {
    clock.set(fullHour + 18_000);
    expect(await get(`/shadow/${11 * megabyte}`)).toMatchObject({ status: 200, remaining: Number.NaN });
    await until("the log says so", async () => {
      await get("/shadow/1");
      return gateway.log.includes("would have refused: default/shadow");
    });
  });

  it("that is over the limit and passes with a mark, or is replaced by a cheaper one, is charged nothing", async () => {
    clock.set(fullHour + 18_000);
    await get(`/tag/${10 * megabyte}`);
    await get(`/cheap/${10 * megabyte}`);
    await settled("/tag", 0);
    await settled("/cheap", 0);
    expect(await get(`/tag/${10 * megabyte}`)).toMatchObject({ status: 200, seen: "1" });
    expect(await get("/cheap/100")).toMatchObject({ status: 200, bytes: 7 });
    clock.set(fullHour + 18_060);
    expect((await left("/tag")).remaining).toBe(10 * megabyte);
    expect((await left("/cheap")).remaining).toBe(10 * megabyte);
  });

  it("has the next request wait for what it owes", async () => {
    clock.set(fullHour + 18_000);
    await get("/late/3000");
    let waiting: ReturnType<typeof get> | undefined;
    // The charge shows a moment after the response.
    await until("a request waits", async () => {
      let answered = false;
      waiting = get("/late/1").finally(() => {
        answered = true;
      });
      // A busy machine may not have answered yet, and that looks the same.
      await Promise.race([waiting, sleep(300)]);
      return !answered;
    });
    clock.set(fullHour + 18_003);
    expect((await waiting)?.status).toBe(200);
  });

  it("is charged by the limits of an override", async () => {
    clock.set(fullHour + 21_600);
    await get(`/vip/${15 * megabyte}`, { "x-user": "vip" });
    await settled("/vip", 5 * megabyte, { "x-user": "vip" });
    expect((await left("/vip", { "x-user": "ann" })).remaining).toBe(10 * megabyte);
  });
});

describe("while Redis does not answer,", () => {
  it("a response is charged to this node's share, even if Redis had admitted its request", async () => {
    clock.set(fullHour);
    const own = new RedisServer(await freePort(), clock.redisEnv);
    await own.start();
    const gateway = await LoneGateway.start({
      clock,
      env: {
        SLUICE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
        SLUICE_REDIS_URL: own.url,
      },
      policies: [{ ...at("file"), scope: "cluster", limits: perMinute("fixed-window") }],
    });
    const remaining = async (bytes: number) => {
      const { headers } = await ask(`${gateway.url}/file/${bytes}`, { method: bytes === 0 ? "HEAD" : "GET" });
      return Number(headers["x-ratelimit-remaining"]);
    };
    try {
      const [answer] = await letOn([ask(`${gateway.url}/file/5?held`)], () => own.stop("SIGKILL"));
      expect(answer?.status).toBe(200);
      await untilPasses(async () => expect(await remaining(0)).toBe(10 * megabyte - 5));
      expect(await remaining(1000)).toBe(10 * megabyte - 5);
      await untilPasses(async () => expect(await remaining(0)).toBe(10 * megabyte - 1005));
      expect(await gateway.metric("sluice_unsettled_responses_total")).toBe(0);
    } finally {
      await gateway.stop();
      await own.stop();
    }
  });
});

const refusals = [
  { what: "has no memory left", begin: ["CONFIG", "SET", "maxmemory", "1"], end: ["CONFIG", "SET", "maxmemory", "0"] },
  { what: "is a replica", begin: ["REPLICAOF", "127.0.0.1", "1"], end: ["REPLICAOF", "NO", "ONE"] },
] as const;

describe.each(refusals)("while Redis answers, but takes no writes because it $what", ({ begin, end }) => {
  let own: RedisServer;
  let gateway: LoneGateway;
  beforeAll(async () => {
    clock.set(fullHour);
    own = new RedisServer(await freePort(), clock.redisEnv);
    await own.start();
    const cluster = (name: string, onStoreFailure: string) => ({
      ...at(name),
      scope: "cluster",
      limits: perMinute("fixed-window"),
      onStoreFailure,
    });
    gateway = await LoneGateway.start({
      clock,
      env: {
        SLUICE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
        SLUICE_REDIS_URL: own.url,
        SLUICE_REDIS_DEADLINE_MS: "2000",
      },
      policies: ["local", "allow", "deny"].flatMap((name) => [cluster(name, name), cluster(`sent-${name}`, name)]),
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    await own?.stop();
  });

  const get = async (path: string, method = "GET") => {
    const { status, headers, body } = await ask(gateway.url + path, { method });
    const undecided = status === 429 && body.includes("cannot be checked");
    return { status: undecided ? "undecided" : status, remaining: Number(headers["x-ratelimit-remaining"]) };
  };
  const left = (name: string) => get(`/${name}/0`, "HEAD");

  it("a request is decided by onStoreFailure, and its response is charged when Redis takes writes again", async () => {
    for (const name of ["local", "allow", "deny"]) expect((await left(name)).status).toBe(200);
    await own.command(...(begin as readonly [string, ...string[]]));
    expect((await get("/deny/1000")).status).toBe("undecided");
    expect((await get(`/allow/${4 * megabyte}`)).status).toBe(200);
    expect((await get(`/local/${8 * megabyte}`)).status).toBe(200);
    await untilPasses(async () => expect((await left("local")).remaining).toBe(2 * megabyte));
    expect((await get(`/local/${8 * megabyte}`)).status).toBe(200);
    await untilPasses(async () => expect((await left("local")).status).toBe(429));
    expect((await get("/deny/1000")).status).toBe("undecided");
    await own.command(...(end as readonly [string, ...string[]]));
    await untilPasses(async () => expect(await left("deny")).toEqual({ status: 200, remaining: 10 * megabyte }));
    await untilPasses(async () => expect((await left("allow")).remaining).toBe(6 * megabyte));
    // 6 MB more were sent than there were; they are owed in the next minute.
    clock.set(fullHour + 60);
    await untilPasses(async () => expect((await left("local")).remaining).toBe(4 * megabyte));
    expect(await gateway.metric("sluice_unsettled_responses_total")).toBe(0);
  });

  it("a response to a request that Redis had admitted is owed, and counts in the decisions that follow", async () => {
    const names = ["sent-local", "sent-deny"];
    const sent = names.map((name) => get(`/${name}/${9 * megabyte}?held`));
    const answers = await letOn(sent, () => own.command(...(begin as readonly [string, ...string[]])));
    for (const { status } of answers) expect(status).toBe(200);
    await untilPasses(async () => expect((await left("sent-local")).remaining).toBe(megabyte));
    expect((await get("/sent-deny/1000")).status).toBe("undecided");
    await own.command(...(end as readonly [string, ...string[]]));
    for (const name of names) {
      await untilPasses(async () => expect(await left(name)).toEqual({ status: 200, remaining: megabyte }));
    }
    expect(await gateway.metric("sluice_unsettled_responses_total")).toBe(0);
  });
});
