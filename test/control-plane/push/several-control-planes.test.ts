// What control planes of one database have in common: changes, sessions, tokens and limits of requests; and how they and their
// gateways notice that they do not have in common what they should.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Announcements } from "../../../control-plane/src/push/announcements.ts";
import type { Gateway } from "../../../control-plane/src/push/fleet.ts";
import { RedisIdentities } from "../../../control-plane/src/push/redis-identities.ts";
import { PostgresChannel } from "../../../control-plane/src/storage/engines/postgres-channel.ts";
import type { Position } from "../../../control-plane/src/storage/epoch.ts";
import { ask, signInByToken } from "../../fixtures/clients/signed-in.ts";
import { openPushSocket } from "../../fixtures/clients/simulated-gateway.ts";
import { rightsOf } from "../../fixtures/documents/documented-rights.ts";
import { processorMs } from "../../fixtures/measures/processor-time.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  onePerSecond,
  perSecond,
  type Running,
  send,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { RedisCluster } from "../../fixtures/servers/redis-cluster.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

let server: DatabaseServer;
beforeAll(async () => {
  server = await PostgresServer.start({ hasty: true });
});
afterAll(() => server.remove());

async function two(env: Record<string, string> = {}): Promise<[Running, Running]> {
  const common = { SLUICE_DATABASE_URL: await server.createDatabase(), ...env };
  return [await startControlPlane(common), await startControlPlane(common)];
}

async function startRedis(args: readonly string[] = []): Promise<RedisServer> {
  const redis = new RedisServer(await freePort(), {}, args);
  onFinished(() => redis.stop("SIGKILL"));
  await redis.start();
  return redis;
}

const changes = "sluice:changes:0";
const readyz = async (plane: Running) => (await plane.call("GET", "readyz")).body;

/** Listens as a control plane does. @returns what comes */
async function listenTo(port: number): Promise<string[]> {
  const listener = new Redis({ port, lazyConnect: true });
  onFinished(() => listener.disconnect());
  const heard: string[] = [];
  listener.on("message", (_, text) => heard.push(text));
  await listener.connect();
  await listener.subscribe(changes);
  return heard;
}

describe("a session or a token", () => {
  it("of one control plane is good at the other, and ends at both at once", async () => {
    const [one, other] = await two();
    const { browser, csrf } = await signInByToken(one);
    // Cookies belong to a host, whatever its port.
    expect((await ask(other, browser, "GET", "/session")).status).toBe(200);
    expect((await ask(other, browser, "PUT", "/apps/shop", { body: {}, csrf })).status).toBeLessThan(300);
    expect((await ask(one, browser, "DELETE", "/session", { csrf })).status).toBeLessThan(300);
    expect((await ask(other, browser, "GET", "/apps")).status).toBe(401);
    const { token, id } = (await other.call("POST", "/tokens", { body: { name: "ann", app: "shop", role: "editor" } }))
      .body;
    expect((await one.call("GET", "/apps/shop/policies", { token })).status).toBe(200);
    expect((await other.call("DELETE", `/tokens/${id}`)).status).toBe(200);
    expect((await one.call("GET", "/apps/shop/policies", { token })).status).toBe(401);
  });
});

