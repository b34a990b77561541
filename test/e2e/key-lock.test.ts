// Tests the lock of a counter that several workers share: a free lock costs one `add`; a taken lock is waited for. Its schedules, and
// what happens to those who wait in vain, are in test/gateway/stores/node/key-lock_spec.lua.

import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { untilPasses } from "../fixtures/until.ts";

const heldSeconds = 0.2;

/** Counts the objects of lua-resty-lock. */
const countLocks = `init_by_lua_block {
  local found, lock = pcall(require, "resty.lock")
  if found then
    local new = lock.new
    lock.new = function(...)
      ngx.shared.sluice_locks:incr("objects", 1, 0)
      return new(...)
    end
  end
`;

/** The lock of a counter has the name of the counter's cell. */
const locations = `location = /objects {
    content_by_lua_block { ngx.print(ngx.shared.sluice_locks:get("objects") or 0) }
  }
  location = /hold {
    content_by_lua_block {
      local held = 0
      for _, key in ipairs(ngx.shared.sluice_counters:get_keys(0)) do
        if ngx.shared.sluice_locks:set(key, true, ${heldSeconds}) then held = held + 1 end
      end
      ngx.print(held)
    }
  }
  location = /fill {
    content_by_lua_block {
      local locks = ngx.shared.sluice_locks
      for _, text in ipairs({ ("x"):rep(90), ("x"):rep(40), "x" }) do
        local i = 0
        repeat
          i = i + 1
          local _, failure = locks:safe_add(text .. i, true, 60)
        until failure == "no memory"
      end
    }
  }
  location / {`;

const modules = resolve(import.meta.dirname, "../fixtures/openresty");

/** With lua-resty-lock, under OpenResty's names of modules; and as Debian has it. */
let gateway: LoneGateway;
let debian: LoneGateway;
beforeAll(async () => {
  [gateway, debian] = await Promise.all([start({ LUA_PATH: `${modules}/?.lua;;` }), start({})]);
});
afterAll(() => Promise.all([gateway?.stop(), debian?.stop()]));

function start(env: NodeJS.ProcessEnv): Promise<LoneGateway> {
  const policy = (name: string) => ({
    name,
    match: { paths: [`/${name}`] },
    limits: [{ algorithm: "token-bucket", quota: 1, window: "1h", burst: 5 }],
  });
  return LoneGateway.start({
    policies: [policy("free"), policy("shared"), policy("scarce")],
    workers: 2,
    env,
    edit: (config) => config.replace("init_by_lua_block {", countLocks).replace("location / {", locations),
  });
}

const get = async (path: string, from = gateway) => ask(`${from.url}${path}`);
const remaining = async (path: string, from = gateway) => (await get(path, from)).headers["x-ratelimit-remaining"];

it("takes a free lock without an object of lua-resty-lock", async () => {
  for (let i = 0; i < 6; i++) await get("/free");
  expect((await get("/free")).status).toBe(429);
  expect((await get("/objects")).body).toBe("0");
});

it("waits for a taken lock by lua-resty-lock, and then charges once", async () => {
  expect(await remaining("/shared")).toBe("4");
  await get("/hold");
  const begun = performance.now();
  expect(await remaining("/shared")).toBe("3");
  expect(performance.now() - begun).toBeGreaterThan(heldSeconds * 500);
  expect((await get("/objects")).body).toBe("1");
  // The lock was freed, so the next request does not wait.
  expect(await remaining("/shared")).toBe("2");
  expect((await get("/objects")).body).toBe("1");
});

it("waits for a taken lock where the runtime has no lua-resty-lock", async () => {
  expect(await remaining("/shared", debian)).toBe("4");
  await get("/hold", debian);
  const begun = performance.now();
  expect(await remaining("/shared", debian)).toBe("3");
  expect(performance.now() - begun).toBeGreaterThan(heldSeconds * 500);
});

it("goes on without a lock that there is no memory for, and counts it", async () => {
  expect(await remaining("/scarce", debian)).toBe("4");
  await get("/fill", debian);
  for (const left of ["3", "2", "1", "0"]) expect(await remaining("/scarce", debian)).toBe(left);
  await untilPasses(async () => expect(await debian.metric("sluice_lock_timeouts_total")).toBe(4));
});
