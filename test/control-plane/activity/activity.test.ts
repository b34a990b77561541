// What gateways report of their traffic, as the API shows it.

import type { PolicyActivity } from "@sluice/limiter/protocol/activity.ts";
import type { GatewayMessage } from "@sluice/limiter/protocol/push-messages.ts";
import { describe, expect, it } from "vitest";
import { type EventReader, followEvents } from "../../fixtures/clients/event-reader.ts";
import { cookieOf, signInByToken } from "../../fixtures/clients/signed-in.ts";
import {
  adminToken,
  perSecond,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

const policy = { ...perSecond(1), key: ["header:x-user", "header:x-api-key"] };
const none = { allowed: 0, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
const encoded = (user: string) => `2:${user.length}:${user}key-of-${user}`;

async function startWithPolicy(surroundings: Parameters<typeof startControlPlane>[1] = {}): Promise<Running> {
  const running = await startControlPlane({}, surroundings);
  await running.call("PUT", "/apps/shop", { body: { realm: {} } });
  await running.call("PUT", "/apps/shop/policies/books", { body: policy });
  return running;
}

/** What a gateway counted in the last second. */
function report(counts: Partial<PolicyActivity>, keys: object[] = []): GatewayMessage {
  const nowMs = Date.now();
  const policies = [{ app: "shop", policy: "books", fromMs: nowMs - 500, ...none, ...counts }];
  const own = keys.map((one) => ({
    app: "shop",
    policy: "books",
    key: policy.key,
    sinceMs: nowMs - 10_000,
    error: 0,
    unlisted: 0,
    ...one,
  }));
  return {
    type: "activity",
    nowMs,
    workers: [{ toMs: nowMs, policies, keys: own as never }],
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
    await until("both are shown", async () => (await sums(running, path)).admitted === 10);
    for (const query of ["?policy=books", "?step=minute", "?policy=books&since=1h&step=second"]) {
      expect(await sums(running, path + query)).toEqual({ admitted: 10, refused: 4, delayed: 2 });
    }
    const { body } = await running.call("GET", `${path}?policy=books&since=2h`);
    expect(body).toMatchObject({ app: "shop", policy: "books", step: "minute", complete: true });
    expect(await sums(running, "/apps/default/traffic")).toEqual({ admitted: 0, refused: 0, delayed: 0 });
  });

  it("by minute outlives a restart, also what is reported late and what came last", async () => {
    let nowMs = Date.now();
    const surroundings = { now: () => nowMs };
    const first = await startWithPolicy(surroundings);
    const gateway = await connectGateway(first, "gw-1");
    const admitted = async (plane: Running) => (await sums(plane, "/apps/shop/traffic?since=2h")).admitted;
    const say = async (message: GatewayMessage, all: number) => {
      gateway.say(message);
      await until("it is shown", async () => (await admitted(first)) === all);
    };
    await say(report({ allowed: 7 }), 7);
    nowMs += 70_000;
    const stored = async () => {
      const rows = await first.app.database.selectFrom("traffic_minutes").selectAll().execute();
      const ofApp = ({ traffic }: { traffic: string }) =>
        (JSON.parse(traffic) as { name: string; counts: number[] }[]).find(({ name }) => name === "shop/");
      return rows.reduce((sum, row) => sum + (ofApp(row)?.counts[0] ?? 0), 0);
    };
    await until("the minute is stored", async () => (await stored()) === 7);
    // It was cut off from the control plane at that time.
    const late = report({ allowed: 4, fromMs: Date.now() - 70_000 });
    (late as { workers: { toMs: number }[] }).workers.forEach((worker) => {
      worker.toMs = Date.now() - 70_000;
    });
    await say(late, 11);
    await until("the minute is stored again", async () => (await stored()) === 11);
    await say(report({ allowed: 2 }), 13);
    await first.stop();
    const second = await startControlPlane({ SLUICE_DATA_DIR: first.dataDir }, surroundings);
    expect(await admitted(second)).toBe(13);
  });

  it("and keys of a deleted app are not those of an app that gets its name", async () => {
    let nowMs = Date.now();
    const running = await startWithPolicy({ now: () => nowMs });
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({ allowed: 7 }, [{ result: "admitted", keys: [encoded("ann")], counts: [7] }]));
    const queries = ["", "?policy=books", "?since=2h", "?since=2h&policy=books"].map(
      (query) => `/apps/shop/traffic${query}`,
    );
    const seen = async () => {
      const traffic = await Promise.all(queries.map(async (path) => (await sums(running, path)).admitted));
      const top = await running.call("GET", "/apps/shop/top?policy=books&window=hour");
      return [...traffic, top.body.admitted[0]?.atLeast ?? 0];
    };
    await until("all is shown", async () => (await seen()).every((count) => count === 7));
    await running.call("DELETE", "/apps/shop/policies/books");
    expect((await running.call("DELETE", "/apps/shop")).status).toBe(200);
    nowMs += 360_000;
    await running.call("PUT", "/apps/shop", { body: { realm: {} } });
    await running.call("PUT", "/apps/shop/policies/books", { body: policy });
    expect(await seen()).toEqual([0, 0, 0, 0, 0]);
    gateway.say(report({ allowed: 5 }));
    await gateway.untilHeard();
    nowMs += 10_000;
    const since = { "last-event-id": String(nowMs - 3_500_000) };
    for (const query of ["", "&policy=books"]) {
      const stream = await followEvents(running, `?app=shop${query}`, adminToken, since);
      const told = () => stream.events.filter(({ event }) => event === "traffic").map(({ data }) => data["admitted"]);
      await until("the new app's traffic is told", async () => told().includes(5));
      expect(told()).toEqual([5]);
      stream.stop();
    }
  });

  it("is shown by policy, the busiest first", async () => {
    const running = await startWithPolicy();
    await running.call("PUT", "/apps/shop/policies/pens", { body: { ...policy, name: "pens" } });
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({ allowed: 7, refused: 2 }));
    gateway.say(report({ policy: "pens", allowed: 1, refused: 5 }));
    const busiest = async (query: string) =>
      (await running.call("GET", `/apps/shop/traffic/policies${query}`)).body.policies as Record<string, unknown>[];
    await until("both are shown", async () => (await busiest("")).length === 2);
    const [pens, books] = await busiest("");
    expect(pens).toMatchObject({ policy: "pens", admitted: 1, refused: 5 });
    expect(books).toMatchObject({ policy: "books", admitted: 7, refused: 2 });
    const minutes = pens?.["refusedByMinute"] as number[];
    // The app is not older.
    expect(minutes.length).toBeLessThanOrEqual(2);
    expect(minutes.reduce((sum, refused) => sum + refused, 0)).toBe(5);
    expect(await busiest("?by=admitted&limit=1")).toEqual([books]);
  });

  it("is shown by app, the busiest first, to whoever may see the app", async () => {
    const running = await startWithPolicy();
    for (const app of ["bank", "gone"]) await running.call("PUT", `/apps/${app}`);
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({ app: "gone", refused: 9 }));
    gateway.say(report({ allowed: 1, refused: 2 }));
    gateway.say(report({ policy: "pens", refused: 3 }));
    gateway.say(report({ app: "bank", allowed: 7, refused: 4 }));
    const busiest = async (query = "", token = adminToken) =>
      (await running.call("GET", `/traffic${query}`, { token })).body.apps as Record<string, unknown>[];
    await untilPasses(async () => expect(await busiest()).toHaveLength(3));
    await running.call("DELETE", "/apps/gone");
    const [shop, bank] = await busiest();
    expect([shop, bank]).toMatchObject([
      { app: "shop", admitted: 1, refused: 5 },
      { app: "bank", admitted: 7, refused: 4 },
    ]);
    const minutes = shop?.["refusedByMinute"] as number[];
    expect(minutes.length).toBeGreaterThanOrEqual(15);
    expect(minutes.reduce((sum, refused) => sum + refused, 0)).toBe(5);
    expect(minutes.slice(0, -2).every((refused) => refused === 0)).toBe(true);
    expect(await busiest("?by=admitted&limit=1")).toEqual([bank]);
    expect(await busiest("?limit=1")).toEqual([shop]);
    const { token } = (await running.call("POST", "/tokens", { body: { name: "x", app: "bank", role: "viewer" } }))
      .body;
    expect(await busiest("", token)).toEqual([bank]);
  });

  it("of an app does not count for a later app of the same name", async () => {
    let nowMs = Date.now();
    const running = await startWithPolicy({ now: () => nowMs });
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({ refused: 5 }));
    const busiest = async () => (await running.call("GET", "/traffic")).body.apps;
    await untilPasses(async () => expect(await busiest()).toMatchObject([{ app: "shop", refused: 5 }]));
    nowMs += 120_000;
    await running.call("DELETE", "/apps/shop/policies/books");
    await running.call("DELETE", "/apps/shop");
    expect(await busiest()).toEqual([]);
    await running.call("PUT", "/apps/shop");
    expect(await busiest()).toEqual([]);
  });

  it("is shown since any time that can be said", async () => {
    const { call } = await startWithPolicy();
    for (const since of ["366d", "99999999999d", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]) {
      expect((await call("GET", `/apps/shop/traffic?since=${since}`)).status).toBe(200);
    }
  });

  it.each([
    ["/apps/shop/traffic?policy=pens", 404, "policy-not-found"],
    ["/apps/none/traffic", 404, "app-not-found"],
    ["/apps/shop/traffic?since=yesterday", 400, "invalid-request"],
    ["/apps/shop/traffic?since=2026-11-23T12:00:00", 400, "invalid-request"],
    ["/apps/shop/traffic?since=2026-02-30T12:00:00Z", 400, "invalid-request"],
    ["/apps/shop/traffic?step=day", 400, "invalid-request"],
    ["/apps/none/traffic/policies", 404, "app-not-found"],
    ["/apps/shop/traffic/policies?by=delayed", 400, "invalid-request"],
    ["/apps/shop/traffic/policies?since=2h", 400, "invalid-request"],
    ["/traffic?by=delayed", 400, "invalid-request"],
    ["/traffic?since=2h", 400, "invalid-request"],
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
    await until("all are shown", async () => (await top()).admitted.length === 1);
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
    await until("it is shown", async () => (await seen("editor")) !== undefined);
    expect(await seen("editor")).toEqual(["ann", "key-of-ann"]);
    expect(await seen("viewer")).toEqual(["ann", expect.stringMatching(/^hmac:[0-9a-f]{12}$/)]);
  });

  it("show what the policy says is secret only to those who may change it, and what it says is not to all", async () => {
    const running = await startWithPolicy();
    const secret = { "header:X-User": true, "header:x-api-key": false };
    await running.call("PUT", "/apps/shop/policies/books", { body: { ...policy, secret } });
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({}, [{ result: "refused", keys: [encoded("ann")], counts: [1] }]));
    const { token } = (await running.call("POST", "/tokens", { body: { name: "v", app: "shop", role: "viewer" } }))
      .body;
    const seen = async (as: string) =>
      (await running.call("GET", "/apps/shop/top?policy=books", { token: as })).body.refused[0]?.key;
    await untilPasses(async () => expect(await seen(adminToken)).toEqual(["ann", "key-of-ann"]));
    expect(await seen(token)).toEqual([expect.stringMatching(/^hmac:[0-9a-f]{12}$/), "key-of-ann"]);
  });

  it("are those of the policy's present key: values of another key would mean something else", async () => {
    const running = await startWithPolicy();
    const gateway = await connectGateway(running, "gw-1");
    const shown = async () => (await running.call("GET", "/apps/shop/top?policy=books&window=hour")).body.refused;
    const put = (key: string[]) => running.call("PUT", "/apps/shop/policies/books", { body: { ...policy, key } });
    gateway.say(report({}, [{ result: "refused", keys: [encoded("ann")], counts: [1] }]));
    await until("it is shown", async () => (await shown()).length === 1);
    await put(["ip", "query:plan"]);
    expect(await shown()).toEqual([]);
    gateway.say(
      report({}, [{ key: ["ip/32/64", "query:plan"], result: "refused", keys: ["2:2:::free"], counts: [3] }]),
    );
    await until("keys of the new key are shown", async () => (await shown()).length === 1);
    expect((await shown())[0].key).toEqual(["::", "free"]);
    await put(policy.key);
    expect((await shown())[0].key).toEqual(["ann", "key-of-ann"]);
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
    expect(await events.next(({ event }) => event === "unfinished")).toMatchObject({
      data: { policy: "books", points: [{ admitted: 3 }] },
    });
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

  it("ends soon after its token is revoked or its session is over, and at once when the control plane stops", async () => {
    let nowMs = Date.now();
    const running = await startWithPolicy({ now: () => nowMs });
    const { token, id } = (
      await running.call("POST", "/tokens?wait=0s", { body: { name: "v", app: "shop", role: "viewer" } })
    ).body;
    const { browser } = await signInByToken(running);
    const cookie = `sluice-session=${await cookieOf(running, browser)}`;
    const [own, admins] = [await followEvents(running, "?app=shop", token), await followEvents(running, "?app=shop")];
    const ofSession = await followEvents(running, "?app=shop", "", { cookie });
    await running.call("DELETE", `/tokens/${id}`);
    nowMs += 6_000;
    await own.ended;
    expect([ofSession.isOpen(), admins.isOpen()]).toEqual([true, true]);
    nowMs += 30 * 86_400_000;
    await ofSession.ended;
    expect(admins.isOpen()).toBe(true);
    await running.stop();
    await admins.ended;
  });

  it("hides credentials as soon as its reader may not change the policy any more", async () => {
    let nowMs = Date.now();
    const running = await startWithPolicy({ now: () => nowMs });
    const gateway = await connectGateway(running, "gw-1");
    gateway.say(report({}, [{ result: "refused", keys: [encoded("ann")], counts: [1] }]));
    await running.call("POST", "/members", { body: { name: "eve", roles: { shop: "editor" } } });
    const { token } = (await running.call("POST", "/tokens?wait=0s", { body: { name: "t", member: "eve" } })).body;
    const events = await followEvents(running, "?app=shop&policy=books", token);
    const top = async () => {
      nowMs += 6_000;
      const { data } = await events.next(({ event }) => event === "top");
      return (data["refused"] as { key: string[] }[])[0]?.key[1] ?? "";
    };
    await until("the value is shown", async () => (await top()) === "key-of-ann");
    await running.call("PATCH", "/members/eve", { body: { roles: { shop: "viewer" } } });
    await until("only a hash is shown", async () => (await top()).startsWith("hmac:"));
  });

  it("goes on where it was after a lost connection", async () => {
    let nowMs = Date.now();
    const running = await startWithPolicy({ now: () => nowMs });
    const gateway = await connectGateway(running, "gw-1");
    const traffic = (reader: EventReader) => reader.next(({ event }) => event === "traffic");
    const first = await followEvents(running, "?app=shop");
    gateway.say(report({ allowed: 1 }));
    await until("it is counted", async () => (await sums(running, "/apps/shop/traffic")).admitted === 1);
    nowMs += 5_000;
    const { id = "" } = await traffic(first);
    first.stop();
    gateway.say(report({ allowed: 2 }));
    await until("it is counted", async () => (await sums(running, "/apps/shop/traffic")).admitted === 3);
    nowMs += 60_000;
    const second = await followEvents(running, "?app=shop", adminToken, { "last-event-id": id });
    expect((await traffic(second)).data["admitted"]).toBe(2);
    expect(second.events.filter(({ event }) => event === "traffic")).toHaveLength(1);
  });

  it("goes on after an hour, and leaves no error in the log", async () => {
    const lines: string[] = [];
    let nowMs = Date.now() - 3_600_000;
    const logTo = { write: (line: string) => void lines.push(line) };
    const running = await startWithPolicy({ now: () => nowMs, logTo });
    nowMs += 3_600_000;
    const gateway = await connectGateway(running, "gw-1");
    const secondsAgo = Array.from({ length: 3_500 }, (_, i) => 3_510 - i);
    for (let i = 0; i < secondsAgo.length; i += 50) {
      const workers = secondsAgo.slice(i, i + 50).map((seconds) => {
        const toMs = nowMs - seconds * 1_000;
        const counts = { allowed: 3, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
        return { toMs, policies: [{ app: "shop", policy: "books", fromMs: toMs - 400, ...counts }], keys: [] };
      });
      gateway.say({ type: "activity", nowMs, workers } as never);
      await gateway.untilHeard();
    }
    const since = { "last-event-id": String(nowMs - 59 * 60_000) };
    const stream = await followEvents(running, "?app=shop&policy=books", adminToken, since);
    const traffic = () => stream.events.filter(({ event }) => event === "traffic");
    await until("all is told", async () => traffic().length >= 3_490);
    expect(stream.isOpen()).toBe(true);
    const ids = traffic().map(({ id }) => Number(id));
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    stream.stop();
    await running.stop();
    expect(lines.filter((line) => JSON.parse(line).level >= 40)).toEqual([]);
  });

  it("tells of each gateway of a fleet whose ids are 768 KB together", async () => {
    const running = await startWithPolicy();
    const ids = Array.from({ length: 6_000 }, (_, i) => `${"g".repeat(120)}${String(i).padStart(8, "0")}`);
    const list = running.app.fleet.list.bind(running.app.fleet);
    const gateway = { epoch: "", revision: 0, disconnectedAtMs: undefined, refused: undefined };
    running.app.fleet.list = () => [...list(), ...ids.map((id) => ({ ...gateway, id }) as never)];
    const stream = await followEvents(running, "");
    const told = () => stream.events.filter(({ event }) => event === "gateway").map(({ data }) => data["id"]);
    await until("all are told", async () => told().length >= ids.length);
    expect(told()).toEqual(ids);
    expect(stream.isOpen()).toBe(true);
  });

  it("does not keep the control plane from stopping, whenever it begins", async () => {
    const running = await startWithPolicy();
    const events = `${running.url}/api/v1/events?app=shop&policy=books`;
    const headers = { authorization: `Bearer ${adminToken}` };
    let begun = 0;
    const read = async () => {
      const response = await fetch(events, { headers });
      begun += 1;
      await response.text();
    };
    // The stop begins while some have begun, and others are on their way.
    const ended = Array.from({ length: 20 }, () => read().catch(() => undefined));
    await until("some have begun", async () => begun >= 5);
    const late = Array.from({ length: 20 }, () => read().catch(() => undefined));
    await running.stop();
    await Promise.all([...ended, ...late]);
  });

  it("has no answer to HEAD, which would hold a place that nobody frees", async () => {
    const running = await startWithPolicy();
    const headers = { authorization: `Bearer ${adminToken}` };
    for (let i = 0; i < 21; i++) {
      expect((await fetch(`${running.url}/api/v1/events`, { method: "HEAD", headers })).status).toBe(405);
    }
    expect((await running.call("GET", "/events")).status).toBe(200);
  });

  it("of many tokens of one app ends, and leaves its place to somebody of another app", async () => {
    const running = await startWithPolicy();
    await running.call("PUT", "/apps/crm", { body: { realm: {} } });
    const tokenOf = async (app: string, name: string): Promise<string> =>
      (await running.call("POST", "/tokens", { body: { name, app, role: "viewer" } })).body.token;
    const readers: EventReader[] = [];
    for (let i = 0; i < 10; i++) {
      const token = await tokenOf("shop", `viewer-${i}`);
      for (let stream = 0; stream < 20; stream++) readers.push(await followEvents(running, "", token));
    }
    const other = await followEvents(running, "?app=crm", await tokenOf("crm", "viewer"));
    await other.next(({ event }) => event === "revision");
    await until(
      "one of those with the most has ended",
      () => readers.filter((reader) => reader.isOpen()).length === 199,
    );
    expect(other.isOpen()).toBe(true);
    // Within the app, the tokens with the most leave their places to others.
    const late = await followEvents(running, "", await tokenOf("shop", "viewer-10"));
    await late.next(({ event }) => event === "revision");
    await until("another one has ended", () => readers.filter((reader) => reader.isOpen()).length === 198);
    expect([other.isOpen(), late.isOpen()]).toEqual([true, true]);
  });

  it("is refused to a token that follows many already", async () => {
    const running = await startWithPolicy();
    const readers: EventReader[] = [];
    for (let i = 0; i < 20; i++) readers.push(await followEvents(running, ""));
    const refused = await running.call("GET", "/events");
    expect([refused.status, refused.body.code]).toEqual([429, "too-many-streams"]);
    readers[0]?.stop();
    await until("there is room", async () => {
      const reader = await followEvents(running, "").catch(() => undefined);
      return reader !== undefined;
    });
  });
});
