-- gateway/src/stores/node/counter-places.ts and shared-cells.ts: a spray has taken the memory, so several keys share a counter. It is
-- refunded, charged after a response, and locked.

local support = require("test.gateway.virtual.support")

local quota = 10
local kinds = { "token-bucket", "fixed-window", "sliding-window", "sliding-log" }
local counterBytes = 65536
local cellsInDict = counterBytes / 128

local function perKey(name, algorithm, more)
  local limit = { algorithm = algorithm, quota = quota, window = "1d" }
  return support.policy(name, limit, support.with({ scope = "node" }, more or {}))
end

local function begin(world, path, key, more)
  return world.workers[1].request({
    uri = "/" .. path,
    variables = support.with({ http_x_key = key, body_bytes_sent = "12" }, more or {}),
    serviceUs = 0,
  })
end

-- Returns the request when it has ended.
local function send(world, path, key, more)
  local request = begin(world, path, key, more)
  while not request.ended do
    world.run(0.1)
  end
  return request
end

local function admittedOf(world, path, key)
  local admitted = 0
  while admitted < 2 * quota and send(world, path, key).status ~= 429 do
    admitted = admitted + 1
  end
  return admitted
end

-- Sends keys that this policy has no memory for any more.
local function fill(world, path, count)
  for i = 1, count or cellsInDict do
    send(world, path, "k" .. i)
    if i % 50 == 0 then
      world.run(10)
    end
  end
  world.run(100)
end

local function counted(world, event)
  return world.dict("sluice_metrics"):get(event) or 0
end

local function worldWith(policies, sizes, workers)
  return support.world({
    redis = false,
    workers = workers,
    policies = policies,
    -- Expired counters are looked for while memory is scarce, for as long as the clock says.
    lookUs = 200,
    sizes = support.with({ sluice_counters = counterBytes }, sizes or {}),
  })
end

describe("a counter that several keys share", function()
  -- Refuses all requests with the header x-also, after the first.
  local never = {
    name = "never",
    match = { headers = { ["x-also"] = { "yes" } } },
    priority = -1,
    limits = { support.fixed("1/1d") },
  }
  local also = { http_x_also = "yes" }

  for _, kind in ipairs(kinds) do
    it("is refunded what a request took when a later policy refuses it: " .. kind, function()
      local world = worldWith({ perKey("a", kind), never })
      send(world, "anything", "k", also)
      fill(world, "a")
      local own = world.dicts.sluice_counters.count
      local sharedKeys = 0
      for i = 1, 30 do
        local key = "refunded" .. i
        local before = tonumber(send(world, "a", key).headers["X-RateLimit-Remaining"])
        for _ = 1, 5 do
          assert.equal(429, send(world, "a", key, also).status)
        end
        assert.equal(before, admittedOf(world, "a", key), key)
      end
      world.run(200)
      assert.equal(own, world.dicts.sluice_counters.count)
      sharedKeys = counted(world, "overflow-admissions")
      assert.is_true(sharedKeys > 100, tostring(sharedKeys))
      support.assertQuiet(world)
    end)
  end

  it("is charged for a response, and refuses the next request until the debt is paid", function()
    local world = worldWith({ perKey("bytes", "token-bucket", { cost = { from = "response-bytes" } }) })
    fill(world, "bytes")
    local admitted = 0
    for i = 1, 30 do
      local key = "download" .. i
      admitted = admitted + (send(world, "bytes", key).status == 200 and 1 or 0)
      assert.equal(429, send(world, "bytes", key).status)
    end
    assert.is_true(admitted > 10, tostring(admitted))
    support.assertQuiet(world)
  end)
end)

describe("when the memory is full to the last byte,", function()
  for _, kind in ipairs(kinds) do
    it("a key is admitted its quota at most, and counters that exist keep their counts: " .. kind, function()
      local policies = { perKey("early", kind), perKey("late", kind) }
      for i = 1, 20 do
        policies[#policies + 1] = perKey("filler-" .. i, "fixed-window")
      end
      local world = worldWith(policies)
      for i = 1, 20 do
        send(world, "early", "e" .. i)
      end
      for i = 1, 20 do
        fill(world, "filler-" .. i, 300)
      end
      assert.equal(0, world.dict("sluice_counters"):free_space())
      for i = 1, 20 do
        assert.equal(quota - 1, admittedOf(world, "early", "e" .. i), "e" .. i)
        local late = admittedOf(world, "late", "l" .. i)
        assert.is_true(late <= quota, ("l%d: %d"):format(i, late))
      end
      world.run(200)
      assert.equal(0, world.dicts.sluice_counters.evicted)
      assert.equal(0, counted(world, "evictions"))
      support.assertQuiet(world)
    end)
  end
end)

describe("while the lock of a key's shared cells is held elsewhere,", function()
  for _, limitCount in ipairs({ 1, 2 }) do
    it(("a request gives up before its key's lock has lapsed, and takes nobody's: %d limits"):format(limitCount), function()
      local held = perKey("held", "token-bucket")
      for i = 1, limitCount do
        held.limits[i] = support.with(held.limits[1], { name = "limit-" .. i })
      end
      local world = worldWith({ held }, { sluice_overflow = 524288 }, 2)
      fill(world, "held")
      assert.equal(200, send(world, "held", "late").status)
      local locks = world.dict("sluice_locks")
      for page = 0, 127 do
        locks:set("shared:s3:{shop:held:" .. page, true, 5)
      end
      world.run(200)
      local before = counted(world, "lock-timeouts")
      local request, own = begin(world, "held", "late"), nil
      world.run(2)
      for _, name in ipairs(locks:get_keys(0)) do
        if name:sub(1, 7) ~= "shared:" then
          assert.is_nil(own)
          own = name
        end
      end
      assert(own, "the request holds no lock of its key")
      local taken
      for ms = 1, 1000 do
        -- Another request takes the key's lock as soon as it is free.
        if not taken and locks:safe_add(own, "another's", 5) then
          taken = ms
          assert.equal(200, request.status, "its lock had lapsed before it was decided")
        end
        world.run(1)
      end
      assert.equal("another's", locks:get(own))
      local waitedUs = request.decidedUs - request.beganUs
      assert.is_true(waitedUs >= 380000 and waitedUs <= 420000, tostring(waitedUs))
      assert.equal(before + 1, counted(world, "lock-timeouts"))
      support.assertQuiet(world)
    end)
  end
end)
