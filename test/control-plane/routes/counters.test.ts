// Tests counters in the API: in a real Redis with the rights that docs/cluster.md lists, and on gateways by what they answer.

import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { requireGatewayBuild } from "../../../launch/gateway-build.ts";
import { rightsOf } from "../../fixtures/documents/documented-rights.ts";
import { type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { connectGateway, type GatewayDouble } from "../../fixtures/servers/gateway-double.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { until } from "../../fixtures/until.ts";

const hourly = { name: "hourly", algorithm: "fixed-window", quota: 10, window: "1h" };
const bucket = { name: "bucket", algorithm: "token-bucket", quota: 5, window: "366d", burst: 20 };

let redis: RedisServer;
let client: Redis;
beforeAll(async () => {
  await requireGatewayBuild();
  const rights = rightsOf("control plane, one Redis");
  redis = new RedisServer(await freePort(), {}, ["--user", "sluice-control", "on", ">s3cret", ...rights]);
  await redis.start();
  client = new Redis(redis.url);
});
beforeEach(async () => {
  await client.flushall();
});
afterAll(async () => {
  client?.disconnect();
  await redis?.stop();
});

async function start(policies: Record<string, object>, environment: Record<string, string> = {}): Promise<Running> {
  const url = `redis://sluice-control:s3cret@127.0.0.1:${redis.port}`;
  const control = await startControlPlane({ SLUICE_REDIS_URL: url, ...environment });
  for (const [name, document] of Object.entries(policies)) {
    const { status, body } = await control.call("PUT", `/apps/default/policies/${name}`, { body: document });
    expect(status, JSON.stringify(body)).toBe(201);
  }
  return control;
}

const ready = (control: Running) =>
  until("Redis answers the control plane", async () => {
    const { body } = await control.call("GET", "readyz");
    return body.redis === "ok";
  });

/** Without the key by which control plane and gateways know their Redis. */
const keysOfCounters = async () => (await client.keys("*")).filter((key) => key !== "sluice:epoch");

/** Charges counters as a gateway would. @param argv the numbers for each counter */
async function charge(keys: string[], argv: (string | number)[][]): Promise<void> {
  const { readRedisScripts } = await import("../../../control-plane/src/redis/redis-scripts.ts");
  const script = readRedisScripts()["charge"];
  await client.eval(script?.source ?? "", keys.length, ...keys, ...argv.flat());
}

const hourUs = 3_600_000_000;
const yearUs = 366 * 24 * hourUs;
const keyOf = (values: string, limit: string) => `sluice:s3:{default:books:${values}}:${limit}`;
const hourlyOf = (values: string) => keyOf(values, `hourly:fixed-window:${hourUs}`);
const bucketOf = (values: string) => keyOf(values, `bucket:token-bucket:${yearUs}`);

describe("in Redis", () => {
  const books = { scope: "cluster", key: ["ip", "header:x-user"], limits: [hourly, bucket] };
  const query = "policy=books&key=192.0.2.7&key=ann";
  const charged = (units: number) =>
    charge(
      [hourlyOf("2:9:192.0.2.7ann"), bucketOf("2:9:192.0.2.7ann")],
      [
        ["fixed-window", 10, hourUs, 0, units],
        ["token-bucket", 5, yearUs, 20, units],
      ],
    );

  it("reads what remains to a key, from the counters that gateways charge", async () => {
    const control = await start({ books });
    await ready(control);
    await charged(4);
    const { status, body } = await control.call("GET", `/apps/default/counters?${query}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      app: "default",
      policy: "books",
      scope: "cluster",
      key: ["192.0.2.7", "ann"],
      limits: [
        { name: "hourly", limit: 10, used: 4, remaining: 6 },
        { name: "bucket", limit: 20, used: 4, remaining: 16 },
      ],
      gateways: [],
    });
    const [{ resetAfter }] = body.limits;
    expect(resetAfter).toBeGreaterThan(0);
    expect(resetAfter).toBeLessThanOrEqual(3600);
    // Reading charges nothing.
    const again = await control.call("GET", `/apps/default/counters?${query}`);
    expect(again.body.limits[0]).toMatchObject({ used: 4 });
  });

  it("takes a key as a JSON list too, and an IPv4-mapped address as the IPv4 one", async () => {
    const control = await start({ books });
    await ready(control);
    await charged(4);
    const list = encodeURIComponent(JSON.stringify(["::ffff:192.0.2.7", "ann"]));
    const { body } = await control.call("GET", `/apps/default/counters?policy=books&key=${list}`);
    expect(body.key).toEqual(["192.0.2.7", "ann"]);
    expect(body.limits[0]).toMatchObject({ used: 4 });
  });

  it("counts an IPv6 address by its /64", async () => {
    const control = await start({ books });
    await ready(control);
    const { body } = await control.call("GET", "/apps/default/counters?policy=books&key=2001:DB8:0:1:2:3:4:5&key=ann");
    expect(body.key).toEqual(["2001:db8:0:1:0:0:0:0/64", "ann"]);
  });

  it("resets a key: its counters and its debts, and no other key's", async () => {
    const control = await start({ books });
    await ready(control);
    await charged(4);
    await client.set(`${hourlyOf("2:9:192.0.2.7ann")}:debt`, "1 1 1");
    await client.set(hourlyOf("2:9:192.0.2.7bob"), "1 1");
    const gateway = await connectGateway(control, "g1");
    await gateway.next("fleet");
    const answer = control.call("DELETE", `/apps/default/counters?${query}`);
    const order = await gateway.next("counter");
    expect(order).toEqual({
      type: "counter",
      id: expect.any(Number),
      do: "forget",
      app: "default",
      policy: "books",
      key: ["192.0.2.7", "ann"],
    });
    gateway.say({ type: "counter", id: order.id, limits: [] });
    const { status, body } = await answer;
    expect(status).toBe(200);
    expect(body.limits).toEqual([
      { name: "hourly", limit: 10, used: 0, remaining: 10, resetAfter: expect.any(Number) },
      { name: "bucket", limit: 20, used: 0, remaining: 20, resetAfter: 0 },
    ]);
    expect(body.gateways).toEqual([{ id: "g1", state: "done" }]);
    expect(await keysOfCounters()).toEqual([hourlyOf("2:9:192.0.2.7bob")]);
  });

  it("tops a key up, one limit or all, by no more than was taken", async () => {
    const control = await start({ books });
    await ready(control);
    await charged(8);
    const topUp = (body: object) => control.call("POST", "/apps/default/counters", { body });
    const key = ["192.0.2.7", "ann"];
    const one = await topUp({ policy: "books", key, limit: "bucket", units: 3 });
    expect(one.status).toBe(200);
    expect(one.body.limits.map(({ used }: { used: number }) => used)).toEqual([8, 5]);
    const all = await topUp({ policy: "books", key, units: 6 });
    expect(all.body.limits.map(({ used }: { used: number }) => used)).toEqual([2, 0]);
    // A key without requests gets nothing, and no counter.
    await topUp({ policy: "books", key: ["192.0.2.8", "eve"], units: 5 });
    expect(await client.keys("*eve*")).toEqual([]);
  });

  it.each(["sliding-window", "sliding-log", "leaky-bucket"])("tops a %s up", async (algorithm) => {
    const patient = algorithm === "leaky-bucket" ? { maxDelay: "1h" } : {};
    const control = await start({
      books: { scope: "cluster", limits: [{ name: "only", algorithm, quota: 30, window: "1h", ...patient }] },
    });
    await ready(control);
    const precision = algorithm === "sliding-window" ? hourUs / 10 : algorithm === "leaky-bucket" ? 30 : 0;
    const suffix = algorithm === "sliding-window" ? `/${precision}` : "";
    const key = keyOf("0:", `only:${algorithm}:${hourUs}${suffix}`);
    for (let i = 0; i < 20; i++) await charge([key], [[algorithm, 30, hourUs, precision, 1]]);
    const { body } = await control.call("POST", "/apps/default/counters", { body: { policy: "books", units: 15 } });
    const [{ used }] = body.limits;
    expect(used).toBe(5);
  });

  it("applies the override that a key matches, and resets the policy's own counters too", async () => {
    const vip = [{ ...hourly, quota: 50, window: "2h" }];
    const overrides = [{ key: ["*", "vip"], limits: vip }];
    const control = await start({ books: { ...books, limits: [hourly], overrides } });
    await ready(control);
    await client.set(hourlyOf("2:9:192.0.2.7vip"), "1 1");
    await client.set(keyOf("2:9:192.0.2.7vip", `hourly:fixed-window:${2 * hourUs}`), "1 1");
    const read = await control.call("GET", "/apps/default/counters?policy=books&key=192.0.2.7&key=vip");
    expect(read.body.limits).toMatchObject([{ name: "hourly", limit: 50, remaining: 50 }]);
    await control.call("DELETE", "/apps/default/counters?policy=books&key=192.0.2.7&key=vip");
    expect(await keysOfCounters()).toEqual([]);
  });

  it("shows the debt of a download quota too, and resets it", async () => {
    const control = await start({
      books: { scope: "cluster", cost: { from: "response-bytes" }, limits: [{ ...hourly, quota: 100 }] },
    });
    await ready(control);
    const { readRedisScripts } = await import("../../../control-plane/src/redis/redis-scripts.ts");
    const key = keyOf("0:", `hourly:fixed-window:${hourUs}`);
    const { source } = readRedisScripts().charge_deferred;
    await client.eval(source, 2, key, `${key}:debt`, "fixed-window", 100, hourUs, 0, 350);
    const read = await control.call("GET", "/apps/default/counters?policy=books");
    expect(read.body.limits).toMatchObject([{ used: 100, remaining: 0 }]);
    expect(read.body.limits[0].resetAfter).toBeGreaterThan(2 * 3600);
    const toppedUp = await control.call("POST", "/apps/default/counters", { body: { policy: "books", units: 1 } });
    expect(toppedUp.body.errors).toMatchObject([{ path: "policy", got: '"books"' }]);
    const reset = await control.call("DELETE", "/apps/default/counters?policy=books");
    expect(reset.body.limits).toMatchObject([{ used: 0, remaining: 100 }]);
  });

  it("answers 503 while Redis is unreachable, and serves everything else", async () => {
    const port = await freePort();
    const control = await start({ books }, { SLUICE_REDIS_URL: `redis://127.0.0.1:${port}` });
    for (const method of ["GET", "DELETE"]) {
      const { status, body } = await control.call(method, `/apps/default/counters?${query}`);
      expect([status, body.code]).toEqual([503, "redis-unavailable"]);
    }
    const later = new RedisServer(port);
    onTestFinished(() => later.stop());
    await later.start();
    await ready(control);
    expect((await control.call("GET", `/apps/default/counters?${query}`)).status).toBe(200);
  });

  it.each([
    ["nothing", "$-1\r\n"],
    ["a string", "$3\r\nabc\r\n"],
    ["a short list", "*2\r\n:1\r\n:1\r\n"],
    ["a list of strings", `*5\r\n${"$1\r\na\r\n".repeat(5)}`],
  ])("answers 503 if something that is not our Redis replies %s", async (_, reply) => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (sent) => {
        for (const command of sent.toString("latin1").match(/^\*\d+\r\n\$\d+\r\n\w+/gm) ?? []) {
          const name = command.slice(command.lastIndexOf("\n") + 1);
          socket.write({ evalsha: reply, eval: "*0\r\n" }[name] ?? "+OK\r\n");
        }
      });
    });
    onTestFinished(() => void server.close());
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const settled = { scope: "cluster", cost: { from: "response-bytes" }, limits: [hourly] };
    const control = await start({ books, settled }, { SLUICE_REDIS_URL: `redis://127.0.0.1:${port}` });
    await ready(control);
    const topUp = { policy: "books", key: ["192.0.2.7", "ann"], units: 1 };
    const answers = [
      await control.call("GET", `/apps/default/counters?${query}`),
      await control.call("GET", "/apps/default/counters?policy=settled"),
      await control.call("POST", "/apps/default/counters", { body: topUp }),
    ];
    for (const { status, body } of answers) expect([status, body.code]).toEqual([503, "redis-unavailable"]);
  });

  it("answers 503 without a Redis, for a policy from a time with one", async () => {
    const control = await start({ books });
    await control.stop();
    const without = await startControlPlane({ SLUICE_DATA_DIR: control.dataDir });
    const { status, body } = await without.call("GET", `/apps/default/counters?${query}`);
    expect([status, body.code]).toEqual([503, "redis-unavailable"]);
    expect(body.detail).toContain("SLUICE_REDIS_URL is not set");
  });
});

