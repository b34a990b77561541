// Tests what a client sees in RateLimit and X-RateLimit-* when others set them too: the service, other Lua of the same nginx,
// and nginx's own redirects, by which a request may be decided twice.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

let gateway: LoneGateway;
let service: Server | undefined;
afterEach(async () => {
  service?.close();
  service?.closeAllConnections();
  service = undefined;
  await gateway?.stop();
});

const limitOf = (name: string, quota: number) => ({
  name,
  match: { paths: [`/${name}`, `/${name}/*`] },
  limits: [{ name, algorithm: "fixed-window", quota, window: "366d" }],
});

async function start(locations: string, policies: readonly Record<string, unknown>[]): Promise<void> {
  gateway = await LoneGateway.start({
    policies,
    edit: (config) => config.replace("location / {", `${locations}\n    location / {`),
  });
}

/** Node joins the values of a header that comes twice with a comma. */
const headersOf = async (path: string) => (await ask(`${gateway.url}${path}`)).headers;

const decided = "access_by_lua_block { sluice.access() }";

const month = { name: "month", algorithm: "fixed-window", quota: 100, window: "month" };
const rate = { name: "rate", algorithm: "token-bucket", quota: 20, window: "20s", burst: 2 };

it("lists every limit of the policy in RateLimit, and the older fields speak of the first one", async () => {
  const both = (scope: string) => ({ name: scope, scope, match: { paths: [`/${scope}`] }, limits: [month, rate] });
  const redis = new RedisServer(await freePort());
  await redis.start();
  try {
    gateway = await LoneGateway.start({
      policies: [
        both("node"),
        both("cluster"),
        { ...limitOf("node", 1_000_000), match: { paths: ["/node"] }, name: "wide" },
      ],
      env: { SLUICE_REDIS_URL: redis.url },
    });
    for (const scope of ["node", "cluster"]) {
      const headers = { ratelimit: expect.stringMatching(/^"rate";r=1;t=1, "month";r=99;t=\d{3,7}$/) };
      expect(await headersOf(`/${scope}`)).toMatchObject({ ...headers, "x-ratelimit-remaining": "1" });
      await headersOf(`/${scope}`);
      const refused = { ratelimit: expect.stringMatching(/^"rate";r=0;t=[12], "month";r=98;t=\d{3,7}$/) };
      expect(await headersOf(`/${scope}`)).toMatchObject({ ...refused, "x-ratelimit-remaining": "0" });
    }
  } finally {
    await redis.stop();
  }
});

describe("a request that is decided twice", () => {
  it("shows only the decision of the location where it ended, after error_page", async () => {
    await start(
      `location /first {
        ${decided}
        error_page 502 = /second;
        proxy_pass http://127.0.0.1:1;
      }
      location /second {
        ${decided}
        content_by_lua_block { ngx.print("second") }
      }`,
      [limitOf("first", 10), limitOf("second", 20)],
    );
    expect(await headersOf("/first")).toMatchObject({
      "ratelimit-policy": expect.stringMatching(/^"second";q=20;w=\d+$/),
      ratelimit: expect.stringMatching(/^"second";r=19;t=\d+$/),
      "x-ratelimit-limit": "20",
      "x-ratelimit-remaining": "19",
      "x-ratelimit-reset": expect.stringMatching(/^\d+$/),
    });
  });

  it("shows the decision of the location where it ended, after ngx.exec and try_files", async () => {
    await start(
      `location /first {
        ${decided}
        content_by_lua_block { ngx.exec("/second") }
      }
      location /tried {
        ${decided}
        try_files /nothing /second;
      }
      location /second {
        ${decided}
        content_by_lua_block { ngx.print("second") }
      }`,
      [limitOf("first", 10), limitOf("tried", 10), limitOf("second", 20)],
    );
    expect(await headersOf("/first")).toMatchObject({ ratelimit: expect.stringMatching(/^"second";r=19;t=\d+$/) });
    expect(await headersOf("/tried")).toMatchObject({ ratelimit: expect.stringMatching(/^"second";r=18;t=\d+$/) });
  });

  it("shows its one decision if it was sent elsewhere over the limit", async () => {
    await start(`location /second { ${decided} content_by_lua_block { ngx.print("second") } }`, [
      { ...limitOf("first", 1), onLimit: { action: "degrade", uri: "/second" } },
      limitOf("second", 20),
    ]);
    await ask(`${gateway.url}/first`);
    expect(await headersOf("/first")).toMatchObject({
      ratelimit: expect.stringMatching(/^"first";r=0;t=\d+$/),
      "x-ratelimit-limit": "1",
    });
  });

  it("shows one refusal if error_page sends it to a location that decides", async () => {
    await start(
      `location /first {
        ${decided}
        error_page 429 = /second;
        content_by_lua_block { ngx.print("first") }
      }
      location /second {
        ${decided}
        content_by_lua_block { ngx.print("second") }
      }`,
      [limitOf("first", 1), limitOf("second", 20)],
    );
    await ask(`${gateway.url}/first`);
    const { status, headers } = await ask(`${gateway.url}/first`);
    expect(status).toBe(429);
    expect(headers["x-ratelimit-remaining"]).toBe("0");
  });
});

