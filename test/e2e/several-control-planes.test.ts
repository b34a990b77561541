// Two control planes on one database, each a process of its own, with two gateways each, which know both. The tests of a database
// share them, so the last of them are those that take things apart.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import type { DatabaseServer } from "../fixtures/servers/database-server.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { MariadbServer } from "../fixtures/servers/mariadb-server.ts";
import { idFor, Plane, startGatewayOf } from "../fixtures/servers/plane.ts";
import { PostgresServer } from "../fixtures/servers/postgres-server.ts";
import { RedisCluster } from "../fixtures/servers/redis-cluster.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { roomMs, until } from "../fixtures/until.ts";

const window = "366d";
const books = (quota: number) => ({
  match: { paths: ["/books"] },
  limits: [{ algorithm: "fixed-window", quota, window }],
});
const limitAt = async (gateway: LoneGateway, path = "books") =>
  Number((await ask(`${gateway.url}/${path}`)).headers["x-ratelimit-limit"] ?? Number.NaN);

const kinds = [
  ["PostgreSQL", () => PostgresServer.start({ hasty: true }), false],
  ["PostgreSQL, with Redis", () => PostgresServer.start({ hasty: true }), true],
  ["MariaDB, with Redis", () => MariadbServer.start({ hasty: true }), true],
] as const;

