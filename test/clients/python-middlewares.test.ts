// The middlewares of the Python client in servers that run them: Django under gunicorn, which forks after the client was made and used, and Starlette under
// uvicorn. A real gateway decides who is served, and who is refused and how.

import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Program } from "../fixtures/servers/program.ts";
import { until } from "../fixtures/until.ts";
import { python, pythonClient, pythonEnv } from "./python-driver.ts";
import { expectQuotaExceeded } from "./quota-exceeded.ts";

const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const key = ["header:x-user"];
const year = { algorithm: "fixed-window", window: "366d" };
const policies = [
  { name: "three", key, limits: [{ ...year, quota: 3 }] },
  { name: "slow", key, limits: [{ algorithm: "token-bucket", quota: 1, window: "8s", burst: 1 }] },
  { name: "brief", key, limits: [{ algorithm: "token-bucket", quota: 1, window: "100s", burst: 1 }] },
  { name: "fast", key, limits: [{ algorithm: "token-bucket", quota: 10, window: "1s", burst: 1 }] },
  { name: "shaped", key, limits: [{ algorithm: "leaky-bucket", quota: 10, window: "1s", burst: 10 }] },
  { name: "hourly", key, limits: [{ algorithm: "leaky-bucket", quota: 1, window: "1h", burst: 1, maxDelay: "1h" }] },
  {
    name: "plans",
    key,
    planBy: "header:x-plan",
    defaultPlan: "free",
    plans: { free: [{ ...year, quota: 10 }], gold: [{ ...year, quota: 100 }] },
  },
];
const banned = (who: string, i: number) => ({
  id: `${i + 1}`,
  app: "default",
  policy: "three",
  key: [who],
  untilSeconds: Math.floor(Date.now() / 1000) + 3600,
});

/** The arguments of Python for each server, by its name. */
const servers = {
  "Django under gunicorn": (port: number) => [
    ...["/usr/bin/gunicorn", "--preload", "--workers", "2", "--threads", "4", "--bind", `127.0.0.1:${port}`],
    "django_service:application",
  ],
  "Starlette under uvicorn": (port: number) => [
    ...["-m", "uvicorn", "--host", "127.0.0.1", "--port", `${port}`, "starlette_service:app"],
  ],
};
type Server = keyof typeof servers;

interface Service {
  readonly url: string;
  readonly program: Program;
}

async function start(server: Server, settings: NodeJS.ProcessEnv): Promise<Service> {
  const port = await freePort();
  const services = join(pythonClient, "tests/services");
  const program = await Program.start({
    command: python,
    args: servers[server](port),
    env: { ...pythonEnv, PYTHONPATH: `${pythonEnv.PYTHONPATH}:${services}`, ...settings },
    readyWhen: async () => (await ask(`http://127.0.0.1:${port}/three`).catch(() => undefined))?.status === 200,
  });
  return { url: `http://127.0.0.1:${port}`, program };
}

let gateway: LoneGateway;
/** However busy the machine is, the gateway decides. */
const patient = { SLUICE_TEST_TOKEN: shop.token, SLUICE_TEST_DEADLINE: "20", SLUICE_TEST_ON_FAILURE: "deny" };
beforeAll(async () => {
  const bans = Object.keys(servers).map((name, i) => banned(`bad ${name}`, i));
  gateway = await LoneGateway.start({ policies, bans, callers: [callerOf(shop)] });
});
afterAll(() => gateway?.stop());

