// A policy that the control plane stores must be one that gateways take: a gateway refuses everything that comes with one that it does not
// take. So whatever Node finds valid, LuaJIT must find valid. Texts and numbers, which the two read differently, are put everywhere.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { validatePolicy } from "../../limiter/src/document/validate.ts";

const script = `
local cjson = require("cjson")
local product = require("test.gateway.product")
local problemsOf = product.module("limiter.src.document.validate").problemsOf
local failed = {}
for line in io.lines() do
  local ok, problems = pcall(problemsOf, cjson.decode(line))
  local first = ok and problems[1] or { path = problems, expected = "", got = "" }
  io.write(ok and #problems == 0 and "valid" or first.path .. ": expected " .. first.expected .. ", got " .. first.got, "\\n")
end
`;

const limit = { algorithm: "fixed-window", quota: 10, window: "1m" };
const documents: readonly Record<string, unknown>[] = [
  {
    name: "everything",
    description: "what people read",
    mode: "enforce",
    priority: 5,
    match: {
      hosts: ["api.example.com", "*.example.org"],
      paths: ["/api/books", "/api/books/*", "~^/v[0-9]+/books$"],
      methods: ["GET", "POST"],
      headers: { "x-kind": ["free", "trial"] },
    },
    key: ["ip/24/56", "header:x-kind", "cookie:kind", "query:kind", "form:kind", "jwt:kind", "var:kind", "const:kind"],
    secret: { "ip/24/56": true, "header:X-Kind": true, "query:kind": false },
    onMissingKey: "shared",
    limits: [
      { name: "burst", algorithm: "token-bucket", quota: 2, window: "1s", burst: 10, initial: 3, warmUp: "10s" },
      { name: "month", algorithm: "fixed-window", quota: 9, window: "month", timezone: "Europe/Kiev", anchor: 3 },
      { name: "slide", algorithm: "sliding-window", quota: 9, window: "1h", precision: "1m" },
      { name: "log", algorithm: "sliding-log", quota: 9, window: "1h" },
      { name: "leak", algorithm: "leaky-bucket", quota: 9, window: "1h", burst: 4, maxDelay: "1s" },
      { name: "slots", algorithm: "concurrency", quota: 9, ttl: "1m" },
    ],
    cost: { from: "header:x-kost", default: 1, max: 4 },
    scope: "cluster",
    consistency: "exact",
    onStoreFailure: "deny",
    maxStoreWait: "50ms",
    exempt: {
      cidrs: ["10.0.0.0/8", "2001:db8::/32", "@partners"],
      keys: [["10.0.0.1", "k", "k", "k", "k", "k", "k", "kind"]],
    },
    overrides: [
      {
        key: ["*", "k", "*", "*", "*", "*", "*", "kind"],
        limits: [{ ...limit, algorithm: "sliding-log", name: "log" }],
      },
    ],
    onLimit: { action: "reject", status: 429, body: "kindly wait", headers: ["x-kind: king", "x-retry: 1"] },
  },
  {
    name: "plans",
    key: ["header:x-kind"],
    plans: { free: [limit], pro: [{ ...limit, quota: 20, burst: undefined }] },
    planBy: "jwt:kind",
    defaultPlan: "free",
    schedule: { timezone: "Europe/Berlin", windows: [{ days: ["mon", "tue"], from: "09:00", to: "17:30" }] },
    onLimit: { action: "degrade", uri: "/kept/here" },
  },
  {
    name: "tagged",
    limits: [limit],
    sharedWith: ["kiosk", "desk"],
    onLimit: { action: "tag", header: "x-kind: king" },
  },
  {
    name: "slow",
    limits: [limit],
    onLimit: { action: "delay", maxDelay: "2s", maxWaiting: 5, status: 503, body: "kindly wait" },
  },
  {
    name: "cheap",
    scope: "cluster",
    limits: [{ ...limit, window: "lifetime" }],
    onLimit: { action: "degrade", response: { status: 203, body: "less", headers: ["x-kind: king"] } },
  },
  { name: "away", limits: [limit], onLimit: { action: "degrade", location: "@kept" } },
  { name: "marked", limits: [limit], onLimit: { action: "degrade", header: "x-kind: king" } },
];

