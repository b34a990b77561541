// One request counts once, however many locations nginx sends it through, as with nginx's own limits.

import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Answer, ask, countStatuses } from "../fixtures/clients/requests.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until } from "../fixtures/until.ts";

const window = { name: "whole", algorithm: "fixed-window", quota: 3, window: "366d" };
const limited = (name: string, paths: readonly string[], more: object = {}) => ({
  name,
  match: { paths },
  key: ["header:x-run"],
  limits: [window],
  ...more,
});

/** By where nginx sends the requests: the path of the request, and a status that says that it went on. */
const ways: Readonly<Record<string, readonly [path: string, status: number]>> = {
  index: ["/dir/", 200],
  "index of a directory within": ["/dir/within/", 200],
  "try_files, a URI": ["/tried/none", 200],
  "try_files, a named location": ["/tried-named/none", 200],
  "error_page of nginx itself": ["/dir/missing", 404],
  "error_page, a named location, of a service that is away": ["/away/x", 502],
  "error_page of what a service answers": ["/failing/x", 200],
  "error_page of an error page": ["/twice-away/x", 200],
  "rewrite … last": ["/rewritten/x", 200],
  "rewrite … last within a location": ["/rewritten-within/x", 200],
  "X-Accel-Redirect": ["/accel/x", 200],
  "X-Accel-Redirect to a named location": ["/accel-named/x", 200],
  "ngx.exec": ["/exec/x", 200],
  auth_request: ["/asked/x", 200],
  mirror: ["/mirrored/x", 200],
  "ssi and its subrequests": ["/dir/included.shtml", 200],
  "sluice.rewrite() and an index": ["/early/", 200],
  "a first location without Sluice": ["/unlimited/", 200],
};

const everything =
  "~^/(dir|tried|tried-named|away|failing|twice-away|rewritten|rewritten-within|accel|accel-named|exec|asked|mirrored|early|unlimited|ends)/";
const access = "access_by_lua_block { sluice.access() }";
const print = (text: string) => `content_by_lua_block { ngx.print("${text}") }`;

const locations = (root: string, service: string, away: string) => `
  root ${root};
  location = /dir/included.shtml { ssi on; ${access} }
  location /dir/ { index index.html; error_page 404 /ends/missing; ${access} }
  location /early/ { alias ${root}/dir/; index index.html; rewrite_by_lua_block { sluice.rewrite() } }
  location /unlimited/ { index index.html; location ~ html$ { ${access} } }
  location /tried/ { try_files $uri /ends/tried; ${access} }
  location /tried-named/ { try_files $uri @named; ${access} }
  location /away/ { proxy_pass ${away}; error_page 502 @away; ${access} }
  location @away { ${access} content_by_lua_block { ngx.status = 502 ngx.print("away") } }
  location /failing/ { proxy_pass ${service}; proxy_intercept_errors on; error_page 500 =200 /ends/failing; ${access} }
  location /twice-away/ {
    proxy_pass ${away}; recursive_error_pages on; error_page 502 =200 @twice; ${access}
  }
  location @twice { proxy_pass ${away}; error_page 502 =200 /ends/twice; ${access} }
  rewrite ^/rewritten/ /ends/rewritten last;
  location /rewritten-within/ { ${access} rewrite ^ /ends/rewritten last; }
  location /accel/ { proxy_pass ${service}; ${access} }
  location /accel-named/ { proxy_pass ${service}; ${access} }
  location /exec/ { ${access} content_by_lua_block { ngx.exec("/ends/exec") } }
  location /asked/ { auth_request /ends/ask; ${access} ${print("asked")} }
  location /mirrored/ { mirror /ends/mirror; ${access} proxy_pass ${service}; }
  location @named { ${access} ${print("named")} }
  location /ends/ { ${access} content_by_lua_block { ngx.print("end of ", ngx.var.http_x_mark or "") } }
  location /slow/ { proxy_pass ${service}; ${access} }
  location = /to-slow { ${access} content_by_lua_block { ngx.exec("/slow/x") } }
  location = /own-way { ${access} content_by_lua_block { ngx.exec("/own-end") } }
  location = /own-end { ${access} content_by_lua_block { ngx.print("end of ", ngx.var.http_x_mark or "") } }
`;

