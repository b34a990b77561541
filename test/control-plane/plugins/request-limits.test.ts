// How many requests the control plane takes from whom.

import type { FastifyReply, FastifyRequest } from "fastify";
import { describe, expect, it } from "vitest";
import { RequestLimits } from "../../../control-plane/src/plugins/request-limits.ts";
import type { Caller } from "../../../control-plane/src/rights/caller.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import {
  type Answer,
  adminToken,
  onePerSecond,
  type Running,
  startControlPlane,
  unlimited,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway, openSocket } from "../../fixtures/servers/gateway-double.ts";

interface Limited extends Running {
  /** What limits take for the time; the real time does not count. */
  readonly clock: { ms: number };
}

async function start(environment: Record<string, string>): Promise<Limited> {
  const clock = { ms: 1_000_000 };
  const running = await startControlPlane(environment, { uptimeMs: () => clock.ms });
  return { ...running, clock };
}

async function statuses(count: number, send: () => Promise<{ status: number }>): Promise<number[]> {
  const all: number[] = [];
  for (let i = 0; i < count; i++) all.push((await send()).status);
  return all;
}

const withToken = (token: string) => ({ authorization: `Bearer ${token}` });

describe("a token", () => {
  it("is refused beyond its rate with 429, the seconds to wait and the limits, and nobody else is", async () => {
    const { call, clock } = await start({ SLUICE_API_RATE: "1:3" });
    const { body: made } = await call("POST", "/tokens", { body: { name: "ci", app: "default", role: "viewer" } });
    const asToken = () => call("GET", "/apps/default", { token: made.token });
    expect(await statuses(3, asToken)).toEqual([200, 200, 200]);
    const refused = await asToken();
    expect([refused.status, refused.body.code]).toEqual([429, "too-many-requests"]);
    expect(refused.body.detail).toBe("More than 1 requests a second came with this token. Try again in 1 s.");
    expect(refused.headers.get("content-type")).toContain("application/problem+json");
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.headers.get("ratelimit-policy")).toBe('"token";q=3;w=3');
    expect(refused.headers.get("ratelimit")).toBe('"token";r=0;t=3');
    expect(refused.headers.get("x-ratelimit-remaining")).toBe("0");
    expect((await call("GET", "/apps/default")).status).toBe(200);
    clock.ms += 1_000;
    expect((await asToken()).status).toBe(200);
  });

  it("sees in each answer what it has left", async () => {
    const { call } = await start({ SLUICE_API_RATE: "10:20", SLUICE_API_RATE_PER_ADDRESS: "50" });
    const { headers } = await call("GET", "/apps");
    expect(headers.get("ratelimit-policy")).toBe('"address";q=500;w=10, "token";q=20;w=2');
    expect(headers.get("ratelimit")).toBe('"token";r=19;t=1, "address";r=499;t=1');
    expect(headers.get("x-ratelimit-limit")).toBe("20");
  });
});