describe("headers of the same name", () => {
  const location = `location /service {
    content_by_lua_block {
      ngx.header["RateLimit"] = '"theirs";r=1;t=1'
      ngx.header["X-RateLimit-Remaining"] = "1"
    }
  }`;
  const passes = (path: string, more: string) => `location ${path} {
    ${decided}
    proxy_pass http://127.0.0.1:$server_port/service;
    ${more}
  }`;

  it("come from the service as well, unless nginx.conf hides them", async () => {
    const hides = "proxy_hide_header RateLimit; proxy_hide_header X-RateLimit-Remaining;";
    await start(`${location} ${passes("/both", "")} ${passes("/ours", hides)}`, [
      limitOf("both", 5),
      limitOf("ours", 5),
    ]);
    const both = await headersOf("/both");
    expect(both["ratelimit"]).toMatch(/^"both";r=4;t=\d+, "theirs";r=1;t=1$/);
    expect(both["x-ratelimit-remaining"]).toBe("4, 1");
    const ours = await headersOf("/ours");
    expect(ours["ratelimit"]).toMatch(/^"ours";r=4;t=\d+$/);
    expect(ours["x-ratelimit-remaining"]).toBe("4");
  });

  it("are replaced by other Lua that sets them later, and added to those set before", async () => {
    await start(
      `location /later {
        ${decided}
        content_by_lua_block { ngx.header["RateLimit"] = "theirs" ngx.print("later") }
      }
      location /before {
        rewrite_by_lua_block { ngx.header["RateLimit"] = "theirs" }
        ${decided}
        content_by_lua_block { ngx.print("before") }
      }`,
      [limitOf("later", 5), limitOf("before", 5)],
    );
    expect((await headersOf("/later"))["ratelimit"]).toBe("theirs");
    expect((await headersOf("/before"))["ratelimit"]).toMatch(/^theirs, "before";r=4;t=\d+$/);
  });
});

describe("a service that has limits of its own, behind nginx.conf", () => {
  const theirs = {
    "ratelimit-policy": '"theirs";q=7;w=60',
    ratelimit: '"theirs";r=6;t=60',
    "x-ratelimit-limit": "7",
    "x-ratelimit-remaining": "6",
    "x-ratelimit-reset": "60",
  };

  /** Answers with its own headers, and with the status that the path ends with. */
  async function startBehind(env: NodeJS.ProcessEnv = {}): Promise<void> {
    const listening = createServer(({ url = "" }, response) => {
      response.writeHead(Number(/\d{3}$/.exec(url)?.[0] ?? 200), theirs).end("answer");
    });
    service = listening;
    await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
    const { port } = listening.address() as AddressInfo;
    gateway = await LoneGateway.start({
      policies: [limitOf("ours", 5), { ...limitOf("shadow", 5), mode: "shadow" }],
      env: { SLUICE_UPSTREAM: `http://127.0.0.1:${port}`, ...env },
    });
  }

  it("keeps its headers where no policy decides, with every status", async () => {
    await startBehind();
    for (const path of ["/undecided", "/undecided/404", "/undecided/429", "/undecided/503"]) {
      expect(await headersOf(path), path).toMatchObject(theirs);
    }
  });

  it("keeps its headers where a policy only watches", async () => {
    await startBehind();
    expect(await headersOf("/shadow")).toMatchObject(theirs);
  });

  it("has all of them replaced where a policy decides", async () => {
    await startBehind();
    const ours = {
      "ratelimit-policy": expect.stringMatching(/^"ours";q=5;w=\d+$/),
      ratelimit: expect.stringMatching(/^"ours";r=\d;t=\d+$/),
      "x-ratelimit-limit": "5",
      "x-ratelimit-remaining": expect.stringMatching(/^\d$/),
      "x-ratelimit-reset": expect.stringMatching(/^\d+$/),
    };
    for (const path of ["/ours", "/ours/404"]) expect(await headersOf(path), path).toMatchObject(ours);
  });

  it("has those replaced too that SLUICE_HEADERS leaves out", async () => {
    for (const [style, absent] of [
      ["legacy", "ratelimit"],
      ["ietf", "x-ratelimit-limit"],
    ] as const) {
      await startBehind({ SLUICE_HEADERS: style });
      expect(await headersOf("/ours"), style).not.toHaveProperty(absent);
      expect((await headersOf("/undecided"))[absent], style).toBe(theirs[absent]);
      service?.close();
      await gateway.stop();
    }
  });

  it("keeps its headers with SLUICE_HEADERS=none, because Sluice sets none", async () => {
    await startBehind({ SLUICE_HEADERS: "none" });
    expect(await headersOf("/ours")).toMatchObject(theirs);
  });
});