const names = ["decision", "policy", "limit", "remaining", "delay"] as const;
const declarations = names.map((name) => `map "" $sluice_${name} { default "-"; }`).join("\n");
const logFormat = `log_format sluice escape=json '{"run":"$http_x_run",${names.map((name) => `"${name}":"$sluice_${name}"`).join(",")}}';`;

const policies = [
  limited("node", [everything]),
  limited("exact", [everything], { key: ["header:x-exact"], onMissingKey: "skip", scope: "cluster" }),
  limited("leased", [everything], {
    key: ["header:x-leased"],
    scope: "cluster",
    consistency: "leased",
  }),
  limited("slots", ["/dir/*", "/slow/*", "/to-slow", "/tried/*", "/away/*", "/ends/*"], {
    key: ["header:x-slots"],
    limits: [{ name: "slots", algorithm: "concurrency", quota: 1 }],
  }),
  limited("cluster-slots", ["/dir/*", "/slow/*", "/to-slow", "/tried/*", "/away/*", "/ends/*"], {
    key: ["header:x-cluster-slots"],
    scope: "cluster",
    limits: [{ name: "slots", algorithm: "concurrency", quota: 1 }],
  }),
  limited("bytes", ["/dir/*", "/tried/*", "/ends/*"], {
    key: ["header:x-bytes"],
    limits: [{ ...window, quota: 1_000 }],
    cost: { from: "response-bytes" },
  }),
  limited("way", ["/own-way"], { key: ["header:x-way"], limits: [{ ...window, name: "way", quota: 10 }] }),
  limited("end", ["/own-end"], { key: ["header:x-own"], limits: [{ ...window, name: "end", quota: 3 }] }),
  limited("wide-end", ["/own-end"], { key: ["header:x-wide"], limits: [{ ...window, name: "wide", quota: 100 }] }),
  limited("tagging", ["/own-way"], {
    key: ["header:x-tag"],
    limits: [{ ...window, quota: 1 }],
    onLimit: { action: "tag", header: "x-mark: over" },
  }),
  limited("tagging-too", ["/own-end"], {
    key: ["header:x-tag"],
    limits: [{ ...window, quota: 1_000 }],
    onLimit: { action: "tag", header: "x-mark: over too" },
  }),
  limited("shaped", ["/own-way", "/own-end"], {
    key: ["header:x-shaped"],
    limits: [{ name: "paced", algorithm: "leaky-bucket", quota: 10, window: "1s", burst: 5 }],
  }),
  limited("shadow", ["/own-way", "/own-end"], { key: ["header:x-shadow"], mode: "shadow" }),
];

const service = createServer((incoming, response) => {
  const { url = "" } = incoming;
  if (url.startsWith("/slow")) {
    held.push(() => void response.end("slow"));
    return;
  }
  if (url.startsWith("/accel/")) response.setHeader("X-Accel-Redirect", "/ends/accel");
  if (url.startsWith("/accel-named/")) response.setHeader("X-Accel-Redirect", "@named");
  // Others of the same address have come and gone by then.
  setTimeout(() => {
    response.statusCode = url.startsWith("/failing/") ? 500 : 200;
    response.end("of the service");
  }, Math.random() * 20);
});
const held: (() => void)[] = [];

let root = "";
let redis: RedisServer;
let gateway: LoneGateway;
let h2Url = "";
let runs = 0;
let run = "";

beforeAll(async () => {
  root = makeMemoryDir("once");
  chmodSync(root, 0o755);
  for (const directory of ["dir/within", "unlimited"]) {
    mkdirSync(join(root, directory), { recursive: true });
    writeFileSync(join(root, directory, "index.html"), "x".repeat(100));
  }
  writeFileSync(join(root, "dir", "index.html"), "x".repeat(100));
  writeFileSync(
    join(root, "dir", "included.shtml"),
    '<!--#include virtual="/ends/one" --><!--#include virtual="/ends/two" -->',
  );
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  const [redisPort = 0, awayPort = 0, h2Port = 0] = await freePorts(3);
  h2Url = `http://127.0.0.1:${h2Port}`;
  redis = new RedisServer(redisPort);
  await redis.start();
  const { port } = service.address() as AddressInfo;
  gateway = await LoneGateway.start({
    policies,
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "2000" },
    edit: (config) =>
      config
        .replace(/(listen [^;]*);/, `$1; listen 127.0.0.1:${h2Port} http2;`)
        .replace("access_log off;", `${declarations}\n${logFormat}\naccess_log off;`)
        .replace(
          "location / {",
          `access_log decisions.log sluice;
           ${locations(root, `http://127.0.0.1:${port}`, `http://127.0.0.1:${awayPort}`)}\n    location / {`,
        ),
  });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
  service.close();
  service.closeAllConnections();
  removeMemoryDir(root);
});
beforeEach(() => {
  runs += 1;
  run = `run-${runs}`;
});

