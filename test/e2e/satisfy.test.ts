// A limiter never lets a request in: where nginx asks several modules who may come in, Sluice has no say, whatever their order.

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { makeMemoryDir, removeMemoryDir } from "../fixtures/servers/memory-dir.ts";

const user = { authorization: `Basic ${Buffer.from("ada:lovelace").toString("base64")}` };

const perUser = (name: string, paths: readonly string[], more: object = {}) => ({
  name,
  match: { paths },
  key: ["header:x-run"],
  limits: [{ algorithm: "fixed-window", quota: 2, window: "366d" }],
  ...more,
});
const pathsOf = (name: string) => [`/any/${name}`, `/all/${name}`, `/early/${name}`];

const policies = [
  perUser("counted", [...pathsOf("counted"), ...pathsOf("after")]),
  perUser("shaped", pathsOf("shaped"), {
    limits: [{ algorithm: "leaky-bucket", quota: 20, window: "1s", burst: 5 }],
  }),
  perUser("degraded", pathsOf("degraded"), { onLimit: { action: "degrade", uri: "/cheap" } }),
  perUser("answered", pathsOf("answered"), {
    onLimit: { action: "degrade", response: { status: 203, body: "cheap" } },
  }),
  perUser("two-a", pathsOf("two")),
  perUser("two-b", pathsOf("two")),
];

const access = "access_by_lua_block { sluice.access() }";
const early = "rewrite_by_lua_block { sluice.rewrite() }";
/** The answer says how many light threads the request has started. */
const countingThreads = `init_by_lua_block {
  local spawn = ngx.thread.spawn
  function ngx.thread.spawn(...)
    if ngx.get_phase() == "access" then ngx.header["X-Threads"] = (ngx.header["X-Threads"] or 0) + 1 end
    return spawn(...)
  end`;
/** Other Lua of the operator stands after the call, and waits too. */
const withOwn = (wait: string) =>
  `access_by_lua_block { sluice.access() ${wait} ngx.header["X-Own"] = "ran" if ngx.var.arg_own == "refuse" then ngx.exit(403) end if ngx.var.arg_own == "let-in" then ngx.exit(ngx.OK) end }`;

function locations(passwords: string): string {
  const basic = `auth_basic "staff"; auth_basic_user_file ${passwords};`;
  const served = `content_by_lua_block { ngx.print("served") }`;
  const at = (where: string, lines: string) => `location ${where} { ${lines} ${served} }`;
  return [
    at("/any/", `satisfy any; deny all; ${basic} ${access}`),
    at("= /any/after", `satisfy any; deny all; ${basic} ${withOwn("")}`),
    at("= /any/after-a-wait", `satisfy any; deny all; ${basic} ${withOwn("ngx.sleep(0.02)")}`),
    at("= /any/no-basic", `satisfy any; deny all; ${access}`),
    at("= /any/open", `satisfy any; ${access}`),
    at("= /any/allowed", `satisfy any; allow all; ${access}`),
    at("= /any/asked", `satisfy any; deny all; auth_request /ask; ${access}`),
    at("= /any/nested", `satisfy any; if ($arg_x = 1) { set $a 1; } ${basic} ${access}`),
    at("/all/", `${basic} ${access}`),
    at("= /all/after", `${basic} ${withOwn("")}`),
    at("= /all/asked", `auth_request /ask; ${access}`),
    at("= /all/denied", `deny all; ${access}`),
    at("/early/", `satisfy any; deny all; ${basic} ${early}`),
    at("= /early/allowed", `satisfy any; allow all; ${early}`),
    at("= /early/asked", `auth_request /ask-counted; ${early}`),
    at("= /cheap", ""),
    "location = /ask { internal; if ($arg_let != in) { return 403; } return 204; }",
    `location = /ask-counted { internal; ${early} content_by_lua_block { ngx.exit(204) } }`,
  ].join("\n");
}

let directory = "";
let gateway: LoneGateway;
/** Counts with counters of its own. */
let run = "";
let runs = 0;

beforeAll(async () => {
  directory = makeMemoryDir("satisfy");
  chmodSync(directory, 0o755);
  const passwords = join(directory, "passwords");
  writeFileSync(passwords, "ada:{PLAIN}lovelace\n", { mode: 0o644 });
  gateway = await LoneGateway.start({
    policies: [
      ...policies,
      perUser("allowed", ["/any/allowed", "/early/allowed"]),
      perUser("asked", ["/early/asked", "/ask-counted"]),
    ],
    edit: (config) =>
      config
        .replace("init_by_lua_block {", countingThreads)
        .replace("location / {", `${locations(passwords)}\n    location / {`),
  });
});
afterAll(async () => {
  await gateway?.stop();
  removeMemoryDir(directory);
});
beforeEach(() => {
  runs += 1;
  run = `run-${runs}`;
});

const get = (path: string, headers: Record<string, string> = {}) =>
  ask(gateway.url + path, { headers: { "x-run": run, ...headers } });
const statusOf = async (path: string, headers: Record<string, string> = {}) => (await get(path, headers)).status;