describe("limits of requests", () => {
  /** @returns how many requests of one token are answered, of so many sent to each control plane at once */
  async function answered(planes: readonly Running[], token: string, each: number): Promise<number> {
    const sent = planes.flatMap(({ url }) =>
      Array.from({ length: each }, () => send(url, "GET", "/session", { token })),
    );
    return (await Promise.all(sent)).filter(({ status }) => status !== 429).length;
  }

  it("hold for all control planes together, and the one that is left gets the whole again", async () => {
    let nowMs = 0;
    const uptimeMs = () => nowMs;
    const env = {
      SLUICE_DATABASE_URL: await server.createDatabase(),
      SLUICE_API_RATE: "10:40",
      SLUICE_FAILED_SIGN_IN_RATE: "1:10",
    };
    const one = await startControlPlane(env, { uptimeMs });
    const other = await startControlPlane(env, { uptimeMs });
    const planes = [one, other];
    const policyOf = async (plane: Running) => (await plane.call("GET", "/apps")).headers.get("ratelimit-policy");
    // The one that comes later knows of the other before it serves anybody.
    expect(await policyOf(other)).toBe('"token";q=20;w=4');
    await untilPasses(async () => expect(await policyOf(one)).toBe('"token";q=20;w=4'));
    const { token } = (await one.call("POST", "/tokens", { body: { name: "ann", app: "default", role: "viewer" } }))
      .body;
    expect(await answered(planes, token, 40)).toBe(40);
    nowMs += 1_000;
    expect(await answered(planes, token, 40)).toBe(10);
    // None of them is known, so each try counts as a failed sign-in.
    expect(await answered(planes, "wrong-token-of-nobody", 20)).toBe(10);
    await other.stop();
    await untilPasses(async () => expect(await policyOf(one)).toBe('"token";q=40;w=4'));
    nowMs += 4_000;
    expect(await answered([one], token, 60)).toBe(40);
  });
});