const get = (path: string, header = "x-run", agent?: Agent) =>
  ask(gateway.url + path, { headers: { [header]: run }, ...(agent === undefined ? {} : { agent }) });

function statusOfStream(session: ClientHttp2Session, path: string, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": path, "x-run": key });
    let status = 0;
    stream.on("response", (headers) => {
      status = Number(headers[":status"]);
    });
    stream.on("error", reject).on("close", () => resolve(status));
    stream.resume().end();
  });
}

/** What nginx logged about the requests of this run. */
function logged(): Record<string, string>[] {
  const lines = readFileSync(join(gateway.directory, "decisions.log"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, string>).filter((line) => line["run"] === run);
}

describe.each(["x-run", "x-exact", "x-leased"])("counted by %s", (header) => {
  it.each(Object.entries(ways))("%s", async (_, [path, status]) => {
    const answers: Answer[] = [];
    for (let i = 0; i < 4; i++) answers.push(await get(path, header));
    expect(answers.map((answer) => answer.status)).toEqual([status, status, status, 429]);
    expect(answers.map(({ headers }) => headers["x-ratelimit-remaining"])).toEqual(["2", "1", "0", "0"]);
    expect(answers.map(({ headers }) => headers["ratelimit-policy"])).toEqual(
      Array.from({ length: 4 }, () => '"whole";q=3;w=31622400'),
    );
  });
});

describe("under load", () => {
  it.each(Object.entries(ways))("every request is counted once, on connections that stay: %s", async (_, [path]) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const statuses: Record<number, number> = {};
    // Counters of their own: of each, three requests are admitted, whoever else has come at the same address.
    const keys = Array.from({ length: 40 }, (_, i) => `${run}-${i}`);
    const asked = keys.flatMap((key) =>
      Array.from({ length: 5 }, () => ask(gateway.url + path, { headers: { "x-run": key }, agent })),
    );
    for (const [status, count] of Object.entries(countStatuses(await Promise.all(asked)))) {
      statuses[Number(status)] = count;
    }
    agent.destroy();
    expect(statuses[429]).toBe(80);
  });
});

it("counts the streams of an HTTP/2 connection, each once", async () => {
  const session = connect(h2Url);
  for (const path of ["/dir/", "/failing/x", "/accel/x"]) {
    const keys = [`${run}-a-${path}`, `${run}-b-${path}`];
    const asked = Array.from({ length: 5 }, () => keys.map((key) => statusOfStream(session, path, key))).flat();
    expect(
      (await Promise.all(asked)).filter((status) => status === 429),
      path,
    ).toHaveLength(4);
  }
  session.close();
});

describe.each(["x-slots", "x-cluster-slots"])("concurrency of 1, by %s", (header) => {
  it.each(["/dir/", "/tried/none", "/dir/missing", "/away/x"])(
    "lets requests in one after another: %s",
    async (path) => {
      for (let i = 0; i < 3; i++) {
        await until("it is let in", async () => (await get(path, header)).status !== 429);
        // Freed in a timer, if Redis has it.
        await sleep(header === "x-slots" ? 0 : 50);
      }
      expect((await get(path, header)).status).not.toBe(429);
    },
  );

  it("holds the slot in the second location until the request ends, and frees it once", async () => {
    for (let i = 0; i < 3; i++) {
      const first = get("/to-slow", header);
      await until("it runs", () => held.length === 1);
      expect((await get("/to-slow", header)).status).toBe(429);
      expect((await get("/slow/x", header)).status).toBe(429);
      held.pop()?.();
      expect((await first).status).toBe(200);
      await sleep(100);
    }
  });
});

