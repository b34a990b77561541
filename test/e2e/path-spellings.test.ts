// A client writes a path or a host so that the service behind nginx reads another one than nginx does: by ";x", "\", "//" at the beginning,
// dots or a line end. Shown with real services, which are asked directly first: a spelling that they do not take for the log-in proves nothing.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import express from "express";
import fc from "fast-check";
import Fastify from "fastify";
import { Hono } from "hono";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { Program } from "../fixtures/servers/program.ts";

const quota = 5;
const randomTargets = 1_200;
/** As services answer at /login and beneath it, and nowhere else. */
const reached = "LOGIN";

interface Service {
  readonly start: () => Promise<{ readonly url: string; readonly stop: () => Promise<unknown> }>;
  /** Targets that lead to the log-in when the service is asked directly. */
  readonly spellings: readonly string[];
}

async function listening(server: Server): Promise<{ url: string; stop: () => Promise<unknown> }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

function readingUrls(read: (url: string) => string | Promise<string>): Service["start"] {
  return () =>
    listening(
      createServer((request, response) => {
        Promise.resolve(request.url ?? "")
          .then(read)
          .then(
            (said) => response.end(said),
            () => response.end("no URL"),
          );
      }),
    );
}

const hono = new Hono();
hono.all("/login", (context) => context.text(reached));
hono.all("/login/*", (context) => context.text(reached));
hono.all("/files/:name", (context) => context.text(reached));

function servlets(server: string): Service["start"] {
  return async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const jars = [
      ...["catalina", "coyote", "juli", "util", "util-scan", "api", "annotations-api", "jni", "jaspic-api"].map(
        (name) => `tomcat9-${name}`,
      ),
      ...["el-api", "jsp-api"].map((name) => `tomcat9-${name}`),
      "servlet-api",
      ...["server", "servlet", "util", "http", "io", "security"].map((name) => `jetty9-${name}`),
    ];
    const program = await Program.start({
      command: "java",
      args: [
        "-cp",
        jars.map((jar) => `/usr/share/java/${jar}.jar`).join(":"),
        join(import.meta.dirname, "../fixtures/servers/log-in/LogIn.java"),
        server,
        `${port}`,
      ],
      readyWhen: () =>
        send(url, "/login").then(
          (answer) => answer.includes(reached),
          () => false,
        ),
    });
    return { url, stop: () => program.stop() };
  };
}

const starlette: Service["start"] = async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const program = await Program.start({
    command: "/usr/bin/python3",
    args: [join(import.meta.dirname, "../fixtures/servers/log-in/paths.py"), `${port}`],
    readyWhen: () =>
      send(url, "/login").then(
        (answer) => answer.includes(reached),
        () => false,
      ),
  });
  return { url, stop: () => program.stop() };
};

const services: Readonly<Record<string, Service>> = {
  Tomcat: {
    start: servlets("Tomcat"),
    spellings: ["/login;x", "/;a/login", "/.;/login", "/x/..;/login", "/a;/..;b/login;c/d", "/a/;/../login/x"],
  },
  Jetty: {
    start: servlets("Jetty"),
    spellings: ["/login;x", "/login/;x", "/login//../x", "/a;/../login"],
  },
  "new URL(request.url, base)": {
    start: readingUrls((url) =>
      /^\/login(\/|$)/.test(new URL(url, "http://localhost").pathname) ? reached : "elsewhere",
    ),
    spellings: ["//x/login", "/\\x/login", "/x\\..\\login", "/login\\", "/login//../x"],
  },
  Hono: {
    start: readingUrls(async (url) => (await hono.fetch(new Request(`http://localhost${url}`))).text()),
    spellings: ["/x\\..\\login", "/login\\", "/login//../x"],
  },
  Express: {
    start: () => {
      const app = express();
      app.use("/login", (_, response) => response.end(reached));
      app.all("/files/:name", (_, response) => response.end(reached));
      return listening(createServer(app));
    },
    spellings: ["/login/../x", "/login/..", "/login/%2e%2e/x", "/login/..%2fx"],
  },
  Fastify: {
    start: async () => {
      const app = Fastify();
      app.all("/login", async () => reached);
      app.all("/login/*", async () => reached);
      app.all("/files/:name", async () => reached);
      const url = await app.listen({ port: 0, host: "127.0.0.1" });
      return { url, stop: () => app.close() };
    },
    spellings: ["/login/../x", "/login/x/..%2F..%2Fy", "/login/%2E./x", "/login/;/../../x"],
  },
  "Starlette (FastAPI)": {
    start: starlette,
    spellings: ["/login%0a", "/login%0A?x", "/login/x%0a", "/login/../x"],
  },
};

