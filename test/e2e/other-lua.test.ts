// Sluice in an nginx that has other Lua: unless the operator says so, nothing changes for that. Not the settings of LuaJIT's compiler and
// collector, not the libraries and globals, not who listens to the compiler. What it changes with `tuneLua` is in worker-memory.test.ts.

import { afterEach, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { LoneGateway, type LoneGatewayOptions } from "../fixtures/servers/lone-gateway.ts";

let gateway: LoneGateway | undefined;
let controlPlane: ControlPlaneDouble | undefined;
afterEach(async () => {
  await gateway?.stop();
  await controlPlane?.stop();
  gateway = undefined;
  controlPlane = undefined;
});

const tuned = "sluice.init({ tuneLua = true })";

/**
 * Before Sluice is loaded, the operator's Lua has settings of its own. It notes every call that could change them, and everything that
 * libraries and globals have.
 */
const operators = `init_by_lua_block {
  jit.opt.start("maxtrace=3000")
  collectgarbage("setpause", 250)
  collectgarbage("setstepmul", 210)
  real_collect = collectgarbage
  calls = {}
  local function note(table, name, matters)
    local real = table[name]
    table[name] = function(...)
      if not matters or matters(...) then
        calls[#calls + 1] = name .. " " .. tostring((...))
      end
      return real(...)
    end
  end
  note(jit.opt, "start")
  note(jit, "attach")
  note(jit, "flush", function(what) return type(what) ~= "function" end)
  note(jit, "on", function(what) return type(what) ~= "function" end)
  note(jit, "off", function(what) return type(what) ~= "function" end)
  note(_G, "collectgarbage", function(what) return what ~= "count" end)
  note(math, "randomseed")
  note(os, "setlocale")
  note(debug, "sethook")
  note(debug, "setmetatable")

  -- Every value in a library, two tables deep.
  function everything()
    local all = {}
    local function list(path, table, depth)
      for name, value in pairs(table) do
        local place = path .. "." .. tostring(name)
        all[place] = tostring(value)
        if depth > 0 and type(value) == "table" then list(place, value, depth - 1) end
      end
    end
    for _, library in ipairs({ "string", "table", "math", "os", "io", "debug", "coroutine", "jit", "bit", "ngx" }) do
      list(library, _G[library], 2)
    end
    for _, name in ipairs({ "path", "cpath" }) do all["package." .. name] = package[name] end
    for i, loader in ipairs(package.loaders) do all["package.loaders." .. i] = tostring(loader) end
    for name in pairs(_G) do all["_G." .. tostring(name)] = "there" end
    for name, value in pairs({ text = "", number = 0, boolean = true, ["function"] = print, thread = coroutine.create(function() end) }) do
      all["metatable of a " .. name] = tostring(debug.getmetatable(value))
    end
    all["metatable of texts, __index"] = tostring(getmetatable("").__index)
    return all
  end
  sluice, before = true, true
  before = everything()
`;

/** What differs from before, and the collector's settings. */
const changed = `location = /changed {
  content_by_lua_block {
    local lines = {}
    local now = everything()
    -- ngx keeps the context and status of a request there.
    for place, value in pairs(now) do
      if before[place] ~= value then lines[#lines + 1] = place end
    end
    for place in pairs(before) do
      if now[place] == nil then lines[#lines + 1] = place .. " is gone" end
    end
    for _, call in ipairs(calls) do lines[#lines + 1] = call end
    local pause, work = real_collect("setpause", 200), real_collect("setstepmul", 200)
    real_collect("setpause", pause)
    real_collect("setstepmul", work)
    lines[#lines + 1] = pause .. " " .. work
    ngx.print(table.concat(lines, "\\n"))
  }
}
location = /traces {
  content_by_lua_block {
    local kept, most = require("jit.util").traceinfo, 0
    for chunk = 1, 3500 do
      loadstring("local sum = " .. chunk .. " for i = 1, 200 do sum = sum + i end return sum")()
      if kept(chunk) then most = chunk end
    end
    ngx.print(most)
  }
}
location / {`;

function start(options: LoneGatewayOptions, init = "sluice.init()"): Promise<LoneGateway> {
  return LoneGateway.start({
    ...options,
    edit: (config) =>
      config.replace("init_by_lua_block {", operators).replace(tuned, init).replace("location / {", changed),
  });
}

const policies = [
  { name: "bucket", match: { paths: ["/bucket"] }, limits: [{ algorithm: "token-bucket", quota: 5, window: "1h" }] },
  {
    name: "log",
    match: { paths: ["/log"] },
    key: ["ip"],
    limits: [{ algorithm: "sliding-log", quota: 5, window: "1h" }],
    onLimit: { action: "delay", maxDelay: "10ms" },
  },
];

describe("other Lua of the same nginx", () => {
  it("finds its settings, its libraries and its globals as they were, whatever Sluice does", async () => {
    const [port] = (await freePorts(1)) as [number];
    controlPlane = new ControlPlaneDouble(port);
    gateway = await start({ policies, env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` } });
    const ofControlPlane = Array.from({ length: 6000 }, (_, i) => ({
      app: "default",
      document: { ...policies[i % 2], name: `p${i}`, match: { paths: [`/p${i}`] } },
    }));
    await controlPlane.push([...ofControlPlane, ...policies.map((document) => ({ app: "default", document }))], []);
    const statuses: number[] = [];
    for (const path of ["/bucket", "/log"]) {
      for (let i = 0; i < 6; i++) statuses.push((await ask(gateway.url + path)).status);
    }
    expect(statuses.filter((status) => status === 429)).toHaveLength(2);
    for (const path of ["healthz", "metrics", "v1/check"]) await ask(`${gateway.privateUrl}/sluice/${path}`);
    // What runs every second has run.
    await controlPlane.status();
    expect((await ask(`${gateway.url}/changed`)).body).toBe("250 210");
  });

  it("has as many traces as LuaJIT was told to keep", async () => {
    gateway = await start({ policies });
    const most = Number((await ask(`${gateway.url}/traces`)).body);
    expect(most).toBeGreaterThan(2000);
    expect(most).toBeLessThan(3001);
  });

  it("is tuned together with Sluice if the operator wants it", async () => {
    // This also shows that a change of a library or a global would be found.
    gateway = await start({ policies }, `${tuned} string.mine, mine = true, true`);
    const lines = (await ask(`${gateway.url}/changed`)).body.split("\n");
    expect(lines).toContain("start maxirconst=2000");
    expect(lines.some((line) => line.startsWith("attach"))).toBe(true);
    expect(lines.at(-1)).not.toBe("250 210");
    expect(lines).toContain("string.mine");
    expect(lines).toContain("_G.mine");
  });
});

it.each([
  ["sluice.init({ tune = true })", "tune = true"],
  ['sluice.init({ tuneLua = "yes" })', "tuneLua = yes"],
  ["sluice.init(true)", "true"],
])("nginx does not start with %s", async (call, got) => {
  const starting = start({ policies }, call).then((started) => {
    gateway = started;
  });
  await expect(starting).rejects.toThrow(`sluice: sluice.init: expected nothing or { tuneLua = true }, got ${got}`);
});