it("charges the bytes of a response once", async () => {
  expect((await get("/dir/", "x-bytes")).headers["x-ratelimit-remaining"]).toBe("1000");
  expect((await get("/dir/", "x-bytes")).headers["x-ratelimit-remaining"]).toBe("900");
  expect((await get("/dir/", "x-bytes")).headers["x-ratelimit-remaining"]).toBe("800");
});

describe("policies that only one of the locations meets", () => {
  it("count in that location, and the headers show the last decision", async () => {
    const answers: Answer[] = [];
    for (let i = 0; i < 4; i++) answers.push(await get("/own-way", "x-own"));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers.map(({ headers }) => headers["ratelimit"]?.replace(/;t=.*/, ""))).toEqual([
      '"end";r=2',
      '"end";r=1',
      '"end";r=0',
      '"end";r=0',
    ]);
  });

  it("each header is there once", async () => {
    const headers = { "x-way": run, "x-own": run, "x-wide": run };
    const lines = await new Promise<string[]>((resolve, reject) => {
      request(`${gateway.url}/own-way`, { headers, agent: false }, (incoming) => {
        incoming.resume().on("end", () => resolve(incoming.rawHeaders.filter((_, i) => i % 2 === 0)));
      })
        .on("error", reject)
        .end();
    });
    const sent = lines.map((line) => line.toLowerCase()).filter((line) => line.includes("ratelimit"));
    expect(sent.sort()).toEqual([
      "ratelimit",
      "ratelimit-policy",
      "x-ratelimit-limit",
      "x-ratelimit-remaining",
      "x-ratelimit-reset",
    ]);
  });

  it("the mark of the first location stays, and is not a client's", async () => {
    const bodies: string[] = [];
    for (let i = 0; i < 3; i++) bodies.push((await get("/own-way", "x-tag")).body);
    expect(bodies).toEqual(["end of ", "end of over", "end of over"]);
    const forged = await ask(`${gateway.url}/own-way`, { headers: { "x-tag": `${run}-forged`, "x-mark": "mine" } });
    expect(forged.body).toBe("end of ");
  });
});

describe("the log variables", () => {
  const ofRun = async (headers: Record<string, string>, path: string, count: number) => {
    for (let i = 0; i < count; i++) await ask(gateway.url + path, { headers: { "x-run": run, ...headers } });
    await until("they are logged", () => logged().length === count);
    return logged();
  };

  it("say what was decided, in whatever location", async () => {
    const lines = await ofRun({}, "/dir/", 4);
    expect(lines.map(({ decision, policy, remaining }) => [decision, policy, remaining])).toEqual([
      ["allowed", "default/node", "2"],
      ["allowed", "default/node", "1"],
      ["allowed", "default/node", "0"],
      ["refused", "default/node", "0"],
    ]);
  });

  it("name the policy of the last decision", async () => {
    const [line] = await ofRun({ "x-own": run, "x-wide": run }, "/own-way", 1);
    expect([line?.["policy"], line?.["remaining"]]).toEqual(["default/end", "2"]);
  });

  it("keep what the first location said about a request that goes on", async () => {
    const headers = { "x-run": run, "x-shaped": run, "x-wide": run };
    await Promise.all(Array.from({ length: 4 }, () => ask(`${gateway.url}/own-way`, { headers })));
    await until("they are logged", () => logged().length === 4);
    const lines = logged();
    expect(lines.map(({ decision }) => decision)).toEqual(["allowed", ...Array(3).fill("allowed,delayed")]);
    expect(lines.map(({ policy }) => policy)).toEqual(Array(4).fill("default/wide-end"));
    // A tenth of a second apart: each has waited for its turn once.
    const delays = lines.map(({ delay }) => Number(delay));
    expect(delays[3]).toBeGreaterThan(0.15);
    expect(delays[3]).toBeLessThan(0.35);
    run = `${run}-shadow`;
    const shadow = await ofRun({ "x-shadow": run, "x-wide": run }, "/own-way", 4);
    expect(shadow.map(({ decision }) => decision)).toEqual(["allowed", "allowed", "allowed", "allowed,shadow-refused"]);
  });
});

it("no Lua fails, and nothing is left of any request", () => {
  const lines = gateway.log.split("\n");
  expect(lines.filter((line) => /thread aborted|without a decision|attempt to|without sluice.log/.test(line))).toEqual(
    [],
  );
});
