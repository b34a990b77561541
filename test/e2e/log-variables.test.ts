// The access log and maps of nginx can say what Sluice decided: a story with refusals, bans, shadow mode, marks, waits and an outage, read
// from the log as an operator would.

import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";

const names = ["decision", "policy", "limit", "key", "remaining", "delay"] as const;
type Line = Record<(typeof names)[number] | "uri" | "status", string>;

/** What docs/operations.md tells an operator to add to nginx.conf. */
const declarations = names.map((name) => `map "" $sluice_${name} { default "-"; }`).join("\n");
const logFormat = `log_format sluice escape=json '{"uri":"$request_uri","status":"$status",${names
  .map((name) => `"${name}":"$sluice_${name}"`)
  .join(",")}}';`;
const map = `map $sluice_decision $sluice_worth_a_line { default 1; "-" 0; "allowed" 0; }`;

const token = "a-token-of-all-gateways";
/** As every gateway with this token shows a credential. */
const digest = (value: string) => `hmac:${createHmac("sha1", token).update(value).digest("hex").slice(0, 8)}`;

const later = 4_000_000_000;
const window = { name: "whole", algorithm: "fixed-window", quota: 1, window: "366d" };
const limited = (name: string, more: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-user"],
  limits: [window],
  ...more,
});

const caller = { app: "default", token: "token-of-the-tests" };

let gateway: LoneGateway;
/** Counts in nothing but the variables' absence. */
let silent: LoneGateway;

beforeAll(async () => {
  const policies = [
    limited("plain"),
    limited("secrets", {
      key: ["header:x-user", "header:x-token-kind"],
      secret: { "header:x-user": true, "header:x-token-kind": false },
    }),
    limited("two-parts", { key: ["header:x-user", "method", "header:x-api-key"] }),
    limited("shadow", { mode: "shadow" }),
    limited("both", { match: { paths: ["/both", "/both-refuse"] }, mode: "shadow" }),
    limited("refuse", { match: { paths: ["/both-refuse"] }, limits: [{ ...window, name: "hard", quota: 2 }] }),
    limited("shape", {
      limits: [{ name: "paced", algorithm: "leaky-bucket", quota: 10, window: "1s", burst: 5 }],
    }),
    limited("wait", {
      limits: [{ name: "slow", algorithm: "token-bucket", quota: 10, window: "1s", burst: 1 }],
      onLimit: { action: "delay", maxDelay: "2s", maxWaiting: 5 },
    }),
    limited("tag", { onLimit: { action: "tag", header: "x-over-limit: 1" } }),
    limited("cheap", { onLimit: { action: "degrade", uri: "/cheap-answer" } }),
    limited("needs-key", { onMissingKey: "deny" }),
    limited("costly", { cost: { from: "header:x-cost", default: 1, max: 1 } }),
    limited("away", { scope: "cluster", onStoreFailure: "allow" }),
    limited("away-denies", { scope: "cluster", onStoreFailure: "deny" }),
    limited("exempted", { exempt: { cidrs: ["198.51.100.0/24"], keys: [["friend"]] } }),
    limited("overridden", { overrides: [{ key: ["vip"], limits: [{ ...window, quota: 100 }] }] }),
  ];
  const redis = `redis://127.0.0.1:${await freePort()}`;
  gateway = await LoneGateway.start({
    policies,
    bans: [
      { id: "key", app: "default", policy: "plain", key: ["mallory"], untilSeconds: later },
      { id: "net", app: "default", cidr: "192.0.2.0/24", untilSeconds: later },
    ],
    callers: [callerOf(caller)],
    env: { SLUICE_REDIS_URL: redis, SLUICE_HEADERS: "none", SLUICE_GATEWAY_TOKEN: token },
    edit: (config) =>
      config
        .replace("access_log off;", `${declarations}\n${logFormat}\n${map}\naccess_log asked.log sluice;`)
        .replace(
          "log_by_lua_block",
          "access_log all.log sluice;\naccess_log worth.log sluice if=$sluice_worth_a_line;\nlog_by_lua_block",
        )
        .replace("# set_real_ip_from 10.0.0.0/8;", "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;")
        .replace(
          "location = /sluice/healthz",
          "location = /cheap-answer { access_by_lua_block { sluice.access() } proxy_pass http://service/sluice/healthz; }\n location = /sluice/healthz",
        ),
  });
  silent = await LoneGateway.start({ policies: [limited("plain")] });
});
afterAll(async () => {
  await gateway?.stop();
  await silent?.stop();
});

const linesOf = (file: string, uri: string) =>
  readFileSync(join(gateway.directory, file), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line)
    .filter((line) => line.uri === uri);