describe("a change is told to other control planes", () => {
  it("by Redis, and garbage or a lie in the channel does no harm", async () => {
    const redis = await startRedis();
    const [one, other] = await two({ SLUICE_REDIS_URL: redis.url });
    const heard = await listenTo(redis.port);
    const stored = await one.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
    const { epoch } = one.app.publisher.current;
    const { revision } = stored.body;
    await untilPasses(() => expect(heard.map((text) => JSON.parse(text))).toContainEqual({ epoch, revision }));
    const gateway = await connectGateway(other, "there");
    gateway.apply(await gateway.next("snapshot"));
    const lies = [
      "",
      "{",
      "null",
      "[]",
      "7",
      '"text"',
      "x".repeat(100_000),
      JSON.stringify({ epoch, revision: 1e300 }),
    ];
    const positions = [
      { epoch, revision: 1_000_000 },
      { epoch, revision: -1 },
      { epoch: "", revision: 1 },
      { epoch: "another", revision: 1 },
      { epoch: { $gt: "" }, revision: "1" },
      JSON.parse('{"__proto__":{"epoch":"x"},"revision":1}'),
    ];
    for (const text of [...lies, ...positions.map((position) => JSON.stringify(position))]) {
      for (let i = 0; i < 20; i += 1) await redis.command("PUBLISH", changes, text);
    }
    // A change waits for gateways that its control plane knows of, and it hears of the other's a little later.
    await untilPasses(async () => expect((await one.call("GET", "/gateways")).body.connected).toBe(1));
    const again = one.call("PUT", "/apps/default/policies/books?wait=30s", { body: perSecond(2) });
    gateway.apply(await gateway.next("snapshot"));
    expect((await again).body.applied).toEqual({ gateways: 1, acked: 1, refused: 0 });
    for (const plane of [one, other]) {
      expect(await readyz(plane)).toMatchObject({ status: "ok", alarms: [], degraded: [] });
      expect(plane.app.publisher.current).toMatchObject({ epoch, revision: revision + 1 });
    }
  });

  it("by a Redis Cluster, at whatever node they listen", async () => {
    const cluster = await RedisCluster.start(3);
    onFinished(() => cluster.stop());
    const [one] = await two({ SLUICE_REDIS_URL: cluster.url() });
    const heard = await Promise.all(cluster.nodes.map(({ port }) => listenTo(port)));
    await untilPasses(async () => expect((await readyz(one)).redis).toBe("ok"));
    const { body } = await one.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
    const { epoch } = one.app.publisher.current;
    const told = JSON.stringify({ epoch, revision: body.revision });
    for (const texts of heard) await untilPasses(() => expect(texts).toContain(told));
  });

  it("with the documented rights; without them by the rounds, and the log says which right is missing", async () => {
    const documented = rightsOf("control plane, one Redis");
    const named = (name: string, rights: readonly string[]) => ["--user", name, "on", ">s3cret", ...rights];
    const redis = await startRedis([
      ...named("few", documented),
      ...named("enough", [...documented, "&sluice:changes:*", "+publish", "+subscribe"]),
    ]);
    for (const [user, refused] of [["few", true] as const, ["enough", false] as const]) {
      const lines: string[] = [];
      const env = {
        SLUICE_DATABASE_URL: await server.createDatabase(),
        SLUICE_REDIS_URL: `redis://${user}:s3cret@127.0.0.1:${redis.port}`,
        SLUICE_LOG_LEVEL: "warn",
      };
      const one = await startControlPlane(env, { logTo: { write: (line) => void lines.push(line) } });
      const other = await startControlPlane(env, { logTo: { write: () => {} } });
      await untilPasses(async () => expect((await readyz(one)).redis).toBe("ok"));
      const { body } = await other.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
      await untilPasses(() => expect(one.app.publisher.current.revision).toBe(body.revision));
      const isSaid = () => lines.filter((line) => line.includes("does not let control planes tell each other")).length;
      if (refused) await untilPasses(() => expect(isSaid()).toBe(1));
      else
        await untilPasses(async () => expect(await redis.command("PUBSUB", "NUMSUB", changes)).toEqual([changes, 2]));
      expect(isSaid()).toBe(refused ? 1 : 0);
      expect((await readyz(one)).redis).toBe("ok");
      await Promise.all([one.stop(), other.stop()]);
    }
  });

  it("by PostgreSQL without a Redis, also after its connection was lost", async () => {
    const [one, other] = await two();
    const database = await nameOfDatabase(one);
    const listening = async () =>
      (
        await server.query(
          "select pid from pg_stat_activity where datname = current_database() and application_name = 'sluice listens'",
          database,
        )
      ).length;
    await untilPasses(async () => expect(await listening()).toBe(2));
    await server.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'sluice listens'",
      database,
    );
    await untilPasses(async () => expect(await listening()).toBe(2));
    const { body } = await one.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
    await untilPasses(() => expect(other.app.publisher.current.revision).toBe(body.revision));
  });

  it("as a hint that makes the other look, which it does no more often than the rounds if the hint is wrong", async () => {
    const url = new URL(await server.createDatabase());
    const channelOf = () =>
      new PostgresChannel({
        kind: "postgres",
        host: url.hostname,
        port: Number(url.port),
        user: decodeURIComponent(url.username),
        password: decodeURIComponent(url.password),
        database: url.pathname.slice(1),
        tls: undefined,
        connections: 2,
      });
    let stored: Position = { epoch: "e", revision: 1 };
    let held = stored;
    let looks = 0;
    const listening = new Announcements({
      channel: channelOf(),
      current: () => held,
      publishIfBehind: async () => {
        looks += 1;
        held = stored;
      },
      beatEveryMs: undefined,
      onAnotherDatabase: () => {},
    });
    const teller = channelOf();
    const echoes: string[] = [];
    teller.listen((text) => echoes.push(text));
    listening.start();
    onFinished(async () => {
      await listening.stop();
      await teller.stop();
    });
    // Told again and again until both are connected.
    stored = { epoch: "e", revision: 2 };
    await untilPasses(async () => {
      await teller.publish(JSON.stringify(stored));
      expect(held).toEqual(stored);
    });
    const before = looks;
    const beganMs = performance.now();
    for (let i = 0; i < 200; i += 1) await teller.publish(JSON.stringify({ epoch: "e", revision: 1_000 + i }));
    await untilPasses(() => expect(echoes.filter((text) => text.includes("1199"))).toHaveLength(1));
    // Each listens over a connection of its own.
    await untilPasses(() => expect(looks).toBeGreaterThan(before));
    expect(looks - before).toBeLessThanOrEqual(2 + (performance.now() - beganMs) / 250);
  });
});

