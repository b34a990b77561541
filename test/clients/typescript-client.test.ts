// The TypeScript client on a real gateway: what is Node's own about it, and its holds. The conformance suite shows what it has in
// common with the other clients.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ClientOptions, SluiceClient, SluiceError, type SluiceEvent } from "../../clients/typescript/src/index.ts";
import { type Caller, callerOf } from "../fixtures/clients/check-api-client.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { Program } from "../fixtures/servers/program.ts";

import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";

const project = resolve(import.meta.dirname, "../..");
const tls = join(project, "test/fixtures/tls");
const source = join(project, "clients/typescript/src/index.ts");
const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
const { token } = shop;
/** However busy the machine is, a gateway that is there answers by then. */
const patient = { token, deadlineMs: 20_000, onFailure: "deny" } as const;

const key = ["header:x-user"];
const slots = (quota: number, ttl: string) => [{ name: "slots", algorithm: "concurrency", quota, ttl }];
const policies = [
  { name: "three", key, limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }] },
  { name: "slow", key, limits: [{ algorithm: "token-bucket", quota: 1, window: "8s", burst: 1 }] },
  { name: "fast", key, limits: [{ algorithm: "token-bucket", quota: 10, window: "1s", burst: 1 }] },
  { name: "brief", key, limits: slots(1, "2s") },
  { name: "kept", key, limits: slots(1, "6s") },
  { name: "lasting", key, limits: slots(1, "1m") },
  { name: "long", key, limits: slots(2, "5m") },
];

const directory = makeMemoryDir("client");
const socket = join(directory, "gateway.sock");
let tlsPort: number;
let gateway: LoneGateway;
beforeAll(async () => {
  tlsPort = await freePort();
  gateway = await startGateway((config) =>
    config.replace(
      /For the operator alone.*?listen [^;]+;/s,
      `$&
       listen unix:${socket};
       listen 127.0.0.1:${tlsPort} ssl;
       ssl_certificate ${tls}/localhost.pem;
       ssl_certificate_key ${tls}/localhost.key;`,
    ),
  );
});
afterAll(async () => {
  await gateway?.stop();
  removeMemoryDir(directory);
});

function startGateway(edit = (config: string) => config): Promise<LoneGateway> {
  return LoneGateway.start({ policies, callers: [callerOf(shop)], edit });
}

const clients: SluiceClient[] = [];
function clientOf(options: Partial<ClientOptions> = {}): SluiceClient {
  const client = new SluiceClient({ url: gateway.privateUrl, ...patient, ...options });
  clients.push(client);
  return client;
}
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});

describe("a wrong option", () => {
  const valid = { url: "http://127.0.0.1:8079", token: "a-token" };

  it.each<[object, string]>([
    [
      { url: "gateway:8079" },
      'url: expected "http://HOST:PORT", "https://HOST:PORT" or "unix:/PATH", got "gateway:8079"',
    ],
    [
      { url: "http://h/v1" },
      'url: expected "http://HOST:PORT", "https://HOST:PORT" or "unix:/PATH", and nothing else in it',
    ],
    [{ url: "http://ann@h" }, "url: expected"],
    [{ url: "unix:relative.sock" }, "url: expected"],
    [{ token: undefined }, "token: expected the text of a caller token, got undefined"],
    [{ deadlineMs: 0 }, "deadlineMs: expected an integer from 1 to 3600000, got 0"],
    [{ deadlineMs: "1s" }, 'deadlineMs: expected an integer from 1 to 3600000, got "1s"'],
    [{ onFailure: "open" }, 'onFailure: expected "allow" or "deny", got "open"'],
    [{ maxBatch: 101 }, "maxBatch: expected an integer from 1 to 100, got 101"],
    [{ maxInFlight: 1.5 }, "maxInFlight: expected an integer from 1 to 1000, got 1.5"],
    [{ rememberRefusalsMs: -1 }, "rememberRefusalsMs: expected an integer from 0 to 2147483647, got -1"],
    [{ maxRemembered: 0 }, "maxRemembered: expected an integer from 1 to 10000000, got 0"],
    [{ retryAfterFailureMs: Number.NaN }, "retryAfterFailureMs: expected an integer from 0 to 2147483647, got NaN"],
    [{ onEvent: "log" }, 'onEvent: expected a function, got "log"'],
    [{ tls: { ca: "x" } }, "tls: expected nothing, because the url is not https, got an object"],
    [{ url: "https://h", tls: { ca: "x" } }, 'tls.ca: expected PEM, or a list of PEMs, got "x"'],
    [{ url: "https://h", tls: { cert: "x" } }, 'tls.cert: expected no such option; known is ca, got "x"'],
    [{ maxbatch: 7 }, "maxbatch: expected no such option; known are url, token"],
  ])("is refused at once: %o", (option, message) => {
    const make = () => new SluiceClient({ ...valid, ...option });
    expect(make).toThrow(TypeError);
    expect(make).toThrow(`option ${message}`);
  });

  it("never shows the token", () => {
    const secret = "secret token\n";
    expect(() => new SluiceClient({ ...valid, token: secret })).toThrow(
      /^option token: .*, got a text of 13 characters$/,
    );
  });
});

