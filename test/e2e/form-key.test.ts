// A field of a form as a part of a key: which bodies are read, that the service gets them as they came, and that a body that is slow,
// large or damaged harms nobody else.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, ask, slowestOf } from "../fixtures/clients/requests.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { untilPasses } from "../fixtures/until.ts";

const form = "application/x-www-form-urlencoded";
const quota = 3;
const sha1 = (bytes: Buffer | string) => createHash("sha1").update(bytes).digest("hex");

/** Answers with the SHA-1 of the body that it was sent. */
async function startService(): Promise<Server> {
  const service = createServer((request, response) => {
    const hash = createHash("sha1");
    request.on("data", (chunk: Buffer) => hash.update(chunk));
    request.on("end", () => response.end(hash.digest("hex")));
  });
  service.listen(0, "127.0.0.1");
  await once(service, "listening");
  return service;
}

const policiesOf = (scope: "node" | "cluster") => {
  const policy = (name: string, more: object) => ({
    name,
    scope,
    match: { paths: [`/${name}`] },
    key: ["form:account"],
    limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
    ...more,
  });
  return [
    policy("skip", {}),
    policy("deny", { onMissingKey: "deny" }),
    policy("both", { key: ["form:tenant", "ip", "form:account"], onMissingKey: "deny" }),
    policy("spent", {
      key: ["header:x-spent"],
      priority: 1,
      limits: [{ algorithm: "token-bucket", quota: 1, window: "366d" }],
    }),
    policy("spent-form", { match: { paths: ["/spent"] } }),
    policy("slots", { key: [], priority: 1, limits: [{ algorithm: "concurrency", quota: 1, ttl: "1h" }] }),
    policy("slots-form", { match: { paths: ["/slots"] } }),
    policy("shadow", { mode: "shadow", onMissingKey: "deny" }),
    policy("exempt", { exempt: { cidrs: ["127.0.0.2/32"] }, overrides: [{ key: ["vip-*"], mode: "off" }] }),
    policy("off", { mode: "off" }),
    ...Array.from({ length: 8 }, (_, i) =>
      policy(`beside-${i}`, { match: { paths: ["/among"] }, key: [`header:x-${i}`] }),
    ),
    policy("among", {}),
  ];
};