/** Asks so many times, one after the other. @returns the last lines of the access log, without URI and status */
async function logged(path: string, times: number, headers: Record<string, string> = { "x-user": "ann" }) {
  const before = linesOf("all.log", path).length;
  const answers: Answer[] = [];
  for (let n = 0; n < times; n++) answers.push(await ask(`${gateway.url}${path}`, { headers }));
  await until(`${times} lines of ${path}`, () => linesOf("all.log", path).length === before + times);
  return linesOf("all.log", path)
    .slice(before)
    .map(({ uri: _, status: __, ...line }) => line);
}

const nothing = { decision: "-", policy: "-", limit: "-", key: "-", remaining: "-", delay: "-" };
const by = (policy: string, more: Partial<Line> = {}) => ({
  ...nothing,
  decision: "allowed",
  policy: `default/${policy}`,
  limit: "whole",
  key: "ann",
  remaining: "0",
  delay: "0.000",
  ...more,
});

it("says what was allowed and refused, by which policy and limit, for whom, and how much is left", async () => {
  expect(await logged("/plain", 2)).toEqual([by("plain"), by("plain", { decision: "refused" })]);
  expect(await logged("/overridden", 1, { "x-user": "vip" })).toEqual([
    by("overridden", { key: "vip", remaining: "99" }),
  ]);
  expect(await logged("/nothing-matches", 1)).toEqual([nothing]);
});

it("names the key in one word, with a digest where a part may be a credential, whatever clients send", async () => {
  const secret = { "x-user": 'a,b "c" é\\%', "x-api-key": "hunter2" };
  const [line] = await logged("/two-parts", 1, secret);
  expect(line?.key).toBe(`a%2Cb%20%22c%22%20%E9%5C%25,GET,${digest("hunter2")}`);
  expect((await logged("/plain", 1, { "x-user": "x".repeat(500) }))[0]?.key).toBe(`${"x".repeat(100)}...`);
});

it("has a digest of a part that the policy says is secret, and shows one that it says is not, with the same counter", async () => {
  const [line, other] = await logged("/secrets", 2, { "x-user": "ann", "x-token-kind": "free" });
  expect([line?.key, other?.decision]).toEqual([`${digest("ann")},free`, "refused"]);
});

it("says who is banned", async () => {
  expect(await logged("/plain", 1, { "x-user": "mallory" })).toEqual([
    { ...nothing, decision: "banned", policy: "default/plain", key: "mallory", delay: "0.000" },
  ]);
  expect(await logged("/plain", 1, { "x-user": "ann", "x-forwarded-for": "192.0.2.7" })).toEqual([
    { ...nothing, decision: "banned", delay: "0.000" },
  ]);
});

it("says who is exempt, and nothing of that where a policy counts the request", async () => {
  const exempt = { ...nothing, decision: "allowed,exempt", policy: "default/exempted", delay: "0.000" };
  expect(await logged("/exempted", 2, { "x-user": "friend" })).toEqual([exempt, exempt]);
  expect(await logged("/exempted", 1, { "x-forwarded-for": "198.51.100.7" })).toEqual([exempt]);
  expect(await logged("/exempted", 2)).toEqual([by("exempted"), by("exempted", { decision: "refused" })]);
});

it("says whom shadow mode would have refused, and by which policy, beside what was decided", async () => {
  const shadow = by("shadow", { decision: "allowed,shadow-refused" });
  expect(await logged("/shadow", 2)).toEqual([nothing, shadow]);
  await logged("/both", 1);
  expect(await logged("/both-refuse", 3)).toEqual([
    by("both", { decision: "allowed,shadow-refused" }),
    by("both", { decision: "allowed,shadow-refused" }),
    by("refuse", { decision: "refused,shadow-refused", limit: "hard" }),
  ]);
});

it("says how long a request was delayed, by a leaky-bucket and in line", async () => {
  await Promise.all([logged("/shape?first", 1), logged("/shape?second", 1)]);
  const shaped = [...linesOf("all.log", "/shape?first"), ...linesOf("all.log", "/shape?second")];
  const waited = shaped.find(({ decision }) => decision === "allowed,delayed");
  expect(waited).toMatchObject({ policy: "default/shape", limit: "paced", key: "ann" });
  expect(Number(waited?.delay)).toBeGreaterThan(0);
  expect(Number(waited?.delay)).toBeLessThanOrEqual(0.1);
  const [first, second] = await logged("/wait", 2);
  expect(first).toEqual(by("wait", { limit: "slow" }));
  expect(second).toMatchObject({ decision: "allowed,delayed", policy: "default/wait", limit: "slow" });
  expect(Number(second?.delay)).toBeGreaterThan(0.02);
  expect(Number(second?.delay)).toBeLessThan(0.5);
});