describe("an address", () => {
  it("is refused beyond its rate before anything else is looked at, whatever it asks for", async () => {
    const { call } = await start({ SLUICE_API_RATE_PER_ADDRESS: "1:4" });
    const paths = ["/apps", "nowhere", "docs/", "openapi.json"];
    for (const path of paths) await call("GET", path, { token: undefined });
    for (const path of [...paths, "metrics"]) {
      const { status, body } = await call("GET", path);
      expect([path, status, body.code]).toEqual([path, 429, "too-many-requests"]);
    }
    for (const path of ["healthz", "readyz"]) expect((await call("GET", path)).status).toBe(200);
  });

  it.each([
    ["does not decode", "/apps/%zz", 400],
    ["has a name that is too long", `/apps/${"a".repeat(2_000)}`, 404],
  ])("is refused beyond its rate also if the router refuses the URL, because it %s", async (_, path, status) => {
    const { call } = await start({ SLUICE_API_RATE_PER_ADDRESS: "1:2" });
    const first = await call("GET", path);
    expect([first.status, first.headers.get("ratelimit-policy")]).toEqual([status, '"address";q=2;w=2']);
    expect((await call("POST", path)).status).toBe(status);
    expect((await call("GET", path)).status).toBe(429);
  });

  it("is its own: others are not refused", async () => {
    const { url } = await start({ SLUICE_API_RATE_PER_ADDRESS: "1:2" });
    const from = (address: string) => ask(`${url}/openapi.json`, { from: address });
    expect(await statuses(3, () => from("127.0.0.2"))).toEqual([200, 200, 429]);
    expect((await from("127.0.0.3")).status).toBe(200);
  });

  it("is what a trusted proxy says, IPv6 by its /64, and nobody else may say it", async () => {
    const { url } = await start({
      SLUICE_API_RATE_PER_ADDRESS: "1:1",
      SLUICE_TRUSTED_PROXIES: "127.0.0.2, 127.0.1.0/24",
    });
    const via = async (proxy: string, forwarded: string) =>
      (await ask(`${url}/openapi.json`, { from: proxy, headers: { "x-forwarded-for": forwarded } })).status;
    expect(await via("127.0.0.2", "2001:db8::1")).toBe(200);
    expect(await via("127.0.1.9", "2001:db8::2:1")).toBe(429);
    expect(await via("127.0.0.2", "2001:db8:0:1::1")).toBe(200);
    expect(await via("127.0.0.2", "203.0.113.1, 198.51.100.7")).toBe(200);
    expect(await via("127.0.0.2", "203.0.113.2, 198.51.100.7")).toBe(429);
    // Not a proxy: what it says does not count.
    expect(await via("127.0.0.4", "198.51.100.8")).toBe(200);
    expect(await via("127.0.0.4", "198.51.100.9")).toBe(429);
    // What is no address counts as the proxy's own.
    expect(await via("127.0.0.2", "x".repeat(3_000))).toBe(200);
    expect(await via("127.0.0.2", "unknown")).toBe(429);
    // A zone may be any text, and has no meaning on another machine.
    expect(await via("127.0.0.2", `fe80::1%${"a".repeat(100)}`)).toBe(429);
  });
});

describe("failed sign-ins", () => {
  const rate = { SLUICE_FAILED_SIGN_IN_RATE: "1:5" };
  const wrong = (i: number) => `wrong-token-${i}-0123456789`;

  async function fail({ call }: Limited, count: number): Promise<Answer[]> {
    const answers: Answer[] = [];
    for (let i = 0; i < count; i++) answers.push(await call("GET", "/apps", { token: wrong(i) }));
    return answers;
  }

  it("are refused without a look into the database when too many have failed", async () => {
    const running = await start(rate);
    const answers = await fail(running, 7);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401, 429, 429]);
    expect(answers[5]?.body.code).toBe("too-many-failed-sign-ins");
    expect(answers[5]?.headers.get("retry-after")).toBe("1");
    expect(answers[5]?.headers.get("ratelimit-policy")).toBe('"failed-sign-ins";q=5;w=5');
    await running.app.database.destroy();
    expect((await fail(running, 1))[0]?.status).toBe(429);
    running.clock.ms += 5_000;
    // Now the database is asked, and is not there.
    expect((await fail(running, 1))[0]?.status).toBe(500);
  });

  it("keep out nobody at that address whose token was right before, also before a restart", async () => {
    const running = await start(rate);
    const { body: made } = await running.call("POST", "/tokens", {
      body: { name: "a", app: "default", role: "viewer" },
    });
    await fail(running, 10);
    expect((await running.call("GET", "/apps")).status).toBe(200);
    const refused = await running.call("GET", "/apps/default", { token: made.token });
    expect([refused.status, refused.body.code]).toEqual([429, "too-many-failed-sign-ins"]);
    // As soon as one more may be tried, a right token counts as no failure.
    running.clock.ms += 1_000;
    expect((await running.call("GET", "/apps/default", { token: made.token })).status).toBe(200);
    await fail(running, 10);
    expect((await running.call("GET", "/apps/default", { token: made.token })).status).toBe(200);
    await running.stop();
    const again = await start({ ...rate, SLUICE_DATA_DIR: running.dataDir });
    await fail(again, 10);
    for (const token of [made.token, adminToken]) {
      expect((await again.call("GET", "/apps/default", { token })).status).toBe(200);
    }
  });

  it("do not keep out gateways of that address", async () => {
    const running = await start(rate);
    await fail(running, 10);
    const gateway = await connectGateway(running, "edge-1");
    expect((await running.call("GET", "readyz")).body.gateways).toBe(1);
    gateway.socket.close();
  });

  it("keep out nobody who has an old cookie besides a token that was right before", async () => {
    const running = await start(rate);
    const signIn = (cookie: string) =>
      running.call("POST", "/session", { token: undefined, body: { token: adminToken }, headers: { cookie } });
    const { headers } = await signIn("");
    const [cookie = ""] = (headers.getSetCookie()[0] ?? "").split(";");
    await running.app.database.deleteFrom("sessions").execute();
    await fail(running, 10);
    expect((await signIn(cookie)).status).toBe(201);
  });

  it("keep out no gateway, and no token that is used, however many other tokens or sessions there are", async () => {
    const off = "off" as const;
    const oneFailure = { perAddress: off, perToken: off, failedSignIns: { perSecond: 1, burst: 1 } };
    const limits = new RequestLimits(
      oneFailure,
      () => 0,
      () => undefined,
    );
    const request = { address: "192.0.2.1", decided: [] } as unknown as FastifyRequest;
    const reply = { headers: () => reply } as unknown as FastifyReply;
    const callerOf = (isGateway: boolean) => ({ id: "x", who: "x", member: "x", isGateway }) as Caller;
    const signIn = (credential: string, isGateway = false) =>
      limits.signIn(credential, request, reply, async () => callerOf(isGateway));
    await signIn("token of a gateway", true);
    await signIn("token");
    for (let i = 0; i < 12_000; i++) {
      await signIn(`session/${i}`);
      if (i % 1_000 === 0) await signIn("token");
      await signIn(`token ${i}`);
    }
    await limits.signIn("wrong", request, reply, async () => "unknown");
    await expect(signIn("token that was never used")).rejects.toThrow("Too many sign-ins");
    expect(await signIn("token of a gateway", true)).toMatchObject({ isGateway: true });
    expect(await signIn("token")).toMatchObject({ isGateway: false });
  });

  it("count for a token that was right and is not any more", async () => {
    const running = await start(rate);
    const { body: made } = await running.call("POST", "/tokens", {
      body: { name: "a", app: "default", role: "viewer" },
    });
    const ask = () => running.call("GET", "/apps/default", { token: made.token });
    expect((await ask()).status).toBe(200);
    await running.call("DELETE", `/tokens/${made.id}`);
    expect(await statuses(7, ask)).toEqual([401, 401, 401, 401, 401, 429, 429]);
  });

  it("that come all at once are not looked up all at once", async () => {
    const running = await start(rate);
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => running.call("GET", "/apps", { token: wrong(i) })),
    );
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(95);
  });
});

