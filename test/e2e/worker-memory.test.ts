// Bounds Sluice's part of a worker's Lua memory, and what could make a worker grow for ever: connections that fail, to a Redis
// and a control plane that are unreachable, and traces of code that is seldom called.

import { readFileSync } from "node:fs";
import { Agent } from "node:http";
import { expect, it } from "vitest";
import { callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { withShortPauses } from "../fixtures/clients/short-pauses.ts";
import { residentKb } from "../fixtures/measures/resident-memory.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePort, freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { childrenOf } from "../fixtures/servers/system.ts";
import { until, untilPasses } from "../fixtures/until.ts";

/** @returns KB that malloc has from the kernel: nginx's own memory. Lua's is elsewhere, and grows until it is collected. */
function mallocKb(pid: number): number {
  let inHeap = false;
  let kb = 0;
  for (const line of readFileSync(`/proc/${pid}/smaps`, "utf8").split("\n")) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) inHeap = line.endsWith("[heap]");
    else if (inHeap && line.startsWith("Anonymous:")) kb += Number(line.split(/\s+/)[1]);
  }
  return kb;
}

it.concurrent("a gateway with few policies keeps less than 3.25 MB of Lua, since other Lua pays for each round of the collector", async () => {
  const kept = `location = /kept {
    content_by_lua_block { collectgarbage() collectgarbage() ngx.print(collectgarbage("count")) }
  }
  location / {`;
  const gateway = await LoneGateway.start({ policies: [], edit: (config) => config.replace("location / {", kept) });
  try {
    const keptKb = Number((await ask(`${gateway.url}/kept`)).body);
    expect(keptKb).toBeGreaterThan(500);
    expect(keptKb).toBeLessThan(3.25 * 1024);
  } finally {
    await gateway.stop();
  }
});

it.concurrent("the collector goes round more rarely than it would without Sluice, and before there are 14 MB", async () => {
  const sawtooth = `location = /sawtooth {
    content_by_lua_block {
      local most, latest = 0, {}
      for i = 1, 400000 do
        latest[1] = { "a" .. i }
        most = math.max(most, collectgarbage("count"))
      end
      collectgarbage() collectgarbage()
      ngx.print(most, " ", collectgarbage("count"))
    }
  }
  location / {`;
  const gateway = await LoneGateway.start({ policies: [], edit: (config) => config.replace("location / {", sawtooth) });
  try {
    for (let round = 0; round < 3; round++) {
      const [mostKb = 0, keptKb = 0] = (await ask(`${gateway.url}/sawtooth`)).body.split(" ").map(Number);
      expect(mostKb / keptKb).toBeGreaterThan(3);
      expect(mostKb).toBeLessThan(14 * 1024);
    }
  } finally {
    await gateway.stop();
  }
});

it.concurrent("LuaJIT flushes its traces before it has kept more than a thousand", async () => {
  const traces = `location = /traces {
    content_by_lua_block {
      local kept, most = require("jit.util").traceinfo, 0
      for chunk = 1, 3000 do
        loadstring("local sum = " .. chunk .. " for i = 1, 200 do sum = sum + i end return sum")()
        if kept(chunk) then most = chunk end
      end
      ngx.print(most)
    }
  }
  location / {`;
  const gateway = await LoneGateway.start({ policies: [], edit: (config) => config.replace("location / {", traces) });
  try {
    const most = Number((await ask(`${gateway.url}/traces`)).body);
    expect(most).toBeGreaterThan(100);
    expect(most).toBeLessThanOrEqual(1000);
  } finally {
    await gateway.stop();
  }
});

it.concurrent("LuaJIT has room for more traces if other Lua of the nginx uses more at once", async ({ expect }) => {
  const hot = `location = /hot {
    content_by_lua_block {
      if not hot then
        hot = {}
        for i = 1, 1500 do
          hot[i] = loadstring("local n = " .. i .. " return function() local sum = 0 for i = 1, 200 do sum = sum + n end return sum end")()
        end
      end
      for _, sum in ipairs(hot) do sum() end
      local kept, count = require("jit.util").traceinfo, 0
      for trace = 1, 8000 do if kept(trace) then count = count + 1 end end
      ngx.print(count)
    }
  }
  location / {`;
  const gateway = await LoneGateway.start({ policies: [], edit: (config) => config.replace("location / {", hot) });
  try {
    const kept = async () => Number((await ask(`${gateway.url}/hot`)).body);
    await untilPasses(async () => expect(await kept()).toBeGreaterThan(1500));
  } finally {
    await gateway.stop();
  }
});

/** Counts the tries at each port. */
const countsTries = `
    local tcp = ngx.socket.tcp
    tries = {}
    ngx.socket.tcp = function()
      local socket = tcp()
      local connect = socket.connect
      socket.connect = function(self, host, port, ...)
        tries[tonumber(port)] = (tries[tonumber(port)] or 0) + 1
        return connect(self, host, port, ...)
      end
      return socket
    end`;

