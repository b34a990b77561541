// Tests the lock of a counter that several workers share: a free lock costs one `add`; a taken lock is waited for.

import { resolve } from "node:path";
import { afterEach, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { ask } from "../fixtures/requests.ts";

let gateway: LoneGateway;
afterEach(() => gateway?.stop());

const heldSeconds = 0.2;

/** Counts the objects that lua-resty-lock makes: its own if the runtime has it, else those of its stand-in. */
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

async function start(env: NodeJS.ProcessEnv): Promise<void> {
  gateway = await LoneGateway.start({
    policies: [
      {
        name: "shared",
        match: { paths: ["/shared"] },
        limits: [{ algorithm: "token-bucket", quota: 1, window: "1h", burst: 5 }],
      },
    ],
    workers: 2,
    env,
    edit: (config) => config.replace("init_by_lua_block {", countLocks).replace("location / {", locations),
  });
}

const get = async (path: string) => ask(`${gateway.url}${path}`);

const modules = resolve(import.meta.dirname, "../fixtures/openresty");
const underOpenrestysNames = { LUA_PATH: `${modules}/?.lua;;` };

it("takes a free lock without an object of lua-resty-lock", async () => {
  await start(underOpenrestysNames);
  for (let i = 0; i < 6; i++) await get("/shared");
  expect((await get("/shared")).status).toBe(429);
  expect((await get("/objects")).body).toBe("0");
});

it("waits for a taken lock by lua-resty-lock, and then charges once", async () => {
  await start(underOpenrestysNames);
  expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("4");
  expect((await get("/hold")).body).toBe("1");
  const begun = performance.now();
  expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("3");
  expect(performance.now() - begun).toBeGreaterThan(heldSeconds * 500);
  expect((await get("/objects")).body).toBe("1");
  // The lock was freed, so the next request does not wait.
  expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("2");
  expect((await get("/objects")).body).toBe("1");
});

it("waits for a taken lock where the runtime has no lua-resty-lock", async () => {
  await start({});
  expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("4");
  expect((await get("/hold")).body).toBe("1");
  const begun = performance.now();
  expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("3");
  expect(performance.now() - begun).toBeGreaterThan(heldSeconds * 500);
});

it("goes on without a lock that it cannot get in time, and counts the timeout", async () => {
  await start(underOpenrestysNames);
  await get("/shared");
  await get("/hold");
  // From now on the lock is taken all the time.
  const holding = setInterval(() => void get("/hold"), 20);
  try {
    expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("3");
  } finally {
    clearInterval(holding);
  }
  await expect.poll(() => gateway.metric("sluice_lock_timeouts_total"), { timeout: 5000 }).toBe(1);
});

it("goes on soon without a lock that there is no memory for, and counts it", async () => {
  await start({});
  expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe("4");
  await get("/fill");
  const begun = performance.now();
  for (const left of ["3", "2", "1", "0"]) expect((await get("/shared")).headers["x-ratelimit-remaining"]).toBe(left);
  // Each of the four once took 0.6 s.
  expect(performance.now() - begun).toBeLessThan(1000);
  await expect.poll(() => gateway.metric("sluice_lock_timeouts_total"), { timeout: 5000 }).toBe(4);
});