it("says what is over the limit and passes all the same, or gets another answer", async () => {
  expect(await logged("/tag", 2)).toEqual([by("tag"), by("tag", { decision: "allowed,over-limit" })]);
  // The other answer is another location of nginx, which redirects to it internally: the variables stay.
  expect(await logged("/cheap", 2)).toEqual([by("cheap"), by("cheap", { decision: "allowed,over-limit" })]);
});

it("says why a request is refused that no limit refuses, and what was decided without Redis", async () => {
  const refused = { limit: "-", remaining: "-" };
  expect(await logged("/needs-key", 1, {})).toEqual([
    by("needs-key", { ...refused, decision: "refused,key-missing", key: "-" }),
  ]);
  expect(await logged("/costly", 1, { "x-user": "ann", "x-cost": "many" })).toEqual([
    by("costly", { ...refused, decision: "refused,cost-invalid" }),
  ]);
  expect(await logged("/elsewhere/..;/plain", 1)).toEqual([
    { ...nothing, decision: "refused,path-ambiguous", delay: "0.000" },
  ]);
  expect(await logged("/away", 1)).toEqual([by("away", { ...refused, decision: "allowed,degraded" })]);
  expect(await logged("/away-denies", 1)).toEqual([
    by("away-denies", { ...refused, decision: "refused,degraded,undecided" }),
  ]);
});

it("says of the check API's requests what their callers were told", async () => {
  const uri = "/sluice/v1/check";
  for (const [policy, key] of [
    ["plain", "caller"],
    ["plain", "caller"],
    ["plain", "mallory"],
    ["exempted", "friend"],
    ["shadow", "ann"],
    ["away", "caller"],
  ] as const) {
    await check(gateway.privateUrl, caller, [{ policy, key: [key] }]);
  }
  await until("six lines", () => linesOf("asked.log", uri).length === 6);
  const limitless = { limit: "-", remaining: "-" };
  expect(linesOf("asked.log", uri).map(({ uri: _, status: __, ...line }) => line)).toEqual([
    by("plain", { key: "caller" }),
    by("plain", { key: "caller", decision: "refused" }),
    by("plain", { ...limitless, key: "mallory", decision: "banned" }),
    by("exempted", { ...limitless, key: "friend", decision: "allowed,exempt" }),
    by("shadow", { decision: "allowed,shadow-refused" }),
    by("away", { ...limitless, key: "caller", decision: "allowed,degraded,undecided" }),
  ]);
});

it("says that Redis did not decide by choice, because it is overloaded", async () => {
  const redis = new RedisServer(await freePort());
  await redis.start();
  const proxy = await TcpProxy.start(redis.port);
  proxy.delayMs = 20;
  const limits = [{ name: "whole", algorithm: "fixed-window", quota: 100_000, window: "366d" }];
  const slow = await LoneGateway.start({
    policies: [limited("slow", { scope: "cluster", limits })],
    env: { SLUICE_REDIS_URL: proxy.url, SLUICE_OVERLOAD_REDIS_P99_MS: "10" },
    edit: (config) =>
      config
        .replace("access_log off;", `${declarations}\n${logFormat}\naccess_log off;`)
        .replace("log_by_lua_block", "access_log all.log sluice;\nlog_by_lua_block"),
  });
  const lines = () => readFileSync(join(slow.directory, "all.log"), "utf8").trim().split("\n");
  try {
    await until("Redis is overloaded", async () => {
      await Promise.all([1, 2, 3, 4].map(() => ask(`${slow.url}/slow`, { headers: { "x-user": "ann" } })));
      return lines().some((line) => line.includes("overloaded"));
    });
    const decisions = new Set(lines().map((line) => (JSON.parse(line) as Line).decision));
    expect([...decisions].filter((decision) => decision.includes("overloaded"))).toEqual([
      "allowed,degraded,overloaded",
    ]);
    expect(decisions).toContain("allowed");
  } finally {
    await slow.stop();
    await proxy.refuse();
    await redis.stop("SIGKILL");
  }
});

it("lets a map choose which requests have a line", () => {
  const read = (file: string) => readFileSync(join(gateway.directory, file), "utf8").trim().split("\n");
  const worth = read("worth.log");
  const isWorthALine = (line: string) => !["-", "allowed"].includes((JSON.parse(line) as Line).decision);
  expect(worth).toEqual(read("all.log").filter(isWorthALine));
  expect(worth.length).toBeGreaterThan(10);
});

it("complains of nothing where nginx declares none of the variables", async () => {
  for (const status of [404, 429, 429]) {
    expect((await ask(`${silent.url}/plain`, { headers: { "x-user": "ann" } })).status).toBe(status);
  }
  expect(silent.log).not.toMatch(/sluice_|passed without/);
  expect(gateway.log).not.toMatch(/variable|passed without a decision/);
});