it.concurrent("a worker whose Redis and control plane are unreachable probes them without growing", async () => {
  const [redisPort, controlPort] = (await freePorts(2)) as [number, number];
  const gateway = await LoneGateway.start({
    policies: [
      {
        name: "fleet",
        scope: "cluster",
        match: { paths: ["/"] },
        limits: [{ algorithm: "token-bucket", quota: 1, window: "1s" }],
      },
    ],
    env: { SLUICE_REDIS_URL: `redis://127.0.0.1:${redisPort}`, SLUICE_CONTROL_URL: `http://127.0.0.1:${controlPort}` },
    edit: (config) =>
      withShortPauses(config, countsTries).replace(
        "location / {",
        `location = /tries { content_by_lua_block { ngx.print(tries[${redisPort}] or 0, " ", tries[${controlPort}] or 0) } }
    location / {`,
      ),
  });
  try {
    // After these requests the breaker is open, and Redis is probed.
    for (let i = 0; i < 10; i++) await ask(gateway.url);
    const [worker] = childrenOf(gateway.pid) as [number];
    const tried = async (atLeast: number) =>
      until(`each was tried ${atLeast} times`, async () => {
        const tries = (await ask(`${gateway.url}/tries`)).body.split(" ").map(Number);
        return Math.min(...tries) >= atLeast;
      });
    await tried(50);
    const beforeKb = mallocKb(worker);
    await tried(200);
    expect(beforeKb).toBeGreaterThan(500);
    expect(mallocKb(worker) - beforeKb).toBeLessThanOrEqual(12);
  } finally {
    await gateway.stop();
  }
});

it.concurrent("a worker keeps nothing of policies, limits and headers that are renamed again and again", async () => {
  const kept = `location = /kept {
    content_by_lua_block { collectgarbage() collectgarbage() ngx.print(collectgarbage("count")) }
  }
  location / {`;
  const port = await freePort();
  const control = new ControlPlaneDouble(port);
  const gateway = await LoneGateway.start({
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` },
    edit: (config) => config.replace("location / {", kept),
  });
  const perRound = 500;
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  let named = 0;
  /** Pushes policies with names and limits that none had before. */
  const renameAll = async () => {
    const policies = Array.from({ length: perRound }, (_, i) => {
      named += 1;
      const limits = [{ name: `l-${named}`, algorithm: "fixed-window", quota: 1000 + named, window: "1h" }];
      const document = { name: `p-${named}`, match: { paths: [`/${i}`] }, key: [`header:x-${named}`], limits };
      return { app: "default", document };
    });
    await control.push(policies, []);
    const first = named - perRound + 1;
    const limits = await Promise.all(
      policies.map(async (_, i) => {
        const { headers } = await ask(`${gateway.url}/${i}`, { agent, headers: { [`x-${first + i}`]: "a" } });
        return Number(headers["x-ratelimit-limit"]);
      }),
    );
    expect(limits).toEqual(policies.map((_, i) => 1000 + first + i));
    return Number((await ask(`${gateway.url}/kept`)).body);
  };
  try {
    for (let round = 0; round < 4; round++) await renameAll();
    const beforeKb = Math.max(await renameAll(), await renameAll());
    for (let round = 6; round < 10; round++) await renameAll();
    const afterKb = Math.min(await renameAll(), await renameAll());
    // There are 2,500 more names or 3,000; each took about half a KB when it was kept for good.
    expect(afterKb - beforeKb).toBeLessThan(600);
  } finally {
    agent.destroy();
    await gateway.stop();
    await control.stop();
  }
});

it.concurrent("a worker keeps a bounded number of policies at the costs that callers state", async () => {
  const caller = { app: "default", token: "a-token-of-the-shop" };
  // A twentieth of the bytes that an app may have.
  const policies = ["a", "b", "c"].map((name) => ({
    name,
    key: ["header:x-user"],
    limits: [{ algorithm: "token-bucket", quota: 2_147_483_648, window: "1s" }],
    overrides: Array.from({ length: 1000 }, (_, i) => ({ key: [`u${i}`], mode: "enforce" })),
  }));
  const gateway = await LoneGateway.start({ policies, callers: [callerOf(caller)] });
  try {
    const [worker] = childrenOf(gateway.pid) as [number];
    const beforeKb = residentKb(worker);
    for (let cost = 2; cost < 72; cost++) {
      for (const { name: policy } of policies) {
        for (let i = 0; i < 1000; i += 100) {
          // A peek charges nothing, and takes as much.
          const checks = Array.from({ length: 100 }, (_, k) => ({
            policy,
            key: [`u${i + k}`],
            cost,
            peek: i % 200 > 0,
          }));
          await check(gateway.privateUrl, caller, checks);
        }
      }
    }
    expect(residentKb(worker) - beforeKb).toBeLessThan(60_000);
  } finally {
    await gateway.stop();
  }
});