describe.each(["node", "cluster"] as const)("a form field as a key part, in scope %s", (scope) => {
  let redis: RedisServer;
  let gateway: LoneGateway;
  let service: Server;
  let http2Port: number;

  beforeAll(async () => {
    const [redisPort, port] = (await freePorts(2)) as [number, number];
    http2Port = port;
    redis = new RedisServer(redisPort);
    await redis.start();
    service = await startService();
    gateway = await LoneGateway.start({
      policies: policiesOf(scope),
      env: {
        SLUICE_REDIS_URL: redis.url,
        SLUICE_UPSTREAM: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
      },
      edit: (config) => config.replace(/listen .*/, (line) => `${line} listen 127.0.0.1:${http2Port} http2;`),
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    service?.close();
    await redis?.stop();
  });

  const post = (path: string, body: string, headers: Record<string, string> = {}): Promise<Answer> =>
    ask(`${gateway.url}${path}`, { method: "POST", body, headers: { "content-type": form, ...headers } });
  const left = ({ headers }: Answer) => headers["x-ratelimit-remaining"];

  /** Sends the head of a form, and of its body only this. */
  async function begin(path: string, body: string, length: number): Promise<Socket> {
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    await once(socket, "connect");
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: ${form}\r\nContent-Length: ${length}\r\n\r\n${body}`,
    );
    return socket;
  }
  const statusOf = async (socket: Socket) => {
    const [data] = (await once(socket, "data")) as [Buffer];
    return Number(data.toString("latin1").split(" ")[1]);
  };

  it("counts each account by itself, in every spelling of it", async () => {
    for (const body of [
      "account=ann&password=1",
      "password=%26account=x&acc%6funt=%61nn",
      "a=b&&account=ann&account=ann",
    ]) {
      expect((await post("/deny", body)).status).toBe(200);
    }
    expect((await post("/deny", "account=ann")).status).toBe(429);
    expect((await post("/deny", "account=ben")).status).toBe(200);
    expect((await post("/deny", "account=ann&account=ben")).status).toBe(400);
    expect((await post("/deny", "ACCOUNT=ann")).status).toBe(400);
    expect((await post("/deny", "accounts=ann&account2[]=ann")).status).toBe(403);
  });

  it("counts by several fields, and by other parts beside them", async () => {
    for (let i = 0; i < quota; i++) expect((await post("/both", `account=ann&tenant=t&i=${i}`)).status).toBe(200);
    expect((await post("/both", "tenant=t&account=ann")).status).toBe(429);
    expect((await post("/both", "tenant=u&account=ann")).status).toBe(200);
    expect((await post("/both", "account=ann")).status).toBe(403);
  });

  it("passes the body on unchanged, up to 64 KiB and beyond, and counts it up to there", async () => {
    for (const [bytes, counted] of [
      [100, true],
      [20_000, true],
      [65_536, true],
      [65_537, false],
      [900_000, false],
    ] as const) {
      const start = `account=size-${bytes}&note=`;
      const body = start + "x".repeat(bytes - start.length);
      const answer = await post("/skip", body);
      expect([bytes, answer.status, answer.body, left(answer)]).toEqual([
        bytes,
        200,
        sha1(body),
        counted ? "2" : undefined,
      ]);
      expect((await post("/deny", body)).status).toBe(counted ? 200 : 403);
    }
  });

  it("finds no field in bodies of another type, in compressed ones, and where there is none", async () => {
    const pair = "account=ann2";
    const multipart = '--b\r\nContent-Disposition: form-data; name="account"\r\n\r\nann2\r\n--b--\r\n';
    for (const [body, headers] of [
      [multipart, { "content-type": "multipart/form-data; boundary=b" }],
      ['{"account":"ann2"}', { "content-type": "application/json" }],
      [pair, { "content-type": "text/plain" }],
      [pair, { "content-encoding": "gzip" }],
      ["", {}],
    ] as const) {
      expect((await post("/deny", body, headers)).status).toBe(403);
      const skipped = await post("/skip", body, headers);
      expect([skipped.status, skipped.body, left(skipped)]).toEqual([200, sha1(body), undefined]);
    }
    const packed = gzipSync(pair).toString("latin1");
    expect((await post("/deny", packed, { "content-encoding": "gzip" })).status).toBe(403);
    expect((await ask(`${gateway.url}/deny`)).status).toBe(403);
    expect(left(await ask(`${gateway.url}/skip`))).toBeUndefined();
    expect(left(await post("/skip", pair, { "content-encoding": "identity" }))).toBe("2");
  });

  it("reads a body without a type as a form, as Rack does", async () => {
    const untyped = { method: "POST", body: "account=untyped" };
    for (let i = 0; i < quota; i++) expect((await ask(`${gateway.url}/deny`, untyped)).status).toBe(200);
    expect((await ask(`${gateway.url}/deny`, untyped)).status).toBe(429);
  });

  it("answers 400 to a body that may be JSON to the service, whatever says that it is a form", async () => {
    const body = ' {"account":"victim","x":"&account=decoy&"}';
    for (const type of [{}, { "content-type": form }, { "content-type": form.toUpperCase() }]) {
      const headers = { "content-length": `${body.length}`, ...type };
      for (const method of ["POST", "DELETE"]) {
        for (const path of ["/deny", "/skip", "/among"]) {
          const { status } = await ask(`${gateway.url}${path}`, { method, body, headers });
          expect([path, method, headers, status]).toEqual([path, method, headers, 400]);
        }
      }
    }
  });

  it("takes an argument for a field that the form does not have, as servers with one list of both do", async () => {
    for (let i = 0; i < quota; i++) expect((await post("/deny?account=arg", `password=${i}`)).status).toBe(200);
    expect((await post("/deny?account=arg", "password=x")).status).toBe(429);
    expect((await post("/deny", "account=arg")).status).toBe(429);
    expect((await post("/deny?account[]=arg", "password=x")).status).toBe(400);
    expect((await ask(`${gateway.url}/deny?account=arg`)).status).toBe(429);
    expect((await ask(`${gateway.url}/deny?x=1`)).status).toBe(403);
  });

  it("compares a field or an argument with a cookie of the name, and never counts by a cookie alone", async () => {
    const cookie = { cookie: "a=b; account=%63ook" };
    expect((await post("/deny", "password=x", cookie)).status).toBe(403);
    expect((await ask(`${gateway.url}/deny`, { headers: cookie })).status).toBe(403);
    for (let i = 0; i < quota; i++) expect((await post("/deny", "account=cook", cookie)).status).toBe(200);
    expect((await post("/deny", "account=cook", cookie)).status).toBe(429);
    expect((await ask(`${gateway.url}/deny?account=cook`, { headers: cookie })).status).toBe(429);
    expect((await post("/deny", "account=decoy", cookie)).status).toBe(400);
    expect((await post("/deny?account=decoy", "x=1", cookie)).status).toBe(400);
    expect((await post("/deny", "account=decoy", { cookie: "account[]=cook" })).status).toBe(400);
  });

  it("answers 400 if an argument of the name comes with a body that is not read", async () => {
    const multipart = '--b\r\nContent-Disposition: form-data; name="account"\r\n\r\nvictim\r\n--b--\r\n';
    for (const headers of [
      { "content-type": "multipart/form-data; boundary=b" },
      { "content-type": "application/json" },
      { "content-encoding": "gzip" },
      { "transfer-encoding": "chunked" },
    ] as const) {
      for (const path of ["/deny", "/skip"]) {
        expect([headers, (await post(`${path}?account=decoy`, multipart, headers)).status]).toEqual([headers, 400]);
      }
    }
  });

  it("finds no field in a body of unknown length, which would have to be read whole", async () => {
    const chunked = { "content-type": form, "transfer-encoding": "chunked" };
    const options = { method: "POST", body: "account=ann3", headers: chunked };
    expect((await ask(`${gateway.url}/deny`, options)).status).toBe(403);
    const passed = await ask(`${gateway.url}/skip`, options);
    expect([passed.status, passed.body, left(passed)]).toEqual([200, sha1("account=ann3"), undefined]);
  });

  it.each(["application/json", "multipart/form-data; boundary=b", "application/octet-stream", form])(
    "lets an upload of %s pass, however many policies it meets, whose form is not read",
    async (type) => {
      const body = "x".repeat(600_000);
      for (const path of ["/skip", "/among"]) {
        const answer = await post(path, body, { "content-type": type });
        expect([path, answer.status, answer.body]).toEqual([path, 200, sha1(body)]);
      }
    },
  );

  it("reads a form by HTTP/2 if its length is told", async () => {
    const session = connectHttp2(`http://127.0.0.1:${http2Port}`);
    const send = async (headers: Record<string, string>) => {
      const stream = session.request({ ":method": "POST", ":path": "/skip", "content-type": form, ...headers });
      stream.end("account=h2");
      const [answer] = await once(stream, "response");
      const [body] = (await once(stream, "data")) as [Buffer];
      stream.close();
      return [answer[":status"], answer["x-ratelimit-remaining"], body.toString()];
    };
    try {
      expect(await send({ "content-length": "10" })).toEqual([200, "2", sha1("account=h2")]);
      expect(await send({ "content-length": "10" })).toEqual([200, "1", sha1("account=h2")]);
      expect(await send({})).toEqual([200, undefined, sha1("account=h2")]);
      const statusOfGet = async (path: string, more: Record<string, string>, body?: string) => {
        const stream = session.request({ ":path": path, ...more }, { endStream: body === undefined });
        if (body !== undefined) stream.end(body);
        const [answer] = await once(stream, "response");
        stream.close();
        return answer[":status"];
      };
      expect(await statusOfGet("/deny?account=h2-get", {})).toBe(200);
      for (const method of ["OPTIONS", "HEAD"]) {
        const headers = { ":method": method };
        expect([method, await statusOfGet(`/deny?account=h2-${method}`, headers)]).toEqual([method, 200]);
      }
      // nginx does not say whether there is a body: a service may read the account from JSON.
      expect(await statusOfGet("/deny?account=h2-get", { "content-type": "application/json" })).toBe(400);
      expect(await statusOfGet("/deny?account=h2-get", { "content-type": form }, "account=victim")).toBe(400);
      expect(await statusOfGet("/deny?account=h2-get", { ":method": "POST" }, "account=victim")).toBe(400);
      expect(await statusOfGet("/deny?account=h2-get", { ":method": "DELETE" }, '{"account":"victim"}')).toBe(400);
    } finally {
      session.close();
    }
  });

  it("answers 400 if servers differ on the type, the charset or the field, or read no more than 1,000 fields", async () => {
    const types = [
      ...[`${form}, text/plain`, `${form}; charset=utf-16`, `${form}; charset=ibm037`],
      ...[`${form}; a=/json`, `${form}; a=multipart; boundary=b`],
    ];
    for (const type of types)
      expect([type, (await post("/skip", "account=x", { "content-type": type })).status]).toEqual([type, 400]);
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    socket.write(
      `POST /skip HTTP/1.1\r\nHost: x\r\nContent-Type: ${form}\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\naccount=x`,
    );
    expect(await statusOf(socket)).toBe(400);
    socket.destroy();
    expect((await post("/skip?account=victim", "account=x")).status).toBe(400);
    expect((await post("/skip?account=%78", "account=x")).status).toBe(200);
    expect((await post("/skip", `account=many${"&a=b".repeat(999)}`)).status).toBe(200);
    expect((await post("/skip", `account=many${"&a=b".repeat(1_000)}`)).status).toBe(400);
  });

  it("answers damaged bodies as it answers damaged arguments, and logs nothing of them", async () => {
    for (const [body, status] of [
      ["account=%", 400],
      ["account=%zz", 400],
      ["account=a;b", 400],
      ["account=%ff", 400],
      ["account=a\0", 400],
      ["account=é", 400],
      ["account=%00%c3%a9", 400],
      ["account=a%1fb", 400],
      ["%", 400],
      ["\0\0\0", 400],
      ["account=ann&x=1\n", 400],
      ["=&=&;", 403],
      ["account", 403],
    ] as const) {
      expect([body, (await post("/deny", body)).status]).toEqual([body, status]);
    }
    expect((await post("/deny", "account=%7f%c3%a9&%00=1")).status).toBe(200);
    expect(gateway.log).not.toMatch(/passed undecided|lua entry thread aborted|attempt to/);
  });

  it("reads it for shadow, exemptions and overrides, and not for a policy that is off", async () => {
    for (let i = 0; i < 2 * quota; i++) {
      expect((await post("/shadow", "account=ann")).status).toBe(200);
      expect((await post("/exempt", "account=vip-1")).status).toBe(200);
      const far = { method: "POST", body: "account=ann", headers: { "content-type": form }, from: "127.0.0.2" };
      expect((await ask(`${gateway.url}/exempt`, far)).status).toBe(200);
      expect((await post("/off", "account=ann")).status).toBe(200);
      expect((await post("/exempt", "account=ann")).status).toBe(i < quota ? 200 : 429);
    }
  });

  it("lets a slow body delay nobody but its own request, which is decided when the body is there", async () => {
    const slow = await Promise.all(Array.from({ length: 20 }, () => begin("/deny", "account=", 12)));
    expect(await slowestOf(`${gateway.url}/sluice/healthz`, 50)).toBeLessThan(1_000);
    expect((await post("/deny", "account=quick")).status).toBe(200);
    const answers = slow.map((socket) => statusOf(socket));
    for (const socket of slow) socket.write("slow");
    const statuses = await Promise.all(answers);
    expect(statuses.filter((status) => status === 200).length).toBe(quota);
    expect(statuses.filter((status) => status === 429).length).toBe(20 - quota);
  });

  it("refuses by a policy that is evaluated before without waiting for the body", async () => {
    const spend = { "x-spent": "k" };
    expect((await post("/spent", "account=ann", spend)).status).toBe(200);
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    socket.write(
      `POST /spent HTTP/1.1\r\nHost: x\r\nx-spent: k\r\nContent-Type: ${form}\r\nContent-Length: 99\r\n\r\n`,
    );
    // In Redis, the policies of a request are decided together: then the body comes first.
    if (scope === "cluster") socket.write("account=ann&".padEnd(99, "x"));
    expect(await statusOf(socket)).toBe(429);
    socket.destroy();
  });

  it("refunds what other policies charged if the client goes away while its body is awaited", async () => {
    const gone = await begin("/slots", "acc", 11);
    // In Redis, nothing is charged before the body is there.
    if (scope === "node") await untilPasses(async () => expect((await post("/slots", "account=ann")).status).toBe(429));
    else await sleep(100);
    gone.destroy();
    await untilPasses(async () => expect((await post("/slots", "account=ann")).status).toBe(200));
  });
});

describe("nginx keeps bodies in files", () => {
  it("and then there is no field: a policy does not read files", async () => {
    const service = await startService();
    const gateway = await LoneGateway.start({
      policies: [
        {
          name: "login",
          key: ["form:account"],
          onMissingKey: "deny",
          limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }],
        },
      ],
      env: { SLUICE_UPSTREAM: `http://127.0.0.1:${(service.address() as AddressInfo).port}` },
      edit: (config) => config.replace("client_body_buffer_size 64k;", "client_body_buffer_size 1k;"),
    });
    try {
      const post = (body: string) =>
        ask(gateway.url, { method: "POST", body, headers: { "content-type": form } }).then(({ status }) => status);
      expect(await post(`account=ann&note=${"x".repeat(30_000)}`)).toBe(403);
      expect(await post(`account=ann&note=${"x".repeat(500)}`)).toBe(200);
    } finally {
      await gateway.stop();
      service.close();
    }
  });
});