describe.each(["any", "early"])("satisfy any, at /%s/", (where) => {
  it.each(["unmatched", "counted", "two", "shaped", "degraded", "answered"])(
    "nobody comes in without a password: %s",
    async (name) => {
      const answer = await get(`/${where}/${name}`);
      expect(answer.status).toBe(401);
      expect(answer.headers["www-authenticate"]).toBe('Basic realm="staff"');
      expect(answer.body).not.toContain("served");
      expect(await statusOf(`/${where}/${name}`, { authorization: "Basic YWRhOndyb25n" })).toBe(401);
    },
  );

  it("who has a password comes in", async () => {
    expect((await get(`/${where}/counted`, user)).body).toBe("served");
    expect((await get(`/${where}/unmatched`, user)).body).toBe("served");
  });

  it("those without a password are counted, refused, and get the cheap answer like all others", async () => {
    for (const status of [401, 401, 429, 429]) expect(await statusOf(`/${where}/counted`)).toBe(status);
    for (const status of [401, 401, 429]) expect(await statusOf(`/${where}/two`)).toBe(status);
    for (const status of [401, 401, 203]) expect(await statusOf(`/${where}/answered`)).toBe(status);
  });

  it("who is sent to a cheaper location is not let in there either", async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push(await statusOf(`/${where}/degraded`));
    expect(statuses.slice(0, 2)).toEqual([401, 401]);
    // Nobody has been asked for a password yet where Sluice comes first, and the other location asks for none.
    expect(statuses.slice(2)).toEqual(where === "any" ? [401, 401] : [200, 200]);
  });

  it("requests still wait for their turn", async () => {
    const startedAtMs = performance.now();
    const statuses = await Promise.all(Array.from({ length: 4 }, () => statusOf(`/${where}/shaped`)));
    expect(statuses).toEqual([401, 401, 401, 401]);
    expect(performance.now() - startedAtMs).toBeGreaterThan(140);
  });
});

describe("satisfy any", () => {
  it.each(["after", "after-a-wait"])(
    "the operator's own Lua after the call runs, and Sluice grants nothing: %s",
    async (name) => {
      const answer = await get(`/any/${name}`);
      expect(answer.status).toBe(401);
      expect(answer.headers["x-own"]).toBe("ran");
    },
  );

  it("the operator's own refusal after the call stands", async () => {
    expect(await statusOf("/any/after?own=refuse")).toBe(401);
    expect(await statusOf("/all/after?own=refuse", user)).toBe(403);
  });

  it.each(["after", "after-a-wait"])("the operator's own Lua lets in whom it wants: %s", async (name) => {
    expect((await get(`/any/${name}?own=let-in`)).body).toBe("served");
  });

  it("with deny alone, with a subrequest that says no, and in a location with a nested block", async () => {
    expect(await statusOf("/any/no-basic")).toBe(403);
    expect(await statusOf("/any/asked")).toBe(403);
    expect(await statusOf("/any/nested")).toBe(401);
    expect(await statusOf("/any/nested?x=1")).toBe(401);
    expect(await statusOf("/any/nested?x=1", user)).toBe(200);
  });

  it("where no module refuses, requests come in as without Sluice", async () => {
    expect(await statusOf("/any/open")).toBe(200);
    expect(await statusOf("/any/allowed")).toBe(200);
  });

  it("who another module lets in is counted by sluice.rewrite(), and does not come to sluice.access()", async () => {
    for (const status of [200, 200, 200, 200]) expect(await statusOf("/any/allowed")).toBe(status);
    for (const status of [200, 200, 429, 429]) expect(await statusOf("/early/allowed")).toBe(status);
    run += "-again";
    for (const status of [200, 200, 429]) expect(await statusOf("/early/counted", user)).toBe(status);
  });
});

describe("satisfy all", () => {
  it("each module refuses by itself, and Sluice counts only what they let in", async () => {
    for (let i = 0; i < 4; i++) expect(await statusOf("/all/counted")).toBe(401);
    for (const status of [200, 200, 429]) expect(await statusOf("/all/counted", user)).toBe(status);
    expect(await statusOf("/all/denied")).toBe(403);
    expect(await statusOf("/all/asked")).toBe(403);
  });

  it("costs no light thread: nginx tells what its configuration says, whichever nginx it is", async () => {
    expect((await get("/any/counted")).headers["x-threads"]).toBe("1");
    const answer = await get("/all/counted", user);
    expect([answer.status, answer.headers["x-threads"]]).toEqual([200, undefined]);
  });

  it("the operator's own Lua after the call runs", async () => {
    const answer = await get("/all/after", user);
    expect([answer.status, answer.headers["x-own"]]).toEqual([200, "ran"]);
  });
});

it("sluice.rewrite() does not count the subrequests that nginx makes for a request", async () => {
  for (const status of [200, 200, 429]) expect(await statusOf("/early/asked")).toBe(status);
});

it("no Lua fails", () => {
  const lines = gateway.log.split("\n");
  expect(lines.filter((line) => /thread aborted|without a decision|attempt to/.test(line))).toEqual([]);
});