/** @returns the name of the database that a control plane uses */
async function nameOfDatabase({ app }: Running): Promise<string> {
  const { sql } = await import("kysely");
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(app.database);
  return rows[0]?.name as string;
}

describe("another database", () => {
  it("on the same Redis is an alarm at both control planes, until it is gone", async () => {
    const redis = await startRedis();
    const [url, otherUrl] = [await server.createDatabase(), await server.createDatabase()];
    const lines: string[] = [];
    const logTo = { write: (line: string) => void lines.push(line) };
    const one = await startControlPlane(
      { SLUICE_DATABASE_URL: url, SLUICE_REDIS_URL: redis.url, SLUICE_LOG_LEVEL: "warn" },
      { logTo },
    );
    const stranger = await startControlPlane({ SLUICE_DATABASE_URL: otherUrl, SLUICE_REDIS_URL: redis.url });
    const alarm = [{ alarm: "another-database", gateways: 0 }];
    for (const plane of [one, stranger]) {
      await untilPasses(async () => expect((await readyz(plane)).alarms).toEqual(alarm));
    }
    const said = () => lines.filter((line) => line.includes("another-database"));
    expect(said()).toHaveLength(1);
    expect(said()[0]).toContain(stranger.app.publisher.current.epoch);
    expect((await readyz(one)).degraded).toEqual(["A control plane with another database uses the same Redis."]);
    expect((await one.call("GET", "metrics")).body).toMatch(
      /^sluice_control_gateway_alarms\{alarm="another-database"\} 0$/m,
    );
    await stranger.stop();
    await untilPasses(async () => expect((await readyz(one)).alarms).toEqual([]));
  });
});

