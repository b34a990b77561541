// What gateways report of their traffic, as the API shows it.

import type { PolicyActivity } from "@sluice/limiter/protocol/activity.ts";
import type { GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import { describe, expect, it } from "vitest";
import { type EventReader, followEvents } from "../../fixtures/clients/event-reader.ts";
import { perSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { until } from "../../fixtures/servers/system.ts";

const policy = { ...perSecond(1), key: ["header:x-user", "header:x-api-key"] };
const none = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
const encoded = (user: string) => `2:${user.length}:${user}key-of-${user}`;

async function startWithPolicy(surroundings: { now?: () => number } = {}): Promise<Running> {
  const running = await startControlPlane({}, surroundings);
  await running.call("PUT", "/apps/shop", { body: { realm: {} } });
  await running.call("PUT", "/apps/shop/policies/books", { body: policy });
  return running;
}

/** What a gateway counted in the last second. */
function report(counts: Partial<PolicyActivity>, keys: object[] = []): GatewayMessage {
  const nowMs = Date.now();
  const policies = [{ app: "shop", policy: "books", ...none, ...counts }];
  const own = keys.map((one) => ({
    app: "shop",
    policy: "books",
    sinceMs: nowMs - 10_000,
    error: 0,
    unlisted: 0,
    ...one,
  }));
  return {
    type: "activity",
    nowMs,
    workers: [{ fromMs: nowMs - 500, toMs: nowMs, policies, keys: own as never }],
  };
}

const sums = async ({ call }: Running, path: string) => {
  const { body } = await call("GET", path);
  const sum = (what: string) =>
    body.points.reduce((total: number, point: Record<string, number>) => total + (point[what] ?? 0), 0);
  return { admitted: sum("admitted"), refused: sum("refused"), delayed: sum("delayed") };
};

describe("traffic", () => {
  it("of all gateways is shown by policy and app, by second and minute", async () => {
    const running = await startWithPolicy();
    const gateways = [await connectGateway(running, "gw-1"), await connectGateway(running, "gw-2")];
    for (const gateway of gateways) gateway.say(report({ allowed: 5, refused: 2, delayed: 1 }));
    const path = "/apps/shop/traffic";
    await until("both are shown", 30_000, async () => (await sums(running, path)).admitted === 10);
    for (const query of ["?policy=books", "?step=minute", "?policy=books&since=1h&step=second"]) {
      expect(await sums(running, path + query)).toEqual({ admitted: 10, refused: 4, delayed: 2 });
    }
    const { body } = await running.call("GET", `${path}?policy=books&since=2h`);
    expect(body).toMatchObject({ app: "shop", policy: "books", step: "minute", complete: true });
    expect(await sums(running, "/apps/default/traffic")).toEqual({ admitted: 0, refused: 0, delayed: 0 });
  });

  it("by minute outlives a restart", async () => {
    let nowMs = Date.now();
    const surroundings = { now: () => nowMs };
    const first = await startWithPolicy(surroundings);
    const gateway = await connectGateway(first, "gw-1");
    gateway.say(report({ allowed: 7 }));
    await until("it is shown", 30_000, async () => (await sums(first, "/apps/shop/traffic")).admitted === 7);
    nowMs += 70_000;
    const stored = () => first.app.database.selectFrom("traffic_minutes").selectAll().execute();
    await until("the minute is stored", 30_000, async () => (await stored()).length === 1);
    await first.stop();
    const second = await startControlPlane({ SLUICE_DATA_DIR: first.dataDir }, surroundings);
    expect((await sums(second, "/apps/shop/traffic?since=2h")).admitted).toBe(7);
  });

  it.each([
    ["/apps/shop/traffic?policy=pens", 404, "policy-not-found"],
    ["/apps/none/traffic", 404, "app-not-found"],
    ["/apps/shop/traffic?since=yesterday", 400, "invalid-request"],
    ["/apps/shop/traffic?step=hour", 400, "invalid-request"],
    ["/apps/shop/top", 400, "invalid-request"],
    ["/apps/shop/top?policy=pens", 404, "policy-not-found"],
    ["/apps/shop/top?policy=books&window=day", 400, "invalid-request"],
    ["/events?policy=books", 400, "invalid-request"],
    ["/events?app=none", 404, "app-not-found"],
  ])("is refused with a clear error: %s", async (path, status, code) => {
    const { call } = await startWithPolicy();
    const answer = await call("GET", path);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
  });
});

describe("the top keys", () => {
  it("are added up from all reports, and say how far they may be off", async () => {
    const running = await startWithPolicy();
    const gateway = await connectGateway(running, "gw-1");
    const ann = encoded("ann");
    const bob = encoded("bob");
    const long = `h:${"ab".repeat(20)}`;
    gateway.say(report({}, [{ result: "refused", keys: [ann, bob], counts: [9, 2], error: 1, unlisted: 3 }]));
    gateway.say(report({}, [{ result: "refused", keys: [ann, long], counts: [4, 1], error: 0, unlisted: 0 }]));
    gateway.say(report({}, [{ result: "admitted", keys: [bob], counts: [1] }]));
    const top = async (query = "") => (await running.call("GET", `/apps/shop/top?policy=books${query}`)).body;
    await until("all are shown", 30_000, async () => (await top()).admitted.length === 1);
    expect(await top("&limit=2")).toMatchObject({
      window: "minute",
      admitted: [{ key: ["bob", "key-of-bob"], atLeast: 1, atMost: 1 }],
      refused: [
        { key: ["ann", "key-of-ann"], atLeast: 13, atMost: 14 },
        { key: ["bob", "key-of-bob"], atLeast: 2, atMost: 3 },
      ],
      othersAtMost: { admitted: 0, refused: 4 },
    });
    expect((await top("&window=hour")).refused[2]).toEqual({ hash: long, atLeast: 1, atMost: 4 });
  });

  it("show credentials only to those who may change the policy", async () => {
    const running = await startWithPolicy();
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({}, [{ result: "refused", keys: [encoded("ann")], counts: [1] }]));
    const token = async (role: string) =>
      (await running.call("POST", "/tokens?wait=0s", { body: { name: role, app: "shop", role } })).body.token;
    const seen = async (role: string) => {
      const { body } = await running.call("GET", "/apps/shop/top?policy=books", { token: await token(role) });
      return body.refused[0]?.key;
    };
    await until("it is shown", 30_000, async () => (await seen("editor")) !== undefined);
    expect(await seen("editor")).toEqual(["ann", "key-of-ann"]);
    expect(await seen("viewer")).toEqual(["ann", expect.stringMatching(/^sha256:[0-9a-f]{12}$/)]);
  });
});

describe("the stream of events", () => {
  const kinds = (reader: EventReader) => reader.events.map(({ event }) => event);

  it("tells of gateways, revisions and traffic", async () => {
    const running = await startWithPolicy();
    const events = await followEvents(running, "?app=shop&policy=books");
    await events.next(({ event }) => event === "revision");
    const gateway = await connectGateway(running, "gw-1");
    expect(await events.next(({ event }) => event === "gateway")).toMatchObject({
      data: { id: "gw-1", connected: true },
    });
    const put = await running.call("PUT", "/apps/shop/policies/books", { body: { ...policy, priority: 1 } });
    const { revision } = put.body;
    await events.next(({ event, data }) => event === "revision" && data["revision"] === revision);
    const snapshots = await gateway.next("snapshot");
    gateway.apply(snapshots.revision === revision ? snapshots : await gateway.next("snapshot"));
    await events.next(({ event, data }) => event === "gateway" && data["revision"] === revision);
    gateway.say(report({ allowed: 3 }, [{ result: "admitted", keys: [encoded("ann")], counts: [3] }]));
    expect(await events.next(({ event }) => event === "traffic")).toMatchObject({
      data: { policy: "books", admitted: 3 },
    });
    await events.next(({ event, data }) => event === "top" && (data["admitted"] as unknown[]).length === 1);
    gateway.socket.terminate();
    await events.next(({ event, data }) => event === "gateway" && data["connected"] === false);
  });

  it("does not tell of another app's traffic", async () => {
    const running = await startWithPolicy();
    await running.call("PUT", "/apps/bank", { body: { realm: {} } });
    const { token } = (
      await running.call("POST", "/tokens?wait=0s", { body: { name: "v", app: "bank", role: "viewer" } })
    ).body;
    expect((await running.call("GET", "/events?app=shop", { token })).status).toBe(403);
    expect(kinds(await followEvents(running, "", token))).not.toContain("traffic");
  });

  it("ends soon after its token is revoked, and at once when the control plane stops", async () => {
    const running = await startWithPolicy();
    const { token, id } = (
      await running.call("POST", "/tokens?wait=0s", { body: { name: "v", app: "shop", role: "viewer" } })
    ).body;
    const [own, admins] = [await followEvents(running, "?app=shop", token), await followEvents(running, "?app=shop")];
    await running.call("DELETE", `/tokens/${id}`);
    await own.ended;
    expect(admins.isOpen()).toBe(true);
    await running.stop();
    await admins.ended;
  });

  it("has no answer to HEAD, which would be a stream that nobody reads", async () => {
    const running = await startControlPlane();
    expect((await running.call("HEAD", "/events")).status).toBe(405);
  });

  it("is refused to a token that follows many already", async () => {
    const running = await startWithPolicy();
    const readers: EventReader[] = [];
    for (let i = 0; i < 20; i++) readers.push(await followEvents(running, ""));
    const refused = await running.call("GET", "/events");
    expect([refused.status, refused.body.code]).toEqual([429, "too-many-streams"]);
    readers[0]?.stop();
    await until("there is room", 30_000, async () => {
      const reader = await followEvents(running, "").catch(() => undefined);
      return reader !== undefined;
    });
  });
});
