// A gateway that loads ten thousand policies goes on answering clients and its control plane, because it loads in slices.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { ask } from "../../fixtures/clients/requests.ts";
import { pushedSnapshot } from "../../fixtures/documents/pushed-snapshot.ts";
import { residentKb } from "../../fixtures/measures/resident-memory.ts";
import { freePorts } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { childrenOf } from "../../fixtures/servers/system.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

/** Loading in one go takes 400 ms of CPU. A slice takes 1 ms, and the machine may have other things to do. */
const mostSliceSeconds = 0.2;

/** Shows the worker's memory, with and without garbage, in KB. Between /break and /mend no snapshot can be stored. */
const insights = `
    location = /memory { content_by_lua_block { ngx.print(collectgarbage("count")) } }
    location = /kept { content_by_lua_block { collectgarbage() collectgarbage() ngx.print(collectgarbage("count")) } }
    location = /break { content_by_lua_block { ngx.shared.sluice_state.safe_add = function() error("broken by this test") end } }
    location = /collector {
      content_by_lua_block {
        local pause, work = collectgarbage("setpause", 200), collectgarbage("setstepmul", 200)
        collectgarbage("setpause", pause)
        collectgarbage("setstepmul", work)
        ngx.print(pause, " ", work)
      }
    }
    location = /mend { content_by_lua_block { ngx.shared.sluice_state.safe_add = nil } }
`;

/** Settings that an operator may make for all Lua. */
const ofOtherLua = 'collectgarbage("setpause", 250) collectgarbage("setstepmul", 210)';

interface Reported {
  readonly type: string;
  readonly revision: number;
}

let server: WebSocketServer;
let gateway: LoneGateway;
let socket: WebSocket;
let revision = 1;
/** Messages of the gateway other than status: answers to snapshots, and hello. */
let reported: Reported[] = [];

beforeAll(async () => {
  const [port = 0] = await freePorts(1);
  server = new WebSocketServer({ port, host: "127.0.0.1", path: "/api/v1/push" });
  server.on("connection", (connected: WebSocket) => {
    socket = connected;
    socket.on("message", (data) => {
      const message = JSON.parse(String(data));
      if (message.type !== "status") reported.push(message);
    });
  });
  const connection = once(server, "connection");
  gateway = await LoneGateway.start({
    policies: [],
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, SLUICE_GATEWAY_TOKEN: "t", SLUICE_GATEWAY_ID: "g" },
    edit: (config) =>
      config
        .replace("location / {", `${insights}location / {`)
        .replace("init_by_lua_block {", `init_by_lua_block { ${ofOtherLua}`),
  });
  await connection;
});
afterAll(async () => {
  await gateway?.stop();
  socket?.terminate();
  server?.close();
});

it("loads 10,000 policies, and later edits of them, in slices", async () => {
  for (const edited of [7, 8]) {
    await push(10_000, edited);
    await applied(revision);
  }
  expect(await gateway.metric('sluice_snapshot_policies{worker="0"}')).toBe(10_000);
  const longest = await gateway.metric("sluice_snapshot_slice_max_seconds");
  expect(longest).toBeGreaterThan(0);
  expect(longest).toBeLessThan(mostSliceSeconds);
});

it("leaves the collector's settings to other Lua of the same nginx, except for some room", async () => {
  // After a load the collector goes round in steps of its own.
  const settings = async () => (await ask(`${gateway.url}/collector`)).body.split(" ").map(Number);
  await untilPasses(async () => expect((await settings())[1]).toBe(210));
  const [pause] = await settings();
  expect(pause).toBeGreaterThanOrEqual(250);
  // Beside ten thousand policies, the room is a tenth of what there is.
  expect(pause).toBeLessThan(290);
});

it("collects the garbage of a snapshot load that broke off", async () => {
  const keptKB = await luaKB("/kept");
  reported = [];
  await ask(`${gateway.url}/break`);
  const reconnected = once(server, "connection");
  await push(10_000, "all");
  await reconnected;
  await ask(`${gateway.url}/mend`);
  expect(gateway.log).toContain("broken by this test");
  expect(reported.filter(({ type }) => type !== "hello")).toEqual([]);
  // Below half as much again, another round of the collector is not worth its cost.
  await until("its garbage is gone", async () => (await luaKB("/memory")) < keptKB * 1.6);
});

it("answers pings while it loads a snapshot", async () => {
  reported = [];
  await push(10_000, "all");
  socket.ping();
  await once(socket, "pong");
  expect(reported).toEqual([]);
});

it("goes on with the newest of the snapshots that came meanwhile", async () => {
  // It still loads the snapshot of the test above.
  expect(reported).toEqual([]);
  const first = revision;
  for (const count of [300, 200, 100]) await push(count, 0);
  await applied(revision);
  expect(reported.map((message) => message.revision)).toEqual([first, revision]);
  expect(await gateway.metric('sluice_snapshot_policies{worker="0"}')).toBe(100);
});