/** Letters that change to ASCII ones, digits that are none, blanks of other scripts, characters of several bytes or code units. */
const letters = ["\u212a", "\u017f", "\u0130", "\u0131", "\u00e9", "\u00df", "\ufb01", "\u{1f600}", "\ufffd"];
const blanks = [" ", "\t", "\r", "\n", "\v", "\f", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000", "\ufeff"];
const digits = ["\uff11", "\u0663", "0x1", "1e3", "1.0", "+1", "-1", "01", "9".repeat(20)];
const signs = [
  "\0",
  "\u007f",
  "%",
  "%%",
  "\\",
  '"',
  "*",
  "**",
  "~",
  "^",
  "(",
  "[",
  "]",
  ".",
  "..",
  "/",
  "//",
  "@",
  ":",
  ";",
  ",",
  "_",
  "-",
];
const pieces = [...letters, ...blanks, ...digits, ...signs];
const wholes = [
  "",
  ...pieces,
  "\u00e9".repeat(130),
  "\u{1f600}".repeat(65),
  "\u00e9".repeat(1001),
  "k".repeat(256),
  "null",
  "nan",
  "inf",
];
const numbers = [0, -0, 1, -1, 0.1, 1.5, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 53 + 2, 1e15, 1e16, 1e300, 5e-324];
const others = [true, false, null, [], {}, [[]], [{}]];

test("a policy that is valid in Node is valid in LuaJIT, whatever it has for texts, names and numbers", async () => {
  await requireGatewayBuild();
  const changed = documents.flatMap((document) => [
    JSON.stringify(document),
    ...changes(document).map((one) => JSON.stringify(one)),
  ]);
  const output = execFileSync("luajit", ["-e", script], {
    cwd: resolve(import.meta.dirname, "../.."),
    input: `${changed.join("\n")}\n`,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  const inLua = output.trimEnd().split("\n");
  expect(inLua).toHaveLength(changed.length);
  const valid = changed.map((text) => validatePolicy(JSON.parse(text)).policy !== undefined);
  const faults = documents.flatMap((document) => validatePolicy(JSON.parse(JSON.stringify(document))).problems);
  expect(faults).toEqual([]);
  // An empty object counts as an empty list in Lua, so that LuaJIT takes a little more.
  const refused = changed.flatMap((text, i) => (valid[i] && inLua[i] !== "valid" ? [`${text}: ${inLua[i]}`] : []));
  expect(refused).toEqual([]);
  // Nothing that is compared is compared in vain.
  expect(valid.filter((one) => one).length).toBeGreaterThan(3_000);
  expect(valid.filter((one) => !one).length).toBeGreaterThan(10_000);
});

/** The document with each of its values, and each of its names, changed in each way. */
function changes(value: unknown): unknown[] {
  if (typeof value === "string") {
    const middle = Math.ceil(value.length / 2);
    const grown = pieces.flatMap((piece) => [
      piece + value,
      value.slice(0, middle) + piece + value.slice(middle),
      value + piece,
      value.replace(/k/, piece),
    ]);
    return [...wholes, ...grown, ...numbers, ...others].filter((one) => one !== value);
  }
  if (typeof value !== "object" || value === null) return [...numbers, ...digits, ...others];
  if (Array.isArray(value)) {
    const inside = value.flatMap((item, i) => changes(item).map((one) => value.with(i, one)));
    return [...inside, ...others, "", 1, [...value, ...value]];
  }
  const entries = Object.entries(value);
  return entries.flatMap(([name, item], i) => {
    const rest = (entry?: readonly [string, unknown]) =>
      Object.fromEntries(entries.flatMap((one, k) => (k !== i ? [one] : entry === undefined ? [] : [entry])));
    const renamed = pieces.flatMap((piece) => [
      rest([`${name}${piece}`, item]),
      rest([name.replace(/k/, piece), item]),
    ]);
    return [rest(), ...renamed, ...changes(item).map((one) => rest([name, one]))];
  });
}