describe.each(Object.entries(services))("the log-in of %s", (_, { start, spellings }) => {
  let service: Awaited<ReturnType<Service["start"]>>;
  let gateway: LoneGateway;
  beforeAll(async () => {
    service = await start();
    gateway = await LoneGateway.start({
      policies: [
        {
          name: "login",
          match: { paths: ["/login", "/login/*"] },
          limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
        },
      ],
      env: { SLUICE_UPSTREAM: service.url },
    });
    for (let i = 0; i < quota; i++) expect(await send(gateway.url, "/login")).toContain(reached);
    expect(await send(gateway.url, "/login")).not.toContain(reached);
  });
  afterAll(async () => {
    await gateway?.stop();
    await service?.stop();
  });

  it.each(spellings)("is not reached without being counted by %s", async (target) => {
    expect(await send(service.url, target)).toContain(reached);
    expect(await send(gateway.url, target)).not.toContain(reached);
  });

  it(`is not reached without being counted by any of ${randomTargets} random targets`, async () => {
    const part = fc.constantFrom(
      ...["/", "/", "/", "/login", "/login/", "login", "x", ".", "..", "/..", "/.", ";", ";a", "//"],
      ...["\\", "#", "?", "%2e", "%2F", "%5c", "%3b", "%23"],
      ...["%0a", "%0d%0a", "%09", "%1f", "%7f", "%20"],
    );
    const parts = fc.array(part, { maxLength: 4 }).map((some) => some.join(""));
    const targets = fc.tuple(parts, parts).map(([before, after]) => `/${before}/login${after}`);
    let direct = 0;
    for (const target of fc.sample(targets, { numRuns: randomTargets, seed: 40 })) {
      if (!(await send(service.url, target)).includes(reached)) continue;
      direct += 1;
      expect([target, (await send(gateway.url, target)).includes(reached)]).toEqual([target, false]);
    }
    expect(direct).toBeGreaterThan(10);
  });
});

describe.each(["Express", "Fastify", "Hono"])("a file of %s, which finds segments before it decodes them", (name) => {
  it("is not reached without being counted by %2F within its name", async () => {
    const service = await (services[name] as Service).start();
    const gateway = await LoneGateway.start({
      policies: [
        {
          name: "files",
          match: { paths: ["~^/files/[^/]+$"] },
          limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
        },
      ],
      env: { SLUICE_UPSTREAM: service.url },
    });
    for (let i = 0; i < quota; i++) expect(await send(gateway.url, "/files/a")).toContain(reached);
    for (const target of ["/files/a%2Fb", "/files/%2f", "/files/a%2F..%2Fb%2Fc"]) {
      expect([target, await send(service.url, target)]).toEqual([target, expect.stringContaining(reached)]);
      expect([target, await send(gateway.url, target)]).toEqual([target, expect.stringMatching(/^HTTP\/1\.1 400 /)]);
    }
    await gateway.stop();
    await service.stop();
  });
});

