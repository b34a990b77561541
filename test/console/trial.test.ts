// A request that somebody makes up: how it is read, and written as a command. test/e2e/trial.test.ts compares the decisions with a gateway.

import { execFileSync } from "node:child_process";
import { blocksOf } from "@sluice/limiter/key/address-ranges.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ListedPolicy } from "../../console/src/api/queries.ts";
import { tryAll } from "../../console/src/pages/trial/use-tried.ts";
import { curlOf } from "../../console/src/trial/curl.ts";
import { normalPath, parseHeaders, partValue } from "../../console/src/trial/request.ts";
import { tryPolicy } from "../../console/src/trial/trial.ts";

describe("a path is read as nginx reads it", () => {
  it.each([
    ["/", "/"],
    ["//a///b/", "/a/b/"],
    ["/a/./b/../c?x=/../", "/a/c"],
    ["/a/..", "/"],
    ["/%61%2Fb", "/a/b"],
    ["/caf%C3%A9", "/café"],
    ["/..", undefined],
    ["/a%", undefined],
    ["/a%0", undefined],
    ["/a%00", undefined],
    ["a", undefined],
    ["", undefined],
  ])("%s", (target, path) => expect(normalPath(target)).toBe(path));
});

it("headers are read line by line, and a line that is none is named", () => {
  expect(parseHeaders("X-User:  ann \n\ncookie: a=b; c=d\r\nempty:")).toEqual([
    { name: "x-user", value: "ann" },
    { name: "cookie", value: "a=b; c=d" },
    { name: "empty", value: "" },
  ]);
  expect(parseHeaders("x-user: ann\nno header")).toEqual({ wrong: "no header" });
});

describe("a part of the key is read as a gateway reads it", () => {
  const request = { method: "GET", host: "x", headers: [], address: "192.0.2.1" };

  it.each([
    ["/?user=jos%C3%A9", "josé"],
    ["/?user=a+b&ids[]=1&ids[]=2", "a b"],
    ["/?user=ann&%20user=x", undefined],
    ["/?user=ann&USER=x", undefined],
    ["/?user=%E9", undefined],
  ])("%s", (target, value) => {
    const part = { source: "query", name: "user" } as const;
    const expected = value === undefined ? { state: "ambiguous" } : { state: "value", value };
    expect(partValue(part, { ...request, target })).toEqual(expected);
  });

  it.each([
    ["/a;sid=1", "ambiguous"],
    ["/a;SID=1?b", "ambiguous"],
    ["/a?;sid=1", "absent"],
    ["/a;xsid=1", "absent"],
  ])("a cookie, which is not there, with %s", (target, state) => {
    const part = { source: "cookie", name: "sid" } as const;
    expect(partValue(part, { ...request, target })).toEqual({ state });
    const headers = [{ name: "cookie", value: "sid=2" }];
    expect(partValue(part, { ...request, target, headers })).toEqual({ state: "value", value: "2" });
  });
});

it("a shell gives curl exactly the words that were meant, whatever they are", () => {
  const text = fc.string({ unit: "grapheme" }).filter((one) => !one.includes("\0"));
  // The gateway stays the host that gets the headers.
  expect(curlOf({ method: "GET", host: "", target: "@b.example/", headers: [], address: "" }, "http://a.example")).toBe(
    "curl -g -i --path-as-is http://a.example/@b.example/",
  );
  fc.assert(
    fc.property(text, text, text, (target, host, value) => {
      const request = { method: "POST", host: `h${host}`, target, headers: [{ name: "x-a", value }], address: "" };
      const command = curlOf(request, "http://127.0.0.1:8080/").replace(/^curl /, "printf '%s\\0' ");
      const words = execFileSync("sh", ["-c", command], { encoding: "utf8" }).split("\0").slice(0, -1);
      const header = value === "" ? "x-a;" : `x-a: ${value}`;
      const path = `${target.startsWith("/") ? "" : "/"}${target}`.replaceAll(" ", "%20");
      const expected = [
        "-g",
        "-i",
        "-X",
        "POST",
        "--path-as-is",
        `http://127.0.0.1:8080${path}`,
        "-H",
        `host: h${host}`,
        "-H",
        header,
      ];
      expect(words).toEqual(expected);
    }),
    { numRuns: 50 },
  );
});

it("an override and an exemption apply by the key that the request has, and a document that is not valid is not tried", () => {
  const document = {
    name: "books",
    key: ["header:x-user"],
    limits: [{ algorithm: "fixed-window", quota: 5, window: "1h" }],
    overrides: [
      { key: ["big"], limits: [{ algorithm: "fixed-window", quota: 50, window: "1h" }] },
      { key: ["free"], mode: "off" },
    ],
    exempt: { keys: [["boss"]] },
  };
  const by = (user: string) =>
    tryPolicy(
      document,
      { method: "GET", host: "", target: "/", address: "::1", headers: [{ name: "x-user", value: user }] },
      0,
    );
  expect(by("ann")).toEqual({ outcome: "counts", mode: "enforce", key: ["ann"], cost: 1, isOverridden: false });
  expect(by("big")).toMatchObject({ outcome: "counts", isOverridden: true });
  expect(by("free")).toMatchObject({ outcome: "passed-by", why: "override-off" });
  expect(by("boss")).toMatchObject({ outcome: "passed-by", why: "exempt-key" });
  expect(
    tryPolicy({ name: "X" }, { method: "GET", host: "", target: "/", address: "", headers: [] }, 0),
  ).toBeUndefined();
});