describe("the defaults", () => {
  const defaults = Object.fromEntries(Object.keys(unlimited).map((name) => [name, ""]));

  it("let a token send 500 requests a second and 5,000 at once, and an address 2,000 and 20,000", async () => {
    const { call } = await start(defaults);
    const { headers } = await call("GET", "/apps");
    expect(headers.get("ratelimit-policy")).toBe('"address";q=20000;w=10, "token";q=5000;w=10');
  });

  it("let sixty wrong tokens of an address be tried at once", async () => {
    const { url } = await start(defaults);
    const all = await statuses(61, () => ask(`${url}/api/v1/apps`, { headers: withToken("wrong-token-0123456789") }));
    expect(all.filter((status) => status === 401)).toHaveLength(60);
    expect(all.at(-1)).toBe(429);
  });
});

it("gateways connect as often as they want, all through one address", async () => {
  const { url } = await start({ SLUICE_API_RATE: "1:1", SLUICE_API_RATE_PER_ADDRESS: "1:1" });
  const sockets = await Promise.all(Array.from({ length: 200 }, () => openSocket(url)));
  expect(sockets).toHaveLength(200);
  for (const { socket } of sockets) socket.terminate();
});

it("counts refusals by the limit that made them", async () => {
  const { call } = await start({ SLUICE_API_RATE: "1:2", SLUICE_FAILED_SIGN_IN_RATE: "1:1" });
  await call("PUT", "/apps/default/policies/a", { body: onePerSecond });
  await statuses(3, () => call("GET", "/apps"));
  await statuses(3, () => call("GET", "/apps", { token: "wrong-token-0123456789" }));
  const lines = (await call("GET", "metrics")).body.split("\n");
  expect(lines).toContain('sluice_control_requests_refused_total{limit="token"} 2');
  expect(lines).toContain('sluice_control_requests_refused_total{limit="failed-sign-ins"} 2');
  expect(lines).toContain('sluice_control_requests_refused_total{limit="address"} 0');
});