describe.each(kinds)("two control planes on %s", (_, startServer, withRedis) => {
  let server: DatabaseServer;
  let redis: RedisServer | undefined;
  let proxy: TcpProxy;
  let one: Plane;
  let other: Plane;
  const gateways: LoneGateway[] = [];
  let quota = 1_000_000;

  beforeAll(async () => {
    server = await startServer();
    const ports = (await freePorts(3)) as [number, number, number];
    const env: NodeJS.ProcessEnv = {};
    if (withRedis) {
      redis = new RedisServer(ports[2]);
      await redis.start();
      env["SLUICE_REDIS_URL"] = redis.url;
    }
    const databaseUrl = await server.createDatabase();
    proxy = await TcpProxy.start(server.port);
    const throughProxy = databaseUrl.replace(`:${server.port}/`, `:${proxy.port}/`);
    one = await new Plane(ports[0], { ...env, SLUICE_DATABASE_URL: throughProxy }).start();
    other = await new Plane(ports[1], { ...env, SLUICE_DATABASE_URL: databaseUrl }).start();
    const urls = [one.url, other.url];
    for (const [index, first] of [one.url, one.url, other.url, other.url].entries()) {
      gateways.push(await startGatewayOf(idFor(first, urls, `g${index}`), urls, env));
    }
    await until("each has two gateways, and both know of all", async () => {
      const here = await Promise.all([one, other].map((plane) => plane.gatewaysHere()));
      const known = await Promise.all([one, other].map(async (plane) => (await plane.call("GET", "/gateways")).body));
      return here.every((count) => count === 2) && known.every(({ connected }) => connected === 4);
    });
  });
  afterAll(async () => {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await Promise.all([one?.remove(), other?.remove(), proxy?.refuse(), redis?.stop("SIGKILL")]);
    await server?.remove();
  });

  const limits = () => Promise.all(gateways.map((gateway) => limitAt(gateway)));

  /** Changes the policy, and checks that whatever the answer says is so. */
  async function change(plane: Plane, wait = "30s"): Promise<{ gateways: number; acked: number }> {
    quota += 1;
    const mine = quota;
    const { status, body } = await plane.call("PUT", `/apps/default/policies/books?wait=${wait}`, books(mine));
    expect(status, JSON.stringify(body)).toBeLessThan(300);
    const have = (await limits()).filter((limit) => limit >= mine).length;
    expect(have, `${JSON.stringify(body)}, and so many gateways have it`).toBeGreaterThanOrEqual(body.applied.acked);
    return body.applied;
  }

  it("a change by either is in force on all four gateways", async () => {
    for (const plane of [one, other]) {
      for (let i = 0; i < 3; i += 1) {
        quota += 1;
        expect((await plane.call("PUT", "/apps/default/policies/books", books(quota))).status).toBeLessThan(300);
        await until("all four have it", async () => (await limits()).every((limit) => limit === quota));
      }
      expect(await change(plane)).toEqual({ gateways: 4, acked: 4, refused: 0 });
    }
  });

  it.runIf(withRedis)("all gateways report the same Redis as both control planes see", async () => {
    await until("all have reported", async () => {
      const answers = await Promise.all([one, other].map((plane) => plane.call("GET", "/gateways")));
      const ids = answers.flatMap(({ body }) => [
        body.redis.id,
        ...body.gateways.map(({ redis }: { redis: { id?: string } | null }) => redis?.id),
      ]);
      return ids.length === 10 && ids[0] !== undefined && new Set(ids).size === 1;
    });
  });

  it("a control plane that was cut off from the database catches up, and no write that was answered is lost", async () => {
    const stored: string[] = [];
    const put = async (plane: Plane, name: string) => {
      const { status } = await plane.call("PUT", `/apps/default/policies/${name}`, {
        ...books(5),
        match: { paths: ["/elsewhere"] },
      });
      if (status < 300) stored.push(name);
      return status;
    };
    // Some of these are under way when the database goes away.
    const writes = Array.from({ length: 20 }, (_, i) => sleep(i * 10).then(() => put(one, `early-${i}`)));
    await sleep(100);
    await proxy.refuse();
    for (const status of await Promise.all(writes)) expect([201, 503]).toContain(status);
    expect(await put(one, "refused")).toBe(503);
    expect(await put(other, "meanwhile")).toBe(201);
    quota += 1;
    expect((await other.call("PUT", "/apps/default/policies/books", books(quota))).status).toBe(200);
    await until("its own gateways have it", async () => (await limits()).filter((l) => l === quota).length === 2);
    await proxy.accept();
    await until("all four have it", async () => (await limits()).every((limit) => limit === quota));
    for (const plane of [one, other]) {
      await until("it lists all that was stored", async () => {
        const { status, body } = await plane.call("GET", "/apps/default/policies");
        const names = status === 200 ? body.policies.map(({ name }: { name: string }) => name) : [];
        return stored.every((name) => names.includes(name));
      });
    }
    await until("both count all", async () => {
      const { gateways: count, acked } = await change(one);
      return count === 4 && acked === 4;
    });
  });

  it("one that stays cut off from the database gives its gateways to the other, and takes them again afterwards", async () => {
    const hereBefore = await one.gatewaysHere();
    expect(hereBefore).toBeGreaterThan(0);
    await proxy.refuse();
    await until("all four are at the other", async () => (await other.gatewaysHere()) === 4);
    const applied = await change(other);
    expect(applied).toEqual({ gateways: 4, acked: 4, refused: 0 });
    await proxy.accept();
    // Some go back to the first, for the tests that follow.
    await other.kill();
    await until("all four are back", async () => (await one.gatewaysHere()) === 4);
    await other.start();
    await until("both know of all", async () => {
      const known = await Promise.all([one, other].map((plane) => plane.call("GET", "/gateways")));
      return known.every(({ status, body }) => status === 200 && body.connected === 4);
    });
  });

  it("the gateways of one that is killed come to the other, and ?wait tells the truth meanwhile", async () => {
    await one.kill();
    let haveMoved = false;
    const watched = until("all four are here", async () => (await other.gatewaysHere()) === 4).then(() => {
      haveMoved = true;
    });
    // A failure is reported where it is awaited.
    watched.catch(() => {});
    const answers: { gateways: number; acked: number }[] = [];
    const giveUpAtMs = performance.now() + roomMs;
    while (!haveMoved && performance.now() < giveUpAtMs) answers.push(await change(other, "2s"));
    await watched;
    answers.push(await change(other));
    for (const answer of answers) expect(answer.gateways).toBe(4);
    expect(answers.at(-1)).toEqual({ gateways: 4, acked: 4, refused: 0 });
    // Ten seconds later, nothing of the killed one counts any more, and no gateway counts twice. Nothing else shows that they have passed.
    await sleep(10_500);
    expect((await other.call("GET", "/gateways")).body.connected).toBe(4);
    for (const gateway of gateways.slice(0, 2)) {
      expect(gateway.log).toContain(`connected to the control plane at ${other.url.replace("http", "ws")}`);
    }
  });

  it.runIf(withRedis)(
    "shares of all gateways add up to the limit while Redis is away, whoever connects them",
    async () => {
      await one.start();
      const policy = {
        scope: "cluster",
        match: { paths: ["/shared"] },
        limits: [{ algorithm: "fixed-window", quota: 40, window }],
      };
      // The killed one has none of the four, and both say that there are four.
      await until("both know of all", async () => {
        const known = await Promise.all([one, other].map((plane) => plane.call("GET", "/gateways")));
        return known.every(({ body }) => body.connected === 4);
      });
      const fifth = await startGatewayOf("fifth", [one.url], { SLUICE_REDIS_URL: redis?.url });
      try {
        const put = () => one.call("PUT", "/apps/default/policies/shared?wait=30s", policy);
        await until("all five have it", async () => (await put()).body.applied.acked === 5);
        await until("every gateway knows of five", async () => {
          const counts = await Promise.all([...gateways, fifth].map((one) => one.metric("sluice_live_gateways")));
          return counts.every((count) => count === 5);
        });
        await redis?.stop("SIGKILL");
        let admitted = 0;
        for (const gateway of [...gateways, fifth]) {
          for (let i = 0; i < 12; i += 1) {
            const { headers } = await ask(`${gateway.url}/shared`);
            if (headers["retry-after"] === undefined) admitted += 1;
            expect(Number(headers["x-ratelimit-limit"])).toBe(8);
          }
        }
        expect(admitted).toBe(40);
        // Without Redis, changes still reach all, by the rounds.
        quota += 1;
        const { body } = await one.call("PUT", "/apps/default/policies/books?wait=30s", books(quota));
        expect(body.applied).toEqual({ gateways: 5, acked: 5, refused: 0 });
      } finally {
        await fifth.stop();
      }
    },
  );
});