describe.each(Object.keys(servers) as Server[])("%s", (name) => {
  let service: Service;
  beforeAll(async () => {
    service = await start(name, { ...patient, SLUICE_TEST_URL: gateway.privateUrl });
  });
  afterAll(() => service?.program.stop());

  const user = (who: string) => `${who} ${name}`;
  const get = (path: string, who?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    ask(service.url + path, { headers: { ...(who === undefined ? {} : { "x-user": user(who) }), ...headers } });
  const served = { status: 200, body: expect.stringMatching(/^served by \d+, 0 bytes$/) };

  it("serves a request within its limit, and refuses the next with a problem document", async () => {
    for (let i = 0; i < 3; i++) expect(await get("/three", "ann")).toMatchObject(served);
    // The gateway refuses the first of these, and a memory the last at the latest.
    for (let i = 0; i < 3; i++) {
      const askedAtMs = Date.now();
      const { status, headers, body } = await get("/three", "ann");
      expect([status, headers["content-type"]]).toEqual([429, "application/problem+json"]);
      expectQuotaExceeded({ headers, body }, askedAtMs);
    }
    expect(await get("/three", "bob")).toMatchObject(served);
  });

  it("says a short wait in seconds, and none where waiting does not help", async () => {
    await get("/brief", "ann");
    const { headers, body } = await get("/brief", "ann");
    expect(JSON.parse(body).detail).toBe(`Try again in ${headers["retry-after"]} s.`);
    const never = await get("/costly", "ann", { "x-cost": "11" });
    expect(never.status).toBe(429);
    expect(never.headers).not.toHaveProperty("retry-after");
    expect(JSON.parse(never.body).detail).toBe("The request costs more than its limit ever holds.");
  });

  it("answers 403 to who is banned", async () => {
    const { status, headers, body } = await get("/three", "bad");
    expect(status).toBe(403);
    expect(headers).not.toHaveProperty("retry-after");
    expect(JSON.parse(body)).toEqual({
      type: "about:blank",
      title: "Banned",
      status: 403,
      detail: "Requests of this client are not served.",
      policy: "three",
    });
  });

  it.each(["/fast", "/shaped"])("lets requests wait for their turn: %s", async (path) => {
    const startedAtMs = performance.now();
    const all = await Promise.all([1, 2, 3].map(() => get(path, "ann")));
    for (const one of all) expect(one).toMatchObject(served);
    // One at once, the others 100 ms after each other.
    expect(performance.now() - startedAtMs).toBeGreaterThan(190);
  });

  it("answers 503 at once if the turn of a request comes in more than five minutes", async () => {
    expect(await get("/hourly", "ann")).toMatchObject(served);
    const { status, headers, body } = await get("/hourly", "ann");
    expect([status, headers["retry-after"]]).toEqual([503, "1"]);
    expect(JSON.parse(body)).toMatchObject({ title: "Limit cannot be checked", status: 503, policy: "hourly" });
  });

  it("charges the cost of the request, by its plan", async () => {
    expect((await get("/costly", "bob", { "x-cost": "8" })).status).toBe(200);
    expect((await get("/costly", "bob", { "x-cost": "3" })).status).toBe(429);
    expect((await get("/costly", "bob", { "x-cost": "90", "x-plan": "gold" })).status).toBe(200);
    expect((await get("/costly", "bob", { "x-cost": "11", "x-plan": "gold" })).status).toBe(429);
  });

  it("limits no request without a key", async () => {
    for (let i = 0; i < 5; i++) expect(await get("/three")).toMatchObject(served);
  });

  it("answers a refusal as the service wants", async () => {
    for (let i = 0; i < 3; i++) expect((await get("/own", "teapot")).status).toBe(200);
    expect(await get("/own", "teapot")).toMatchObject({ status: 418, body: "a teapot" });
  });

  it("passes an error to the server", async () => {
    expect((await get("/wrong", "ann")).status).toBe(500);
    await until("the server says why", () => service.program.output.includes("policy-not-found (404)"));
  });

  it("gives a body to the application, also if it came while the request waited", async () => {
    // A unit comes every 100 ms, so the last of these wait for longer than a body is on its way.
    const body = "x".repeat(300_000);
    const post = () => ask(`${service.url}/fast`, { method: "POST", headers: { "x-user": user("poster") }, body });
    const all = await Promise.all([1, 2, 3, 4].map(post));
    expect(all.map((one) => one.body.replace(/\d+,/, "N,"))).toEqual(Array(4).fill("served by N, 300000 bytes"));
  });
});

it("gunicorn's workers limit together, each with a client of its own", async () => {
  const service = await start("Django under gunicorn", { ...patient, SLUICE_TEST_URL: gateway.privateUrl });
  try {
    // On a busy machine, one worker may take all of a round.
    for (let round = 0, workers = 0; workers < 2; round++) {
      expect(round).toBeLessThan(20);
      const user = (i: number) => `many ${round} ${i % 10}`;
      const all = await Promise.all(
        Array.from({ length: 40 }, (_, i) => ask(`${service.url}/three`, { headers: { "x-user": user(i) } })),
      );
      expect(all.filter(({ status }) => status === 200)).toHaveLength(30);
      expect(all.filter(({ status }) => status === 429)).toHaveLength(10);
      workers = new Set(all.flatMap(({ body }) => /^served by (\d+)/.exec(body)?.[1] ?? [])).size;
    }
  } finally {
    await service.program.stop();
  }
});

it("a request under uvicorn whose client leaves while it waits leaves the line", async () => {
  const service = await start("Starlette under uvicorn", { ...patient, SLUICE_TEST_URL: gateway.privateUrl });
  try {
    const headers = { "x-user": "leaving" };
    await ask(`${service.url}/slow`, { headers });
    const leaving = request(`${service.url}/slow`, { agent: false, headers });
    leaving.on("error", () => {});
    leaving.end();
    // It is in line at once. Nothing shows that, so a busy machine has a second, and another one to see it leave.
    await sleep(1_000);
    leaving.destroy();
    await sleep(1_000);
    // A unit comes every 8 s. Had the other stayed in the line, this one would wait for the second.
    const turn = { policy: "slow", key: ["leaving"], maxWait: "10s" };
    expect(await check(gateway.privateUrl, shop, [turn])).toMatchObject({ allowed: true });
  } finally {
    await service.program.stop();
  }
});

describe.each(Object.keys(servers) as Server[])("%s, while the gateway is away", (name) => {
  it.each(["allow", "deny"])("serves, or answers 503, as on_failure says: %s", async (onFailure) => {
    const settings = { ...patient, SLUICE_TEST_ON_FAILURE: onFailure, SLUICE_TEST_URL: "http://127.0.0.1:1" };
    const service = await start(name, settings);
    try {
      for (const path of ["/three", "/fast"]) {
        const { status, headers, body } = await ask(service.url + path, { headers: { "x-user": "ann" } });
        if (onFailure === "allow") expect([status, body]).toEqual([200, expect.stringContaining("served")]);
        else {
          expect([status, headers["retry-after"]]).toEqual([503, "1"]);
          expect(JSON.parse(body)).toMatchObject({ title: "Limit cannot be checked", status: 503 });
        }
      }
    } finally {
      await service.program.stop();
    }
  });
});