describe("a host that a service reads as a URL has it", () => {
  const hosts = ["api.example.com", "API.example.com:80", "api.example.com."];
  const odd = [
    "x@api.example.com",
    "a.example.com:80@api.example.com",
    "api.exampl%65.com",
    "api.example.com#x",
    "api.example.com?x",
    "api.example.com\\x",
  ];
  let service: Awaited<ReturnType<Service["start"]>>;
  let gateway: LoneGateway;
  beforeAll(async () => {
    const server = createServer((request, response) => {
      const url = URL.parse(`http://${request.headers.host}${request.url}`);
      response.end(/^api\.example\.com\.?$/.test(url?.hostname ?? "") ? reached : "elsewhere");
    });
    service = await listening(server);
    gateway = await LoneGateway.start({
      policies: [
        {
          name: "login",
          match: { hosts: ["api.example.com"] },
          limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
        },
        {
          name: "other",
          match: { hosts: ["a.example.com"] },
          limits: [{ algorithm: "fixed-window", quota: 1_000_000, window: "366d" }],
        },
      ],
      // Many services get the Host header as the client has written it.
      edit: (config) => config.replace("proxy_set_header Host $host;", "proxy_set_header Host $http_host;"),
      env: { SLUICE_UPSTREAM: service.url },
    });
    for (let i = 0; i < quota; i++) expect(await send(gateway.url, "/", "api.example.com")).toContain(reached);
  });
  afterAll(async () => {
    await gateway?.stop();
    await service?.stop();
  });

  it.each([...hosts, ...odd])("does not reach the service without being counted by Host: %s", async (host) => {
    expect(await send(service.url, "/", host)).toContain(reached);
    const answer = await send(gateway.url, "/", host);
    expect(answer).not.toContain(reached);
    expect(answer).toMatch(odd.includes(host) ? /^HTTP\/1\.1 400 [\s\S]*"title":"Host ambiguous"/ : /^HTTP\/1\.1 429 /);
  });

  it("does not reach it by a target with another host", async () => {
    expect(await send(gateway.url, "http://elsewhere.example/", "api.example.com")).toMatch(/^HTTP\/1\.1 400 /);
    expect(await send(gateway.url, "http://api.example.com/", "api.example.com")).toMatch(/^HTTP\/1\.1 429 /);
    expect(await send(gateway.url, "/", "elsewhere.example:8080")).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("a path that servers read differently", () => {
  const limits = [{ algorithm: "fixed-window", quota: 1_000_000, window: "366d" }];
  /** With the path that nginx reads, and a pattern of another that some server reads. */
  const odd = [
    ["//x/a", "/x/a", "/a"],
    ["/a\\b", "/a\\b", "/a/b"],
    ["/a/../b", "/b", "/a/*"],
    ["/a/.%2e", "/", "/a/*"],
    ["/a/..;/b", "/a/..;/b", "/b"],
    ["/a%2F..%2Fb", "/b", "/a/*"],
    // Express, Fastify and Hono find segments before they decode them.
    ["/a%2Fb", "/a/b", "/a%2Fb"],
  ] as const;
  const withControls = ["/login%0a", "/login%0D%0A", "/login%09", "/x%1Fy", "/x%7f"];
  const started = new AsyncDisposableStack();
  afterAll(() => started.disposeAsync());
  let upstream: string;
  beforeAll(async () => {
    const service = await listening(createServer((_, response) => response.end()));
    started.defer(async () => void (await service.stop()));
    upstream = service.url;
  });
  const gatewayWith = async (...policies: Record<string, unknown>[]) => {
    const gateway = await LoneGateway.start({ policies, env: { SLUICE_UPSTREAM: upstream } });
    started.defer(() => gateway.stop());
    return gateway.url;
  };
  const remainingIn = (answer: string) => /^X-RateLimit-Remaining: (\d+)/im.exec(answer)?.[1];
  const regex = (path: string) => `~^${`${path}$`.replaceAll("\\", "\\\\").replaceAll(".", "\\.").replace("*$", "")}`;

  it.each([
    ["name", (path: string) => path],
    ["match by a regular expression", regex],
  ])(
    "is refused if policies %s what another server reads, and counted if it is what nginx reads",
    async (_, pathFor) => {
      for (const [target, read, other] of odd) {
        const more = await gatewayWith({ name: "more", match: { paths: [pathFor(other)] }, limits });
        const refused = expect.stringMatching(/^HTTP\/1\.1 400 [\s\S]*"title":"Path ambiguous"/);
        expect([target, await send(more, target)]).toEqual([target, refused]);
        const same = await gatewayWith(
          { name: "same", match: { paths: [pathFor(read)] }, limits },
          { name: "elsewhere", match: { paths: [pathFor("/elsewhere")] }, limits },
        );
        expect([target, remainingIn(await send(same, target))]).toEqual([target, "999999"]);
        expect([target, remainingIn(await send(same, target))]).toEqual([target, "999998"]);
      }
    },
  );

  it("is refused by a policy in shadow mode that an override enforces", async () => {
    const url = await gatewayWith({
      name: "watched",
      mode: "shadow",
      match: { paths: ["/login"] },
      key: ["ip"],
      limits,
      overrides: [{ key: ["127.0.0.1"], mode: "enforce" }],
    });
    expect(await send(url, "/x/..;/login")).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("is refused with a control character if any policy names paths or counts by them", async () => {
    const naming = await gatewayWith({ name: "login", match: { paths: ["/login"] }, limits });
    const counting = await gatewayWith({ name: "each", key: ["path"], limits });
    const neither = await gatewayWith(
      { name: "all", limits },
      { name: "shadow", mode: "shadow", match: { paths: ["/login"] }, key: ["path"], limits },
    );
    const refused = expect.stringMatching(/^HTTP\/1\.1 400 [\s\S]*"title":"Path ambiguous"/);
    for (const target of withControls) {
      for (const url of [naming, counting]) expect([target, await send(url, target)]).toEqual([target, refused]);
      expect(remainingIn(await send(neither, target))).toMatch(/^9999\d\d$/);
    }
    for (const url of [naming, counting]) expect(await send(url, "/%25%20%C3%A9?x=%0a")).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("is refused with a line end in an operator's own location, whose $ matches before it", async () => {
    const gateway = await LoneGateway.start({
      policies: [{ name: "login", match: { paths: ["/login"] }, limits }],
      edit: (config) =>
        config.replace(
          /(listen [^;]*;)/,
          `$1
          location ~ ^/login$ { access_by_lua_block { sluice.access() } content_by_lua_block { ngx.print("${reached}") } }`,
        ),
    });
    started.defer(() => gateway.stop());
    expect(await send(gateway.url, "/login")).toContain(reached);
    expect(await send(gateway.url, "/login%0a")).toMatch(/^HTTP\/1\.1 400 [\s\S]*"title":"Path ambiguous"/);
  });

  it("is refused if its segments are too many to be read", async () => {
    const url = await gatewayWith({ name: "login", match: { paths: ["/login", "/login/*"] }, limits });
    for (const target of [`/login${"/".repeat(8_050)}./`, `${"/".repeat(8_100)}login/`, "/".repeat(8_100)])
      expect(await send(url, target)).toMatch(/^HTTP\/1\.1 400 [\s\S]*"title":"Path ambiguous"/);
  });

  it("is refused if Sluice fails to read it, because a client might let it fail", async () => {
    const gateway = await LoneGateway.start({
      policies: [{ name: "login", match: { paths: ["/login"] }, limits }],
      env: { SLUICE_UPSTREAM: upstream },
      edit: (config) =>
        config.replace(
          "init_by_lua_block {",
          'init_by_lua_block { ngx.req.is_internal = function() error("a defect") end\n',
        ),
    });
    started.defer(() => gateway.stop());
    expect(await send(gateway.url, "//x")).toMatch(/^HTTP\/1\.1 400 [\s\S]*"title":"Path ambiguous"/);
    expect(gateway.log).toContain("a request was answered 400, because Sluice failed to read its path: ");
  });

  it("counts as nginx reads it also where nginx redirects the request", async () => {
    const access = "access_by_lua_block { sluice.access() }";
    const gateway = await LoneGateway.start({
      policies: [
        {
          name: "app",
          match: { paths: ["/app/*"] },
          limits: [{ algorithm: "fixed-window", quota: 100, window: "1h" }],
        },
        {
          name: "books",
          match: { paths: ["/books"] },
          limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
          onLimit: { action: "degrade", uri: "/cheap" },
        },
      ],
      edit: (config) =>
        config.replace(
          /(listen [^;]*;)/,
          `$1
          location /app/ { ${access} try_files /none /index.php; }
          location = /index.php { ${access} content_by_lua_block { ngx.print("the page") } }
          location = /books { ${access} content_by_lua_block { ngx.print("books") } }
          location = /cheap { ${access} content_by_lua_block { ngx.print("what is cheaper") } }`,
        ),
    });
    started.defer(() => gateway.stop());
    for (const target of ["/app/page", "//app/page", "/app/./page"])
      expect([target, await send(gateway.url, target)]).toEqual([target, expect.stringContaining("the page")]);
    for (let i = 0; i < quota; i++) await send(gateway.url, "/books");
    for (const target of ["/books", "//books", "/./books"])
      expect([target, await send(gateway.url, target)]).toEqual([target, expect.stringContaining("what is cheaper")]);
  });

  it("is served if no policy names paths, or only one in shadow mode", async () => {
    const all = await gatewayWith(
      { name: "all", key: ["path"], limits },
      { name: "off", mode: "off", match: { paths: ["/a"] }, limits },
    );
    const shadow = await gatewayWith({ name: "shadow", mode: "shadow", match: { paths: ["/*"] }, limits });
    for (const url of [all, shadow]) {
      for (const [target] of odd)
        expect([target, await send(url, target)]).toEqual([target, expect.stringMatching(/^HTTP\/1\.1 200 /)]);
    }
  });

  it("by its parameters alone is counted by the policies of both readings, each once", async () => {
    const url = await gatewayWith(
      { name: "page", match: { paths: ["/page"] }, limits },
      { name: "item", match: { paths: ["/item;*", "~^/it[a-z]+$"] }, limits },
      { name: "words", key: ["path"], match: { paths: ["/word*"] }, limits },
    );
    expect(remainingIn(await send(url, "/page;jsessionid=1"))).toBe("999999");
    expect(remainingIn(await send(url, "/page"))).toBe("999998");
    expect(remainingIn(await send(url, "/other;a=1/;b"))).toBeUndefined();
    expect(remainingIn(await send(url, "/item;a=1"))).toBe("999999");
    expect(remainingIn(await send(url, "/item"))).toBe("999998");
    expect(remainingIn(await send(url, "/word;a"))).toBe("999999");
    expect(remainingIn(await send(url, "/word;b"))).toBe("999998");
  });

  it.each(["/.well-known/x", "/a%20b?c=/../d", "/a..b/...", "/x?u=//y#z", "/a/;b=1,2"])(
    "is none of %s",
    async (target) => {
      const url = await gatewayWith({ name: "named", match: { paths: ["/named"] }, limits });
      expect(await send(url, target)).toMatch(/^HTTP\/1\.1 200 /);
    },
  );
});

async function send(url: string, target: string, host = "x"): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  return text(socket);
}