describe("another Redis", () => {
  it("of a gateway, or of some of its workers, is an alarm after 20 seconds, which names the gateway", async () => {
    const redis = await startRedis();
    let nowMs = Date.now();
    const lines: string[] = [];
    const logTo = { write: (line: string) => void lines.push(line) };
    const plane = await startControlPlane(
      { SLUICE_REDIS_URL: redis.url, SLUICE_LOG_LEVEL: "warn" },
      { now: () => nowMs, logTo },
    );
    await untilPasses(async () => expect(await redis.command("GET", "sluice:epoch")).toEqual(expect.any(String)));
    const id = String(await redis.command("GET", "sluice:epoch"));
    const say = async (name: string, own: string | undefined, strayWorkers?: number) => {
      const gateway = await connectGateway(plane, name);
      gateway.apply(await gateway.next("snapshot"));
      gateway.say({ type: "status", counters: {}, redis: { state: "ok", sinceSeconds: 1, id: own, strayWorkers } });
      return gateway;
    };
    await say("right", id);
    await say("older", undefined);
    const stray = await say("stray", "another-one");
    const divided = await say("divided", id, 1);
    const alarms = async () => {
      const { gateways } = (await plane.call("GET", "/gateways")).body;
      return gateways.map(({ id, alarm }: { id: string; alarm: string | null }) => [id, alarm]);
    };
    const none = [
      ["divided", null],
      ["older", null],
      ["right", null],
      ["stray", null],
    ];
    await untilPasses(async () => {
      const { body } = await plane.call("GET", "/gateways");
      expect(body.redis.id).toBe(id);
      expect(body.gateways.find(({ id }: { id: string }) => id === "stray").redis.id).toBe("another-one");
    });
    const looks = vi.spyOn(RedisIdentities.prototype, "look");
    await until("it has looked at them", () => looks.mock.calls.length > 1);
    looks.mockRestore();
    expect(await alarms()).toEqual(none);
    nowMs += 21_000;
    await untilPasses(async () => expect((await alarms())[3]).toEqual(["stray", "another-redis"]));
    expect(await alarms()).toEqual([["divided", "another-redis"], none[1], none[2], ["stray", "another-redis"]]);
    await untilPasses(async () =>
      expect((await readyz(plane)).alarms).toEqual([{ alarm: "another-redis", gateways: 2 }]),
    );
    expect((await plane.call("GET", "metrics")).body).toContain(
      'sluice_control_gateway_alarms{alarm="another-redis"} 2',
    );
    expect(lines.filter((line) => /"gateways":\["(?:stray","divided|divided","stray)"\]/.test(line))).toHaveLength(1);
    for (const gateway of [stray, divided]) {
      gateway.say({ type: "status", counters: {}, redis: { state: "ok", sinceSeconds: 1, id } });
    }
    await untilPasses(async () => expect(await alarms()).toEqual(none));
  });

  it("of each of four thousand gateways is found in some milliseconds, and the log names a few", async () => {
    const gateways = Array.from({ length: 4_000 }, (_, i) => {
      return { id: `g${i}`, redis: { state: "ok", sinceSeconds: 1, id: `redis-${i}` } } as unknown as Gateway;
    });
    const identities = new RedisIdentities();
    identities.look(gateways, undefined, 0);
    const beganMs = processorMs();
    expect(identities.look(gateways, undefined, 30_001)).toBe(true);
    const tookMs = processorMs() - beganMs;
    expect(identities.strays.size).toBe(4_000);
    expect(tookMs).toBeLessThan(100);

    let nowMs = Date.now();
    const lines: { gateways?: string[]; inAll?: number }[] = [];
    const logTo = { write: (line: string) => void lines.push(JSON.parse(line)) };
    const plane = await startControlPlane({ SLUICE_LOG_LEVEL: "error" }, { now: () => nowMs, logTo });
    for (let i = 0; i < 30; i++) {
      const gateway = await connectGateway(plane, `g${i}`);
      gateway.say({ type: "status", counters: {}, redis: { state: "ok", sinceSeconds: 1, id: `redis-${i}` } });
      await gateway.untilHeard();
    }
    const looks = vi.spyOn(RedisIdentities.prototype, "look");
    await until("it has looked at them", () => looks.mock.calls.length > 1);
    looks.mockRestore();
    nowMs += 21_000;
    await untilPasses(() =>
      expect(lines.map(({ gateways: named, inAll }) => [named?.length, inAll])).toEqual([[10, 30]]),
    );
  });

  it("is that of the few if the control plane has none, and that of all if nobody has the most", () => {
    const gateway = (id: string, redis: string | undefined, disconnectedAtMs?: number) =>
      ({ id, disconnectedAtMs, redis: { state: "ok", sinceSeconds: 1, id: redis } }) as unknown as Gateway;
    const straysOf = (gateways: readonly Gateway[], own?: string) => {
      const identities = new RedisIdentities();
      identities.look(gateways, own, 0);
      expect([...identities.strays]).toEqual([]);
      identities.look(gateways, own, 30_001);
      return [...identities.strays];
    };
    const [a, b, c] = [gateway("a", "x"), gateway("b", "x"), gateway("c", "y")];
    expect(straysOf([a, b, c])).toEqual(["c"]);
    expect(straysOf([a, c])).toEqual(["a", "c"]);
    expect(straysOf([a, b])).toEqual([]);
    expect(straysOf([a])).toEqual([]);
    expect(straysOf([a, b, c], "y")).toEqual(["a", "b"]);
    expect(straysOf([a, b], "y")).toEqual(["a", "b"]);
    expect(straysOf([a, b, gateway("gone", "y", 1), gateway("unknown", undefined)])).toEqual([]);
  });
});

describe("a gateway token that another control plane replaces", () => {
  it("closes the sockets that it let in, within seconds, and no other", async () => {
    const common = { SLUICE_DATABASE_URL: await server.createDatabase() };
    const running = await startControlPlane(common);
    const gateway = await connectGateway(running, "g1");
    gateway.apply(await gateway.next("snapshot"));
    const token = "another-gateway-token-0123456789";
    await startControlPlane({ ...common, SLUICE_GATEWAY_TOKEN: token });
    const renewed = await openPushSocket(running.url, token);
    onFinished(() => renewed.terminate());
    const beganAtMs = performance.now();
    expect(await gateway.closed).toBe(1008);
    expect(performance.now() - beganAtMs).toBeLessThan(15_000);
    expect(renewed.readyState).toBe(renewed.OPEN);
  });
});

