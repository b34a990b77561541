// A client that leaves frees what it has: its place in a line, its turn, its slot. What an operator has told nginx about such
// clients holds all the same: with `proxy_ignore_client_abort on`, the service finishes what it has begun.

import { type ClientRequest, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

/** What became of the requests that have reached the service, by path. */
const finished: string[] = [];
const cutOff: string[] = [];
const running: { readonly path: string; readonly finish: () => void }[] = [];
const service = createServer(({ url: path = "" }, response) => {
  if (!path.includes("slow")) {
    finished.push(path);
    response.end("done");
    return;
  }
  const one = { path, finish: () => void response.end("done") };
  running.push(one);
  response.on("close", () => {
    running.splice(running.indexOf(one), 1);
    (response.writableFinished ? finished : cutOff).push(path);
  });
});
const answerAll = () => {
  for (const { finish } of [...running]) finish();
};

const limited = (name: string, limit: object, more: object = {}) => ({
  name,
  match: { paths: [`/${name}/*`] },
  key: ["path"],
  limits: [limit],
  ...more,
});
const policies = [
  limited(
    "line",
    { algorithm: "token-bucket", quota: 1, window: "1s", burst: 1 },
    { onLimit: { action: "delay", maxDelay: "10s", maxWaiting: 1 } },
  ),
  limited("turn", { algorithm: "leaky-bucket", quota: 1, window: "1s", burst: 5 }),
  limited("slot", { algorithm: "concurrency", quota: 1 }),
];

const own = "proxy_pass http://service;";
const locations = `
  location ~ ^/(line|turn|slot|unlimited)/ignoring- {
    proxy_ignore_client_abort on;
    access_by_lua_block { sluice.access() }
    ${own}
  }
  location ~ ^/(line|turn|slot|unlimited)/early- {
    rewrite_by_lua_block { sluice.rewrite() }
    ${own}
  }
`;

/** nginx.conf as it is, and with a directive that other Lua of the operator may need. */
const configurations = {
  "our nginx.conf": "",
  "lua_check_client_abort on": "lua_check_client_abort on;",
};

let gateway: LoneGateway;
const leaving: ClientRequest[] = [];
let place = 0;

beforeAll(() => new Promise<void>((resolve) => void service.listen(0, "127.0.0.1", resolve)));
afterEach(() => {
  for (const one of leaving.splice(0)) one.destroy();
  answerAll();
});
afterAll(() => {
  service.close();
  service.closeAllConnections();
});

/** Begins a request, whose client can leave. */
function begin(path: string): ClientRequest {
  const outgoing = request(gateway.url + path, { agent: false });
  // The error is expected: this client cuts the connection itself.
  outgoing.on("error", () => {});
  outgoing.end();
  leaving.push(outgoing);
  return outgoing;
}

const fresh = (name: string, kind: string) => {
  place += 1;
  return `/${name}/${kind}-${place}`;
};

describe.each(Object.entries(configurations))("with %s", (_, directive) => {
  beforeAll(async () => {
    gateway = await LoneGateway.start({
      policies,
      env: {
        SLUICE_UPSTREAM: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
        SLUICE_MAX_WAITING: "1",
      },
      edit: (config) => config.replace("location / {", `${directive}\n${locations}\n    location / {`),
    });
  });
  afterAll(() => gateway?.stop());

  it.each(["plain", "ignoring", "early"])(
    "a client that leaves while it waits in line gives up its place, and its request does not reach the service: %s",
    async (kind) => {
      const path = fresh("line", kind);
      expect((await ask(gateway.url + path)).status).toBe(200);
      const second = begin(path);
      await sleep(100);
      expect((await ask(gateway.url + path)).status).toBe(429);
      second.destroy();
      await sleep(100);
      const startedAtMs = performance.now();
      expect((await ask(gateway.url + path)).status).toBe(200);
      // As soon as there is a unit again: the one that left has taken none.
      expect(performance.now() - startedAtMs).toBeLessThan(1_500);
      expect(finished.filter((each) => each === path)).toHaveLength(2);
    },
  );

  it.each(["plain", "ignoring", "early"])(
    "a client that leaves while it waits for its turn makes room for another one to wait: %s",
    async (kind) => {
      const path = fresh("turn", kind);
      expect((await ask(gateway.url + path)).status).toBe(200);
      const second = begin(path);
      await sleep(100);
      expect((await ask(gateway.url + path)).status).toBe(429);
      second.destroy();
      await sleep(100);
      expect((await ask(gateway.url + path)).status).toBe(200);
      expect(finished.filter((each) => each === path)).toHaveLength(2);
    },
  );

  it("frees the slot of a client that leaves, as nginx ends its request", async () => {
    const path = fresh("slot", "plain-slow");
    const first = begin(path);
    await until("it runs", () => running.length === 1);
    expect((await ask(gateway.url + path)).status).toBe(429);
    first.destroy();
    await until("it is cut off", () => cutOff.includes(path));
    const second = begin(path);
    await until("another runs", () => running.length === 1);
    second.destroy();
  });
});

describe("with proxy_ignore_client_abort on, in our nginx.conf", () => {
  beforeAll(async () => {
    gateway = await LoneGateway.start({
      policies,
      env: { SLUICE_UPSTREAM: `http://127.0.0.1:${(service.address() as AddressInfo).port}` },
      edit: (config) =>
        config
          .replace("location / {", `${locations}\n    location / {`)
          .replace("proxy_pass http://service;\n      proxy_http_version", "proxy_ignore_client_abort on;\n      $&"),
    });
  });
  afterAll(() => gateway?.stop());

  it.each(["ignored", "ignoring"])("the service finishes a request whose client has left: %s", async (kind) => {
    const path = fresh("unlimited", `${kind}-slow`);
    const first = begin(path);
    await until("it runs", () => running.length === 1);
    first.destroy();
    await sleep(300);
    expect(cutOff).not.toContain(path);
    expect(running).toHaveLength(1);
    answerAll();
    await until("it is finished", () => finished.includes(path));
  });

  it("also one that has waited, and its slot comes back when the service is done", async () => {
    const turn = fresh("turn", "ignored-slow");
    const line = fresh("line", "ignored-slow");
    for (const path of [turn, line]) {
      const first = begin(path);
      await until("the first runs", () => running.length === 1);
      answerAll();
      await until("the first is finished", () => finished.includes(path));
      first.destroy();
      const second = begin(path);
      await until("the second runs", () => running.length === 1);
      second.destroy();
      await sleep(300);
      expect(cutOff).not.toContain(path);
      answerAll();
      await until("the second is finished", () => finished.filter((each) => each === path).length === 2);
    }
    const slot = fresh("slot", "ignored-slow");
    const holder = begin(slot);
    await until("it runs", () => running.length === 1);
    holder.destroy();
    await sleep(200);
    expect((await ask(gateway.url + slot)).status).toBe(429);
    answerAll();
    await until("its slot is free", () => {
      begin(slot);
      return sleep(50).then(() => running.length === 1);
    });
  });
});