describe("a gateway with several control planes", () => {
  const planes: Plane[] = [];
  const started: LoneGateway[] = [];
  afterAll(async () => {
    await Promise.all(started.map((gateway) => gateway.stop()));
    await Promise.all(planes.map((plane) => plane.remove()));
  });

  async function startPlane(env: NodeJS.ProcessEnv = {}): Promise<Plane> {
    const [port] = (await freePorts(1)) as [number];
    const plane = await new Plane(port, env).start();
    planes.push(plane);
    return plane;
  }

  const timesSaid = (gateway: LoneGateway, text: string) => gateway.log.split(text).length - 1;

  it("goes to another one if the first refuses its token, and says so once", async () => {
    const refusing = await startPlane({ SLUICE_GATEWAY_TOKEN: "another-token-of-gateways" });
    const [closedPort] = (await freePorts(1)) as [number];
    const closed = `http://127.0.0.1:${closedPort}`;
    const urls = [refusing.url, closed];
    const gateway = await startGatewayOf(idFor(refusing.url, urls, "refused"), urls);
    started.push(gateway);
    await until("it has tried both", () => /refused this gateway's token \(401\)/.test(gateway.log));
    await until("and the other", () => timesSaid(gateway, "cannot reach the control plane") === 1);
    // It tries both again and again. A busy machine only tries less often.
    await sleep(4_000);
    expect(timesSaid(gateway, "refused this gateway's token (401)")).toBe(1);
    expect(timesSaid(gateway, "cannot reach the control plane")).toBe(1);

    const willing = await new Plane(closedPort, {}).start();
    planes.push(willing);
    // The pauses between its attempts have grown meanwhile.
    await until("it is connected", async () => (await willing.gatewaysHere()) === 1);
    expect(gateway.log).toContain(`connected to the control plane at ${willing.url.replace("http", "ws")}`);
  });

  it("reports which Redis Cluster it uses", async () => {
    const cluster = await RedisCluster.start(3);
    try {
      const env = { SLUICE_REDIS_URL: cluster.url() };
      const plane = await startPlane(env);
      started.push(await startGatewayOf("in-a-cluster", [plane.url], env));
      await until("it has reported", async () => {
        const { body } = await plane.call("GET", "/gateways");
        return body.redis.id !== undefined && body.gateways[0]?.redis?.id === body.redis.id;
      });
    } finally {
      await cluster.stop();
    }
  });

  it("goes to another one when its own falls silent, as when a machine is lost", async () => {
    const planes = [await startPlane(), await startPlane()] as const;
    const urls = planes.map(({ url }) => url);
    const gateway = await startGatewayOf(idFor(planes[0].url, urls, "silent"), urls);
    started.push(gateway);
    await until("it is connected", async () => (await planes[0].gatewaysHere()) === 1);
    planes[0].freeze();
    await until("it is connected elsewhere", async () => (await planes[1].gatewaysHere()) === 1);
  });

  it("says once that its control planes have different databases, when the first one's policies come back", async () => {
    const [one, other] = [await startPlane(), await startPlane()];
    const urls = [one.url, other.url];
    const gateway = await startGatewayOf(idFor(one.url, urls, "torn"), urls);
    started.push(gateway);
    const said = "lead to control planes with different databases";
    const hasIt = (plane: Plane) =>
      until("it has the policies of this one", async () => {
        const { body } = await plane.call("GET", "/gateways");
        return body.gateways[0]?.connected === true && body.gateways[0].revision === body.revision;
      });
    for (const plane of [one, other]) await plane.call("PUT", "/apps/default/policies/books", books(5));
    await hasIt(one);
    for (const [gone, next] of [
      [one, other],
      [other, one],
      [one, other],
    ] as const) {
      expect(timesSaid(gateway, said)).toBe(gone === other || timesSaid(gateway, said) === 0 ? 0 : 1);
      await gone.kill();
      await hasIt(next);
      await gone.start();
    }
    await until("it is said", () => timesSaid(gateway, said) > 0);
    // Another line would come soon after. A busy machine only writes fewer.
    await sleep(1_000);
    expect(timesSaid(gateway, said)).toBe(1);
  });

  it("does not start with a URL that is none, and names it, whether the launcher or an own nginx reads it", async () => {
    const own = LoneGateway.start({
      edit: (config) => config.replace("env SLUICE_CONTROL_URL;", "env SLUICE_CONTROL_URL=http://a:1,ftp://b;"),
    });
    await expect(own).rejects.toThrow(
      'SLUICE_CONTROL_URL: expected URL 2 of 2 to be http://HOST:PORT or https://HOST:PORT, got "ftp://b"',
    );
    const withPassword = LoneGateway.start({
      edit: (config) => config.replace("env SLUICE_CONTROL_URL;", "env SLUICE_CONTROL_URL=http://u:s3cret@a:1;"),
    });
    await expect(withPassword).rejects.toThrow(
      /^(?!.*s3cret).*SLUICE_CONTROL_URL: .* got "a URL that may have a password"/s,
    );
    await expect(startGatewayOf("wrong", ["http://127.0.0.1:1", "ftp://127.0.0.1"])).rejects.toThrow(
      /SLUICE_CONTROL_URL: expected http:\/\/host:port or https:\/\/host:port, or several of them separated by commas, got "ftp:\/\/127\.0\.0\.1" as URL 2 of 2/,
    );
  });
});