describe("an error", () => {
  it("says what the gateway says, in the words of a caller of one check", async () => {
    const sluice = clientOf();
    const all = await Promise.allSettled(
      ["three", "three", "three", "three"].map((policy, i) =>
        sluice.check(policy, ["errors"], { cost: i === 2 ? -1 : 1 }),
      ),
    );
    expect(all.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    const { reason } = all[2] as PromiseRejectedResult;
    expect(reason).toBeInstanceOf(SluiceError);
    expect(reason).toMatchObject({
      code: "invalid-request",
      status: 400,
      errors: [{ path: "cost", expected: "an integer from 0 to 2147483648", got: "-1" }],
    });
    expect(reason.message).toContain("cost: expected an integer from 0 to 2147483648, got -1");
    expect((await sluice.peek("three", ["errors"])).remaining).toBe(0);
  });

  it("of a wait that no gateway grants is the call's own", async () => {
    const sluice = clientOf();
    for (const maxWaitMs of [0.9, 60_001, Number.NaN]) {
      const message = `maxWaitMs: expected a number from 1 to 60000, got ${maxWaitMs}`;
      await expect(sluice.acquire("three", ["a"], { maxWaitMs })).rejects.toThrow(message);
      await expect(sluice.hold("long", ["a"], { maxWaitMs })).rejects.toThrow(message);
    }
  });

  it("is what a closed client answers", async () => {
    const sluice = clientOf();
    await sluice.close();
    await expect(sluice.check("three", ["closed"])).rejects.toThrow("the client is closed");
    await expect(sluice.hold("long", ["closed"])).rejects.toThrow("the client is closed");
  });
});

describe("a connection", () => {
  it("is kept, and used by all calls that follow", async () => {
    const proxy = await TcpProxy.start(Number(new URL(gateway.privateUrl).port));
    const sluice = clientOf({ url: `http://127.0.0.1:${proxy.port}` });
    for (let i = 0; i < 20; i++) expect((await sluice.peek("three", ["kept"])).source).toBe("gateway");
    expect(proxy.accepted).toBe(1);
    await proxy.refuse();
  });

  it("may be a unix socket", async () => {
    expect(await clientOf({ url: `unix:${socket}` }).check("three", ["unix"])).toMatchObject({
      allowed: true,
      remaining: 2,
      source: "gateway",
    });
  });

  it("may have TLS, by the authorities that the caller trusts", async () => {
    const url = `https://localhost:${tlsPort}`;
    const ca = readFileSync(join(tls, "authority.pem"));
    expect(await clientOf({ url, tls: { ca } }).check("three", ["tls"])).toMatchObject({
      source: "gateway",
      remaining: 2,
    });
    for (const options of [{}, { tls: { ca: readFileSync(join(tls, "address.pem"), "utf8") } }]) {
      const { allowed, failure } = await clientOf({ url, ...options }).check("three", ["tls"]);
      expect(allowed).toBe(false);
      expect(failure).toMatch(/^The gateway could not be asked: .*certificate/);
    }
    expect((await clientOf().peek("three", ["tls"])).remaining).toBe(2);
  });
});

it("does not keep a process alive: neither by connections, nor by holds, nor by a pause", async () => {
  const program = await Program.start({
    command: process.execPath,
    args: [
      "--input-type=module",
      "--eval",
      `import { SluiceClient } from ${JSON.stringify(source)};
       const sluice = new SluiceClient(${JSON.stringify({ url: gateway.privateUrl, ...patient })});
       const { hold } = await sluice.hold("long", ["process"]);
       const { remaining } = await sluice.check("three", ["process"]);
       const nobody = new SluiceClient({ url: "http://127.0.0.1:1", token: "t", retryAfterFailureMs: 600_000 });
       const { source } = await nobody.check("three", ["process"]);
       console.log(hold !== undefined, remaining, source);`,
    ],
    readyWhen: /^true 2 failure$/m,
  });
  await until("the process has ended by itself", () => !program.isRunning);
  expect([program.child.exitCode, program.output]).toEqual([0, "true 2 failure\n"]);
  const sluice = clientOf();
  // Nobody released it.
  expect((await sluice.peek("long", ["process"])).remaining).toBe(1);
});

it("hears an answer that came in time, though the process was busy until after the deadline", async () => {
  const sluice = clientOf({ deadlineMs: 200 });
  await sluice.check("fast", ["busy"]);
  // The gateway answers after 100 ms.
  const waiting = sluice.acquire("fast", ["busy"], { maxWaitMs: 1000 });
  // The request is on its way by then.
  await sleep(20);
  // From here, the timers come before the next reading.
  await setImmediate();
  // Nothing of this process runs meanwhile. A busy machine has answered by the end.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_000);
  expect(await waiting).toMatchObject({ allowed: true, source: "gateway" });
});

describe("the metrics hook", () => {
  it.each([
    ["throws", () => expect.unreachable("a hook that throws")],
    ["rejects", () => Promise.reject(new Error("a hook that rejects"))],
  ])("that %s changes nothing", async (how, fail) => {
    const events: SluiceEvent[] = [];
    const sluice = clientOf({
      onEvent: (event) => {
        events.push(event);
        return fail();
      },
    });
    expect(await sluice.check("three", [how])).toMatchObject({ allowed: true, remaining: 2 });
    await expect(sluice.check("none", [how])).rejects.toThrow(SluiceError);
    expect(events).toEqual([
      { call: "check", policy: "three", outcome: "allowed", source: "gateway", batch: 1, seconds: expect.any(Number) },
      { call: "check", policy: "none", outcome: "error", batch: 1, seconds: expect.any(Number) },
    ]);
  });
});

it("leaves the line, and is not charged, when the signal of acquire aborts", async () => {
  const sluice = clientOf();
  await sluice.check("slow", ["line"]);
  const leaves = new AbortController();
  const first = sluice.acquire("slow", ["line"], { maxWaitMs: 60_000, signal: leaves.signal });
  // It is in line by then. On a machine that is too busy for that, it never comes, and the rest is the same.
  await sleep(200);
  leaves.abort(new Error("gone"));
  await expect(first).rejects.toThrow("gone");
  await expect(sluice.acquire("slow", ["line"], { maxWaitMs: 1, signal: leaves.signal })).rejects.toThrow("gone");
  // The gateway sees it leave at once. Nothing shows that, so a busy machine has two seconds.
  await sleep(2_000);
  // A unit comes every 8 s. Behind the first one, this one would wait for the second.
  expect(await sluice.acquire("slow", ["line"], { maxWaitMs: 10_000 })).toMatchObject({
    allowed: true,
    source: "gateway",
  });
});

describe("a hold", () => {
  it("lasts longer than its ttl, until it is released", async () => {
    const sluice = clientOf();
    const { hold } = await sluice.hold("kept", ["ann"]);
    let isLost = false;
    void hold?.lost.then(() => {
      isLost = true;
    });
    // It is renewed every 2 s, so a busy machine may stop for 4 s.
    await sleep(7_500);
    expect(await sluice.hold("kept", ["ann"])).toMatchObject({ allowed: false, remaining: 0 });
    expect(isLost).toBe(false);
    await Promise.all([hold?.release(), hold?.release()]);
    await hold?.release();
    const next = await sluice.hold("kept", ["ann"]);
    expect(next.allowed).toBe(true);
    await next.hold?.[Symbol.asyncDispose]();
    expect((await sluice.peek("kept", ["ann"])).remaining).toBe(1);
  });

  it("is not renewed by a client that is closed, which still releases", async () => {
    const sluice = clientOf();
    const { hold: lasting } = await sluice.hold("long", ["closed"]);
    await sluice.hold("brief", ["closed"]);
    await sluice.close();
    const other = clientOf();
    await until("the hold has expired", async () => (await other.peek("brief", ["closed"])).remaining === 1);
    expect((await other.peek("long", ["closed"])).remaining).toBe(1);
    await lasting?.release();
    expect((await other.peek("long", ["closed"])).remaining).toBe(2);
  });

  it("is lost as soon as the gateway says that it holds nothing", async () => {
    const mortal = await startGateway();
    const sluice = clientOf({ url: mortal.privateUrl });
    const { hold } = await sluice.hold("lasting", ["lost"]);
    const heldAtMs = performance.now();
    // Its slots are in the memory of nginx, and end with it.
    await mortal.restart();
    await hold?.lost;
    // The first renewal comes after 20 s. Without an answer, the ttl of a minute would decide.
    expect(performance.now() - heldAtMs).toBeLessThan(59_000);
    await hold?.release();
    await mortal.stop();
  });

  it("is lost after its ttl if nobody answers, and its release gives up", async () => {
    const mortal = await startGateway();
    const sluice = clientOf({ url: mortal.privateUrl, onFailure: "allow" });
    const { hold } = await sluice.hold("brief", ["lost"]);
    const heldAtMs = performance.now();
    await mortal.stop();
    await hold?.lost;
    // It was renewed before the stop at the latest, which takes time.
    expect(performance.now() - heldAtMs).toBeGreaterThan(1_900);
    await hold?.release();
    const { hold: none, ...decision } = await sluice.hold("brief", ["lost"]);
    expect(decision).toMatchObject({ allowed: true, source: "failure", reason: "failure" });
    await none?.release();
  });
});