it("no request meets a policy of an app without a realm, also none that servers read differently", () => {
  const document = {
    name: "books",
    match: { paths: ["/a"] },
    limits: [{ algorithm: "fixed-window", quota: 5, window: "1h" }],
  };
  const around = { app: "checks", ofApps: [], lists: {} };
  const outcome = (target: string, hasNoRealm: boolean) => {
    const request = { method: "GET", host: "", target, address: "::1", headers: [], body: "" };
    return tryPolicy(document, request, 0, { ...around, hasNoRealm });
  };
  expect(["/a", "/a%0A"].map((target) => outcome(target, false)?.outcome)).toEqual(["counts", "denied"]);
  for (const target of ["/a", "/a%0A", "/b"]) {
    expect(outcome(target, true)).toEqual({ outcome: "passed-by", why: "realm", what: "checks" });
  }
});

it("the exemptions of its app and of app default hold too, for the parts that the key has", () => {
  const document = {
    name: "books",
    key: ["header:x-user"],
    limits: [{ algorithm: "fixed-window", quota: 5, window: "1h" }],
  };
  const keys = [
    { part: "header:X-User", pattern: "health-*" },
    { part: "path", pattern: "*" },
  ];
  const around = {
    app: "crm",
    hasNoRealm: false,
    ofApps: [
      { app: "crm", exempt: { keys } },
      { app: "default", exempt: { cidrs: ["10.0.0.0/8"] } },
    ],
    lists: {},
  };
  const by = (user: string, address: string) =>
    tryPolicy(
      document,
      { method: "GET", host: "", target: "/", address, headers: [{ name: "x-user", value: user }], body: "" },
      0,
      around,
    );
  expect(by("ann", "::1")).toMatchObject({ outcome: "counts" });
  expect(by("health-1", "::1")).toMatchObject({ outcome: "passed-by", why: "exempt-key" });
  expect(by("ann", "10.1.2.3")).toMatchObject({ outcome: "passed-by", why: "exempt-address" });
});

it.each([
  ["no body", [], "", 1],
  ["a body", [], "abcä", 5],
  ["an empty body", [{ name: "content-length", value: "0" }], "", 1],
  ["an unknown length", [{ name: "transfer-encoding", value: "chunked" }], "abc", 70],
])("a request with %s costs what a gateway counts of HTTP/1", (_, headers, body, cost) => {
  const document = {
    name: "bytes",
    cost: { from: "request-bytes", default: 70 },
    limits: [{ algorithm: "fixed-window", quota: 100, window: "1h" }],
  };
  const request = { method: "GET", host: "", target: "/", address: "::1", headers, body };
  expect(tryPolicy(document, request, 0)).toMatchObject({ outcome: "counts", cost });
});

it("a reference leads to the list of the app, else to that of app default", () => {
  const document = {
    name: "books",
    exempt: { cidrs: ["@office", "@monitors"] },
    limits: [{ algorithm: "fixed-window", quota: 5, window: "1h" }],
  };
  const around = {
    app: "crm",
    hasNoRealm: false,
    ofApps: [{ app: "default", exempt: { cidrs: ["@office"] } }],
    lists: {
      "crm:office": blocksOf(["10.1.0.0/16"]),
      "default:office": blocksOf(["10.2.0.0/16"]),
      "default:monitors": blocksOf(["10.3.0.0/16"]),
      "other:monitors": blocksOf(["10.4.0.0/16"]),
    },
  };
  const outcome = (address: string) =>
    tryPolicy(document, { method: "GET", host: "", target: "/", address, headers: [], body: "" }, 0, around)?.outcome;
  expect(["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"].map(outcome)).toEqual([
    "passed-by",
    "passed-by",
    "passed-by",
    "counts",
  ]);
});

it("tries many policies for some milliseconds at a time, and ends when the request has changed", async () => {
  const limits = Array.from({ length: 16 }, (_, i) => ({
    name: `limit-${i}`,
    algorithm: "fixed-window",
    quota: 5,
    window: "1h",
  }));
  const plans = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`plan-${i}`, limits]));
  const document = { key: ["header:x-user"], plans, planBy: "header:x-plan", defaultPlan: "plan-0" };
  const policies = Array.from({ length: 400 }, (_, i) => ({
    name: `p${i}`,
    document: { name: `p${i}`, ...document },
  })) as unknown as ListedPolicy[];
  const world = { policies, templates: [], around: { app: "shop", hasNoRealm: false, ofApps: [], lists: {} } };
  const request = { method: "GET", host: "", target: "/", address: "::1", headers: [{ name: "x-user", value: "ann" }] };
  let turns = 0;
  const others = setInterval(() => {
    turns += 1;
  });
  const tried = await tryAll(world, request, new AbortController().signal);
  expect(tried.map(({ trial }) => trial.outcome)).toEqual(policies.map(() => "counts"));
  expect(turns).toBeGreaterThan(3);
  const changed = new AbortController();
  const given = tryAll(world, request, changed.signal);
  changed.abort();
  expect((await given).length).toBeLessThan(policies.length);
  clearInterval(others);
});