describe("traffic of a day that gateways report to one control plane", () => {
  const none = { refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };

  it("does not make the others stand that it is relayed to", async () => {
    const common = { SLUICE_DATABASE_URL: await server.createDatabase() };
    const here = await startControlPlane(common);
    const there = await startMeasuredProcess(common);
    const gateway = await connectGateway(here, "g1");
    const report = (app: string, lengthMs: number) => {
      const nowMs = Date.now();
      const policies = Array.from({ length: 500 }, (_, i) => {
        return { app, policy: `p${i}`, fromMs: nowMs - lengthMs, allowed: 100_000, ...none };
      });
      gateway.say({ type: "activity", nowMs, workers: [{ toMs: nowMs, policies, keys: [] }] });
    };
    const admitted = async () => {
      const { body } = await send(there.url, "GET", "/apps/default/traffic", {});
      return body.points.reduce((sum: number, point: { admitted: number }) => sum + point.admitted, 0);
    };
    const turnsMs: number[] = [];
    for (let round = 1; round <= 4; round++) {
      await there.longestTurnMs();
      for (let i = 0; i < 8; i++) report(`a${i}`, 86_400_000);
      report("default", 0);
      // What came before it has been taken over, too.
      await untilPasses(async () => expect(await admitted()).toBe(round * 500 * 100_000));
      turnsMs.push(await there.longestTurnMs());
    }
    expect(Math.min(...turnsMs)).toBeLessThan(20);
  });
});

describe("a thousand gateways that report as much as they may", () => {
  it("make neither their control plane stand nor the one that is told of them, and all are told of", async () => {
    const common = { SLUICE_DATABASE_URL: await server.createDatabase() };
    const here = await startMeasuredProcess(common);
    const there = await startMeasuredProcess(common);
    const text = "x".repeat(500);
    const problems = Array.from({ length: 20 }, () => ({ path: text, expected: text, got: text }));
    const gateways: Awaited<ReturnType<typeof connectGateway>>[] = [];
    while (gateways.length < 1_000) {
      const from = gateways.length;
      gateways.push(
        ...(await Promise.all(Array.from({ length: 50 }, (_, i) => connectGateway({ url: here.url }, `g${from + i}`)))),
      );
    }
    const connectedThere = async () => (await send(there.url, "GET", "/gateways", {})).body.connected;
    await untilPasses(async () => expect(await connectedThere()).toBe(1_000));
    const turnsMs: [number, number][] = [];
    for (let revision = 1; revision <= 3; revision++) {
      for (const gateway of gateways) {
        gateway.say({ type: "refused", epoch: "e", revision, problems });
        await gateway.untilHeard();
      }
      await Promise.all([here.longestTurnMs(), there.longestTurnMs()]);
      for (const gateway of gateways)
        gateway.say({ type: "status", counters: { allowed: revision }, errors: { a: revision } });
      await sleep(3_000);
      turnsMs.push(await Promise.all([here.longestTurnMs(), there.longestTurnMs()]));
    }
    console.log("longest turns here and there, in ms:", turnsMs);
    expect(Math.min(...turnsMs.map(([ms]) => ms))).toBeLessThan(25);
    expect(Math.min(...turnsMs.map(([, ms]) => ms))).toBeLessThan(25);
    // Of those who have left, too.
    for (const { socket } of gateways.slice(0, 10)) socket.terminate();
    await untilPasses(async () => expect(await connectedThere()).toBe(990));
    await untilPasses(async () => {
      const { alarms } = (await send(there.url, "GET", "readyz", {})).body;
      expect(alarms).toEqual([{ alarm: "sluice-errors", gateways: 990 }]);
    });
  });
});