describe("on gateways", () => {
  const books = { key: ["header:x-user"], limits: [hourly] };
  const reading = { name: "hourly", capacity: 10, remaining: 7, resetAfterUs: 1_500_000 };

  async function answering(control: Running, id: string, answer: object): Promise<GatewayDouble> {
    const gateway = await connectGateway(control, id);
    await gateway.next("fleet");
    void gateway
      .next("counter")
      .then((order) => gateway.say(JSON.stringify({ type: "counter", id: order.id, ...answer })));
    return gateway;
  }

  it("reads each gateway's own, and shows which did not answer or do not know the policy", async () => {
    const control = await start({ books });
    await answering(control, "g1", { limits: [reading] });
    await answering(control, "g2", {});
    const silent = await connectGateway(control, "g3");
    await silent.next("fleet");
    const { status, body } = await control.call("GET", "/apps/default/counters?policy=books&key=ann");
    expect(status).toBe(200);
    expect(body).toEqual({
      app: "default",
      policy: "books",
      scope: "node",
      key: ["ann"],
      gateways: [
        { id: "g1", state: "done", limits: [{ name: "hourly", limit: 10, used: 3, remaining: 7, resetAfter: 2 }] },
        { id: "g2", state: "unknown" },
        { id: "g3", state: "silent" },
      ],
    });
    // Replies that come too late are dropped, and break nothing.
    silent.say({ type: "counter", id: 3, limits: [reading] });
    silent.say({ type: "counter", id: 999, limits: [reading] });
    await silent.untilHeard();
    expect(silent.socket.readyState).toBe(silent.socket.OPEN);
  });

  it.each([
    ["DELETE", "?policy=books&key=ann", undefined, { do: "forget" }],
    [
      "POST",
      "",
      { policy: "books", key: ["ann"], limit: "hourly", units: 3 },
      { do: "top-up", limit: "hourly", units: 3 },
    ],
  ])("%s is sent to them as an order", async (method, search, body, order) => {
    const control = await start({ books });
    const gateway = await answering(control, "g1", { limits: [reading] });
    const answer = await control.call(method, `/apps/default/counters${search}`, body === undefined ? {} : { body });
    expect(answer.body.gateways).toMatchObject([{ id: "g1", state: "done", limits: [{ remaining: 7 }] }]);
    const id = expect.any(Number);
    expect(gateway.received.at(-1)).toEqual({
      type: "counter",
      id,
      app: "default",
      policy: "books",
      key: ["ann"],
      ...order,
    });
  });

  it("refuses to top up limits that cannot be topped up or do not exist", async () => {
    const slots = { name: "slots", algorithm: "concurrency", quota: 3 };
    const control = await start({ books: { limits: [hourly, slots] } });
    const topUp = (body: object) =>
      control.call("POST", "/apps/default/counters", { body: { policy: "books", ...body } });
    expect((await topUp({ units: 1 })).body.errors).toMatchObject([{ path: "limit", expected: "one of hourly" }]);
    expect((await topUp({ units: 1, limit: "slots" })).body.errors).toMatchObject([{ got: '"slots"' }]);
    expect((await topUp({ units: 1, limit: "x" })).body.errors).toMatchObject([{ path: "limit", got: '"x"' }]);
    expect((await topUp({ units: 0 })).body.errors).toMatchObject([{ path: "units" }]);
    expect((await topUp({ units: 1, key: ["a"] })).body.errors).toMatchObject([{ path: "key" }]);
  });

  it.each([
    ["policy=books", { path: "key", expected: "1 value, for the policy's key [header:x-user]", got: "0 values" }],
    ["policy=books&key=a&key=b", { path: "key", got: "2 values" }],
    ["policy=books&key=", { path: "key[0]", expected: "a value: without one nothing is counted" }],
    ["policy=books&key=[a", { path: "querystring.key" }],
    [
      `policy=books&key=${encodeURIComponent('["\\ud800"]')}`,
      { path: "querystring.key", expected: expect.stringContaining("in well-formed Unicode") },
    ],
    [
      "policy=by-ip&key=ann",
      {
        path: "key[0]",
        expected: "one IP address: neither a network nor *, which stands for no other values here",
        got: '"ann"',
      },
    ],
    ["policy=by-ip&key=1.2.3.4&x=1", { path: "x" }],
    ["key=ann", { path: "policy" }],
  ])("%s is answered 400 with what was expected and what came", async (search, problem) => {
    const control = await start({ books, "by-ip": { key: ["ip"], limits: [hourly] } });
    const { status, body } = await control.call("GET", `/apps/default/counters?${search}`);
    expect([status, body.code]).toEqual([400, "invalid-request"]);
    expect(body.errors).toMatchObject([problem]);
  });

  const noPattern = "a value of one key: * stands for no other values here, and for itself with ?literal=true";
  it.each([
    ["a star by itself", "key=*", { path: "key[0]", expected: noPattern, got: '"*"' }],
    ["a star at the end", "key=probe-*", { path: "key[0]", expected: noPattern, got: '"probe-*"' }],
    ["a star in a list", `key=${encodeURIComponent('["*"]')}`, { path: "key[0]", expected: noPattern, got: '"*"' }],
  ])(
    "refuses %s, which an operator means for any value, instead of answering for a key that nobody has",
    async (...row) => {
      const [, search, problem] = row;
      const control = await start({ books });
      for (const method of ["GET", "DELETE"]) {
        const { status, body } = await control.call(method, `/apps/default/counters?policy=books&${search}`);
        expect([status, body.code, body.errors]).toEqual([400, "invalid-request", [problem]]);
      }
    },
  );

  it("refuses a star in the body of a top-up too", async () => {
    const control = await start({ books });
    const body = { policy: "books", key: ["*"], units: 1 };
    expect((await control.call("POST", "/apps/default/counters", { body })).body.errors).toEqual([
      { path: "key[0]", expected: noPattern, got: '"*"' },
    ]);
  });

  it("takes a star for itself with ?literal=true", async () => {
    const control = await start({ books });
    for (const method of ["GET", "DELETE"]) {
      const search = "policy=books&key=*&literal=true";
      const { status, body } = await control.call(method, `/apps/default/counters?${search}`);
      expect([status, body.key]).toEqual([200, ["*"]]);
    }
    const body = { policy: "books", key: ["a*"], units: 1 };
    expect((await control.call("POST", "/apps/default/counters?literal=true", { body })).body.key).toEqual(["a*"]);
    expect((await control.call("GET", "/apps/default/counters?policy=books&key=*&literal=yes")).body.errors).toEqual([
      { path: "literal", expected: "true or false", got: '"yes"' },
    ]);
  });

  it("answers 404 for a policy that does not exist in this app", async () => {
    const control = await start({ books });
    const { status, body } = await control.call("DELETE", "/apps/default/counters?policy=none&key=ann");
    expect([status, body.code]).toEqual([404, "policy-not-found"]);
  });

  it("lets viewers read and editors change counters, of their own app only", async () => {
    const control = await start({ books });
    const tokenOf = async (role: string) => {
      const { body } = await control.call("POST", "/tokens", { body: { name: role, app: "default", role } });
      return body.token as string;
    };
    const viewer = await tokenOf("viewer");
    const editor = await tokenOf("editor");
    const path = "/apps/default/counters?policy=books&key=ann";
    const status = async (method: string, token: string, to = path, body?: object) =>
      (await control.call(method, to, { token, ...(body === undefined ? {} : { body }) })).status;
    const gift = { policy: "books", key: ["ann"], units: 1 };
    expect(await status("GET", viewer)).toBe(200);
    expect(await status("DELETE", viewer)).toBe(403);
    expect(await status("POST", viewer, "/apps/default/counters", gift)).toBe(403);
    expect(await status("DELETE", editor)).toBe(200);
    expect(await status("POST", editor, "/apps/default/counters", gift)).toBe(200);
    expect(await status("GET", editor, "/apps/other/counters?policy=books&key=ann")).toBe(403);
  });
});
