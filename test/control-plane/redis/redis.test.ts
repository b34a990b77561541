// Tests the control plane's own connection to Redis: gateways find their scripts there, whatever happens to Redis, and
// operators see whether it answers.

import { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { Redis } from "ioredis";
import { beforeAll, describe, expect, it } from "vitest";
import { readRedisScripts } from "../../../control-plane/src/redis/redis-scripts.ts";
import { requireGatewayBuild } from "../../../launch/gateway-build.ts";
import { rightsOf } from "../../fixtures/documents/documented-rights.ts";
import { type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { Program } from "../../fixtures/servers/program.ts";
import { RedisCluster } from "../../fixtures/servers/redis-cluster.ts";
import { primaryName, RedisSentinel, sentinelPassword } from "../../fixtures/servers/redis-sentinel.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";

import { beside, onFinished } from "../../fixtures/side-by-side.ts";
import { until } from "../../fixtures/until.ts";

let sha1s: string[];
beforeAll(async () => {
  await requireGatewayBuild();
  sha1s = Object.values(readRedisScripts()).map(({ sha1 }) => sha1);
});

const hasScripts = (replies: unknown) => (replies as number[]).every((one) => one === 1);
const state = async (control: Running) => (await control.call("GET", "readyz")).body.redis;
const untilRedis = (control: Running, expected: string) =>
  until(`Redis is ${expected}`, async () => (await state(control)) === expected);
const books = {
  scope: "cluster",
  key: ["header:x-user"],
  limits: [{ algorithm: "fixed-window", quota: 9, window: "366d" }],
};

async function worksFor(control: Running, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    const topUp = { body: { policy: "books", key: [key], units: 1 } };
    expect((await control.call("POST", "/apps/default/counters", topUp)).status).toBe(200);
    for (const method of ["DELETE", "GET"]) {
      const { status, body } = await control.call(method, `/apps/default/counters?policy=books&key=${key}`);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(body.limits).toMatchObject([{ remaining: 9 }]);
    }
  }
}

describe("one Redis", () => {
  it("has its reason for refusing a sign-in shown to admins of all apps only", async () => {
    const server = new RedisServer(await freePort(), {}, ["--user", "few", "on", ">s3cret", "+@all"]);
    onFinished(() => server.stop());
    await server.start();
    for (const database of ["0", "1"]) {
      const control = await startControlPlane({
        SLUICE_REDIS_URL: `redis://few:another@127.0.0.1:${server.port}/${database}`,
      });
      await untilRedis(control, "failing");
      const { body } = await control.call("POST", "/tokens", { body: { name: "v", app: "default", role: "viewer" } });
      const asViewer = await control.call("GET", "/gateways", { token: body.token });
      expect(asViewer.body.redis).toEqual({ state: "failing", since: expect.any(String) });
      expect((await control.call("GET", "/gateways")).body.redis.error).toMatch(/^WRONGPASS (?!.*another)/);
    }
  });

  it("has missing rights reported by name, before a counter is requested", async () => {
    const rights = rightsOf("control plane, one Redis");
    const named = rights.filter((rule) => rule.startsWith("+"));
    const users = named.map((rule) => [rule.slice(1), rights.filter((other) => other !== rule)] as const);
    const server = new RedisServer(
      await freePort(),
      {},
      [
        ...users,
        ["many", ["~sluice:*", "+eval", "+select", "+get", "+ping"]] as const,
        ["other-keys", [...named, "~other:*"]] as const,
      ].flatMap(([name, rules]) => [...["--user", name, "on", ">s3cret", ...rules]]),
    );
    onFinished(() => server.stop());
    await server.start();
    const errorAs = async (user: string) => {
      const control = await startControlPlane({
        SLUICE_REDIS_URL: `redis://${user}:s3cret@127.0.0.1:${server.port}/1`,
      });
      await untilRedis(control, "failing");
      await control.call("PUT", "/apps/default/policies/books", { body: books });
      return [control, (await control.call("GET", "/gateways")).body.redis.error] as const;
    };
    const withoutOne = async (command: string) => {
      const [control, error] = await errorAs(command.replace("|", "%7C"));
      expect(error).toMatch(/NOPERM .* \(the rights that Sluice's user needs are in docs\/cluster.md\)$/);
      expect(error.match(/'[^' ]+'/g)).toEqual([`'${command}'`]);
      if (command !== "del") return;
      const refused = await control.call("DELETE", "/apps/default/counters?policy=books&key=ann");
      expect([refused.status, refused.body.detail]).toEqual([
        503,
        "The policy counts in Redis, which does not let the control plane's user run 'del': docs/cluster.md has the rights that it needs.",
      ]);
    };
    await Promise.all(users.map(([command]) => withoutOne(command)));
    const [, error] = await errorAs("many");
    const missing = ["script|load", "evalsha", "time", "getrange", "set", "setrange", "pexpire", "del"];
    expect(error).toContain(` to run ${missing.map((command) => `'${command}'`).join(", ")} on keys of sluice:* (`);
    const [, otherKeys] = await errorAs("other-keys");
    expect(otherKeys).toContain(
      " to run 'get', 'getrange', 'set', 'setrange', 'pexpire', 'del' on keys of sluice:* (the rights that",
    );
  });

  it("is reported as not Redis, or as requiring a password, if so", async () => {
    const server = new RedisServer(await freePort(), {}, ["--requirepass", "s3cret"]);
    onFinished(() => server.stop());
    await server.start();
    const open = new RedisServer(await freePort());
    onFinished(() => open.stop());
    await open.start();
    const web = createServer((_request, response) => response.end("hello"));
    onFinished(() => void web.close());
    await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
    const there = `127.0.0.1:${(web.address() as AddressInfo).port}`;
    const here = `127.0.0.1:${server.port}`;
    const dead = `127.0.0.1:${await freePort()}`;
    const errorWith = async (url: string) => {
      const control = await startControlPlane({ SLUICE_REDIS_URL: url });
      await untilRedis(control, "failing");
      return (await control.call("GET", "/gateways")).body.redis.error;
    };
    expect(
      await Promise.all([
        errorWith(`redis://${here}`),
        errorWith(`redis://${here}/1`),
        errorWith(`redis://:s3cret@127.0.0.1:${open.port}`),
        errorWith(`redis://${there}`),
        errorWith(`redis://:s3cret@${there}/1`),
        errorWith(`redis+cluster://${there}`),
        errorWith(`redis+cluster://${dead}`),
        errorWith(`rediss://${there}`),
        errorWith(`rediss://${here}`),
      ]),
    ).toEqual([
      "NOAUTH Authentication required. (SLUICE_REDIS_URL has no password)",
      "select: NOAUTH Authentication required. (SLUICE_REDIS_URL has no password)",
      expect.stringMatching(/^auth: ERR AUTH <password> called without any password configured for the default user/),
      `what answers at ${there} does not speak Redis`,
      `what answers at ${there} does not speak Redis`,
      `${there}: what answers at ${there} does not speak Redis`,
      `${dead}: connect ECONNREFUSED ${dead}`,
      `what answers at ${there} does not speak TLS, as rediss:// has it`,
      expect.stringMatching(`: nobody spoke TLS at ${here}, as rediss:// has it$`),
    ]);
  });

  it("is not required if none is configured", async () => {
    const control = await startControlPlane();
    expect(await state(control)).toBe("not-configured");
    expect((await control.call("GET", "/gateways")).body.redis).toEqual({ state: "not-configured" });
  });

  it("is shown as each gateway sees it, with the number of live gateways", async () => {
    const control = await startControlPlane();
    const gateway = await connectGateway(control, "g1");
    await connectGateway(control, "g2");
    gateway.say({ type: "status", counters: {}, redis: { state: "failing", sinceSeconds: 1_800_000_000 } });
    await until("the report has arrived", async () => {
      const { gateways } = (await control.call("GET", "/gateways")).body;
      return gateways[0]?.redis?.state === "failing";
    });
    const { body } = await control.call("GET", "/gateways");
    expect(body.connected).toBe(2);
    const since = "2027-01-15T08:00:00.000Z";
    expect(body.gateways[0].redis).toEqual({ state: "failing", since, strayWorkers: 0, overloadedWorkers: 0 });
    expect(body.gateways[1].redis).toBeNull();
    expect((await control.call("GET", "readyz")).body.gateways).toBe(2);
  });
});

const tls = resolve(import.meta.dirname, "../../fixtures/tls");

/** Starts a Redis with the password s3/cret that speaks TLS. @returns its port */
async function startTlsRedis(): Promise<number> {
  const port = await freePort();
  const server = await Program.start({
    command: "redis-server",
    args: [
      ...["--port", "0", "--tls-port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--requirepass", "s3/cret"],
      ...["--tls-auth-clients", "no", "--tls-ca-cert-file", join(tls, "authority.pem")],
      ...["--tls-cert-file", join(tls, "localhost.pem"), "--tls-key-file", join(tls, "localhost.key")],
    ],
    readyWhen: /Ready to accept connections/,
  });
  onFinished(() => server.stop());
  return port;
}

it("goes on when a connection whose certificate it refused has another error", async () => {
  const port = await startTlsRedis();
  const program = await Program.start({
    command: process.execPath,
    args: [join(import.meta.dirname, "refused-certificates.ts"), `localhost:${port}`],
    env: {},
    readyWhen: /^done: (\d+) refused$/m,
  });
  onFinished(() => program.stop());
  const [, refused] = /^done: (\d+) refused$/m.exec(program.output) ?? [];
  expect(Number(refused)).toBeGreaterThanOrEqual(30);
});

it("reaches one Redis by TLS, if its certificate has the name", async () => {
  const port = await startTlsRedis();
  const trusted = getCACertificates();
  onFinished(() => setDefaultCACertificates(trusted));
  const stateAt = async (host: string, expected: string) => {
    const control = await startControlPlane({ SLUICE_REDIS_URL: `rediss://:s3%2Fcret@${host}:${port}` });
    await untilRedis(control, expected);
    return (await control.call("GET", "/gateways")).body.redis.error;
  };
  expect(await stateAt("localhost", "failing")).toMatch(/certificate/);
  setDefaultCACertificates([...trusted, readFileSync(join(tls, "authority.pem"), "utf8")]);
  expect(await stateAt("localhost", "ok")).toBeUndefined();
  expect(await stateAt("127.0.0.1", "failing")).toMatch(/does not match/);
});

// From here on tests run side by side, because each mostly waits.
describe.concurrent("one Redis that is watched", () => {
  beside("has the scripts before a gateway needs them, and again after it has forgotten them", async () => {
    const rights = rightsOf("control plane, one Redis");
    const server = new RedisServer(await freePort(), {}, ["--user", "sluice-control", "on", ">s3cret", ...rights]);
    onFinished(() => server.stop());
    await server.start();
    const control = await startControlPlane({
      SLUICE_REDIS_URL: `redis://sluice-control:s3cret@127.0.0.1:${server.port}/3`,
    });
    await untilRedis(control, "ok");
    expect(hasScripts(await server.command("SCRIPT", "EXISTS", ...sha1s))).toBe(true);

    await server.stop();
    await untilRedis(control, "failing");
    await server.start();
    expect(hasScripts(await server.command("SCRIPT", "EXISTS", ...sha1s))).toBe(false);
    await untilRedis(control, "ok");
    expect(hasScripts(await server.command("SCRIPT", "EXISTS", ...sha1s))).toBe(true);
  });

  beside("has its state shown to operators, and does not change whether the control plane is ready", async () => {
    const server = new RedisServer(await freePort());
    onFinished(() => server.stop("SIGKILL"));
    const control = await startControlPlane({ SLUICE_REDIS_URL: server.url });
    const shown = async () => (await control.call("GET", "/gateways")).body;
    await untilRedis(control, "failing");
    expect((await shown()).redis).toMatchObject({ state: "failing", error: expect.stringContaining("ECONNREFUSED") });
    const startedMs = Date.now();
    await server.start();
    await untilRedis(control, "ok");
    const { redis, connected } = await shown();
    expect([redis.state, connected]).toEqual(["ok", 0]);
    expect(Date.parse(redis.since)).toBeGreaterThanOrEqual(startedMs);
    const metrics = await control.call("GET", "metrics");
    expect(metrics.body).toMatch(/^sluice_control_redis_up 1$/m);

    server.hang();
    await untilRedis(control, "failing");
    const ready = await control.call("GET", "readyz");
    expect([ready.status, ready.body]).toEqual([
      200,
      {
        status: "ok",
        degraded: [expect.stringContaining("Redis")],
        storage: "ok",
        redis: "failing",
        gateways: 0,
        alarms: [],
      },
    ]);
    const policy = await control.call("PUT", "/apps/default/policies/books", { body: books });
    expect(policy.status).toBe(201);
    server.goOn();
    await untilRedis(control, "ok");
  });

  beside(
    "is logged once when it begins to fail and once when that is over, and each failed call is logged once",
    async () => {
      const server = new RedisServer(await freePort());
      onFinished(() => server.stop());
      const lines: { level: number; msg: string; error?: string }[] = [];
      const control = await startControlPlane(
        { SLUICE_REDIS_URL: server.url, SLUICE_LOG_LEVEL: "warn" },
        { logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
      );
      await untilRedis(control, "failing");
      await control.call("PUT", "/apps/default/policies/books", { body: books });
      const refused = await control.call("GET", "/apps/default/counters?policy=books&key=ann");
      expect([refused.status, refused.body.detail]).toEqual([
        503,
        "The policy counts in Redis, which cannot be reached now.",
      ]);
      await server.start();
      await untilRedis(control, "ok");
      await server.stop("SIGKILL");
      await untilRedis(control, "failing");
      const reported = lines.map(({ msg }) => msg);
      const begins = "Redis does not do what the control plane needs; trying again";
      expect(reported).toEqual([
        begins,
        "Redis did not do what was asked of a counter",
        "Redis does what the control plane needs again",
        begins,
      ]);
      for (const line of lines.slice(0, 2)) {
        expect(line.error).toBe(`connect ECONNREFUSED 127.0.0.1:${server.port}`);
        expect(JSON.stringify(line)).not.toMatch(/stack|at .*\.ts/);
      }
    },
  );

  beside("is reported as closing every connection, if so", async () => {
    const server = createTcpServer((socket) => socket.end());
    onFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const urls = [`redis://${address}`, `redis://:s3cret@${address}/1`, `redis+cluster://${address}`];
    await Promise.all(
      urls.map(async (url) => {
        const control = await startControlPlane({ SLUICE_REDIS_URL: url });
        await untilRedis(control, "failing");
        expect((await control.call("GET", "/gateways")).body.redis.error).toMatch(/no connection$/);
      }),
    );
  });

  beside("is retried without a leak while it lacks rights", async () => {
    const few = rightsOf("control plane, one Redis").filter((rule) => rule !== "+script|load");
    const server = new RedisServer(await freePort(), {}, ["--user", "few", "on", ">s3cret", ...few]);
    onFinished(() => server.stop());
    await server.start();
    const former = EventEmitter.defaultMaxListeners;
    const warnings: string[] = [];
    const note = (warning: Error & { emitter?: unknown }) => {
      const { emitter } = warning;
      if (emitter instanceof Redis && emitter.options.port === server.port) warnings.push(warning.message);
    };
    process.on("warning", note);
    onFinished(() => {
      EventEmitter.defaultMaxListeners = former;
      process.off("warning", note);
    });
    EventEmitter.defaultMaxListeners = 3;
    const control = await startControlPlane({ SLUICE_REDIS_URL: `redis://few:s3cret@127.0.0.1:${server.port}` });
    await untilRedis(control, "failing");
    // Each try to connect might warn. A busy machine only tries less often.
    await sleep(4_000);
    expect(warnings).toEqual([]);
  });

  beside.each([
    ["99", ["+@all"], /^select: ERR DB index is out of range/],
    ["1", rightsOf("control plane, one Redis").filter((rule) => rule !== "+select"), /^select: NOPERM .*'select'/],
  ] as [string, string[], RegExp][])(
    "is left alone if database %s is not available, also after a restart",
    async (database, rights, error) => {
      const user = ["--user", "sluice-control", "on", ">s3cret", "~sluice:*", ...rights];
      const server = new RedisServer(await freePort(), {}, user);
      onFinished(() => server.stop());
      await server.start();
      const control = await startControlPlane({
        SLUICE_REDIS_URL: `redis://sluice-control:s3cret@127.0.0.1:${server.port}/${database}`,
      });
      await control.call("PUT", "/apps/default/policies/books", { body: books });
      const isLeftAlone = async () => {
        await until("the reason is told", async () =>
          error.test((await control.call("GET", "/gateways")).body.redis.error),
        );
        const key = "sluice:s3:{default:books:1:ann}:default:fixed-window:31622400000000";
        await server.command("SET", key, "somebody's");
        for (const method of ["GET", "DELETE"]) {
          for (let i = 0; i < 10; i++) {
            const { status } = await control.call(method, "/apps/default/counters?policy=books&key=ann");
            expect(status).toBe(503);
          }
        }
        expect(await state(control)).toBe("failing");
        expect(await server.command("GET", key)).toBe("somebody's");
        expect(await server.command("INFO", "commandstats")).not.toMatch(/cmdstat_(evalsha|eval|del|script)/);
      };
      await isLeftAlone();
      await server.stop();
      await server.start();
      await isLeftAlone();
    },
  );

  beside("is sent nothing on a connection whose SELECT has no reply", async () => {
    const asked = new Set<string>();
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (sent) => {
        for (const [, name] of sent.toString("latin1").matchAll(/^\*\d+\r\n\$\d+\r\n(\w+)/gm)) {
          asked.add(name as string);
          if (name !== "select") socket.write(":0\r\n");
        }
      });
    });
    onFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const control = await startControlPlane({ SLUICE_REDIS_URL: `redis://:s3cret@127.0.0.1:${port}/1` });
    await untilRedis(control, "failing");
    // Whatever it sent would come soon after. A busy machine only sends less.
    await sleep(1_500);
    expect([...asked]).toEqual(["auth", "select"]);
    expect((await control.call("GET", "/gateways")).body.redis.error).toBe("Command timed out");
  });
});

beside(
  "a Redis Cluster has the scripts on every primary, also on one that has just taken over, with the documented rights",
  async () => {
    const user = ["--user", "sluice-control", "on", ">s3cret", ...rightsOf("control plane, Cluster")];
    const cluster = await RedisCluster.start(3, user);
    onFinished(() => cluster.stop());
    const first = cluster.nodes[0] as RedisServer;
    const replica = await cluster.addReplicaOf(first);
    const control = await startControlPlane({ SLUICE_REDIS_URL: cluster.url("sluice-control:s3cret@") });
    await untilRedis(control, "ok");
    for (const node of cluster.nodes.slice(0, 3)) {
      expect(hasScripts(await node.command("SCRIPT", "EXISTS", ...sha1s))).toBe(true);
    }
    await control.call("PUT", "/apps/default/policies/books", { body: books });
    const keys = Array.from({ length: 12 }, (_, i) => `user-${i}`);
    await worksFor(control, keys);

    await first.stop("SIGKILL");
    await until("the replica has taken over and has the scripts", async () => {
      const role = (await replica.command("ROLE")) as string[];
      return role[0] === "master" && hasScripts(await replica.command("SCRIPT", "EXISTS", ...sha1s));
    });
    await untilRedis(control, "ok");
    await worksFor(control, keys);
  },
);

beside.each([["yes"], ["no"]])(
  "a Redis Cluster with full coverage %s is reported as failing, steadily, when a primary is lost or nobody serves a slot",
  async (fullCoverage) => {
    const cluster = await RedisCluster.start(3, ["--cluster-require-full-coverage", fullCoverage]);
    onFinished(() => cluster.stop());
    const third = cluster.nodes[2] as RedisServer;
    const control = await startControlPlane({ SLUICE_REDIS_URL: cluster.url() });
    const reason = async () => (await control.call("GET", "/gateways")).body.redis.error;
    const untilReason = (expected: RegExp) =>
      until(`the reason is ${expected}`, async () => expected.test((await reason()) ?? ""));
    await untilRedis(control, "ok");
    for (const node of cluster.nodes) await node.command("CLUSTER", "DELSLOTS", "0");
    await untilReason(
      fullCoverage === "yes" ? /^127.0.0.1:\d+: CLUSTERDOWN / : /^127.0.0.1:\d+: nobody serves 1 of 16384 slots$/,
    );
    for (const node of cluster.nodes) await node.command("CLUSTER", "ADDSLOTS", "0").catch(() => {});
    await untilRedis(control, "ok");

    await third.stop("SIGKILL");
    await untilRedis(control, "failing");
    const gone = `127.0.0.1:${third.port}: connect ECONNREFUSED 127.0.0.1:${third.port}`;
    // It tries again and again. A busy machine only tries less often.
    for (let i = 0; i < 50; i++) {
      expect(await reason()).toBe(gone);
      await sleep(100);
    }
    expect((await control.call("GET", "metrics")).body).toMatch(/^sluice_control_redis_up 0$/m);
    await third.start();
    await untilRedis(control, "ok");
  },
);

beside("with Sentinel, the new primary has the scripts, with the documented rights", async () => {
  const redis = await RedisSentinel.start(["sluice-control", "on", ">s3cret", ...rightsOf("control plane, Sentinel")]);
  onFinished(() => redis.stop());
  const hosts = redis.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
  const urlOf = (database: number) =>
    `redis+sentinel://sluice-control:s3cret@${hosts}/${primaryName}/${database}?sentinel=:${sentinelPassword}`;
  const dead = `127.0.0.1:${await freePort()}`;
  const failing: [url: string, reason: RegExp][] = [
    [urlOf(99), /^select: ERR DB index is out of range/],
    [
      urlOf(1).replace(/\?.*/, ""),
      /^sentinel: NOAUTH Authentication required. \(SLUICE_REDIS_URL has it behind the name/,
    ],
    [urlOf(1).replace(`/${primaryName}/`, "/other/"), /^the sentinels know no primary of this name$/],
    [urlOf(1).replace(hosts, dead), /^no sentinel can be reached$/],
    [urlOf(1).replace(hosts, `127.0.0.1:${redis.servers[0]?.port}`), /^sentinel: WRONGPASS/],
    [urlOf(1).replace("s3cret", "another"), /^WRONGPASS/],
  ];
  await Promise.all(
    failing.map(async ([url, reason]) => {
      const elsewhere = await startControlPlane({ SLUICE_REDIS_URL: url });
      await untilRedis(elsewhere, "failing");
      expect((await elsewhere.call("GET", "/gateways")).body.redis.error).toMatch(reason);
      await elsewhere.stop();
    }),
  );
  const control = await startControlPlane({ SLUICE_REDIS_URL: urlOf(1) });
  await untilRedis(control, "ok");
  await control.call("PUT", "/apps/default/policies/books", { body: books });
  await worksFor(control, ["ann"]);
  const [sentinel] = redis.sentinels.map(({ port }) => port) as [number];
  const former = await redis.primaryOf(sentinel);
  await redis.kill(former);
  await untilRedis(control, "failing");
  await until("there is another primary", async () => (await redis.primaryOf(sentinel)) !== former);
  await untilRedis(control, "ok");
  const now = await redis.primaryOf(sentinel);
  expect(hasScripts(await redis.command(now, "SCRIPT", "EXISTS", ...sha1s))).toBe(true);
  await worksFor(control, ["ann"]);
});