it("keeps up with a thousand edits in a row, in bounded memory", async () => {
  const edit = async (count: number) => {
    for (let i = 0; i < count; i++) {
      await push(200, i % 200);
      // Waiting plays a slow control plane: a queue of megabytes in this process is not what is tested.
      if (i % 10 === 9) await applied(revision);
    }
    await applied(revision);
  };
  reported = [];
  await edit(200);
  const early = residentMB();
  await edit(800);
  expect(residentMB() - early).toBeLessThan(40);
  const revisions = reported.map((message) => message.revision);
  expect(revisions).toEqual([...revisions].sort((a, b) => a - b));
  expect(reported.every(({ type }) => type === "applied")).toBe(true);
  expect(await statusOf("h199.example")).toBe(404);
  expect(await statusOf("h199.example")).toBe(429);
});

it("survives a reload in the middle of a snapshot load", async () => {
  const before = childrenOf(gateway.pid);
  reported = [];
  await push(10_000, "all");
  const reconnected = once(server, "connection");
  process.kill(gateway.pid, "SIGHUP");
  await reconnected;
  await until("the new worker says hello", () => reported.some(({ type }) => type === "hello"));
  const hello = reported.find(({ type }) => type === "hello");
  // The control plane sends the snapshot again if the gateway is behind.
  if (hello?.revision !== revision) await push(10_000, "all");
  await until("the new revision is in force", async () => {
    return (await gateway.metric('sluice_snapshot_revision{worker="0"}')) === revision;
  });
  expect(await gateway.metric('sluice_snapshot_policies{worker="0"}')).toBe(10_000);
  await until("the old worker is gone", () => !childrenOf(gateway.pid).some((pid) => before.includes(pid)));
  expect(gateway.log).not.toMatch(/\[(alert|emerg|crit)\]|exited on signal/);
});

it("starts with 10,000 policies from its disk in seconds of CPU", async () => {
  // A long change is in force before it is on disk, where it goes piece by piece.
  const log = join(gateway.snapshotDir, "policies.log");
  const last = `"revision":${revision}`;
  await until("the last revision is on disk", () => readFileSync(log, "utf8").slice(-500).includes(last));
  await gateway.restart();
  expect(await gateway.metric('sluice_snapshot_policies{worker="0"}')).toBe(10_000);
  const seconds = [gateway.pid, ...childrenOf(gateway.pid)].reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  expect(seconds).toBeGreaterThan(0.1);
  // This is the master and its workers together, on any machine that runs this; `npm run bench -- intake` measures a worker.
  expect(seconds).toBeLessThan(4);
});

/** @param edited the index of the policy with a new description, or "all" */
async function push(count: number, edited: number | "all"): Promise<void> {
  revision += 1;
  const policies = Array.from({ length: count }, (_, i) => ({
    app: "default",
    name: `p${i}`,
    document: edited === "all" || edited === i ? documentOf(i, `of revision ${revision}`) : unedited(i),
  }));
  const bytes = await pushedSnapshot({ epoch: "snapshot-load", revision, policies });
  // The snapshot goes out in frames, as the control plane sends it.
  for (let from = 0; from < bytes.length; from += 65_536) {
    socket.send(bytes.subarray(from, from + 65_536), { binary: false, fin: from + 65_536 >= bytes.length });
  }
}

const documents: string[] = [];
const unedited = (i: number) => {
  documents[i] ??= documentOf(i, "");
  return documents[i];
};

function documentOf(i: number, description: string): string {
  return JSON.stringify({
    name: `p${i}`,
    description,
    match: { hosts: [`h${i % 1000}.example`] },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }],
  });
}

async function applied(wanted: number): Promise<void> {
  const signal = AbortSignal.timeout(20_000);
  while (!reported.some((message) => message.revision === wanted)) await once(socket, "message", { signal });
  expect(reported.at(-1)).toEqual({ type: "applied", epoch: "snapshot-load", revision: wanted });
}

async function statusOf(host: string): Promise<number> {
  return (await ask(`${gateway.url}/nothing-there`, { headers: { host } })).status;
}

function residentMB(): number {
  return childrenOf(gateway.pid).reduce((sum, pid) => sum + residentKb(pid) / 1024, 0);
}

async function luaKB(path: "/memory" | "/kept"): Promise<number> {
  return Number((await ask(`${gateway.url}${path}`)).body);
}

/** @returns user and system time, which Linux counts in ticks of a hundredth of a second */
function cpuSeconds(pid: number): number {
  const [, ...fields] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [, , , , , , , , , , , user, system] = (fields[0] as string).split(" ");
  return (Number(user) + Number(system)) / 100;
}
