-- Decisions of a gateway whose Redis is late, silent or gone, as a client sees them: what passes, how long that takes, and what Redis
-- counts when it is back.

local nginx = require("test.gateway.virtual.nginx")
local product = require("test.gateway.product")
local redisCluster = require("test.gateway.virtual.redis-cluster")
local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy, used = support.ask, support.fixed, support.bucket, support.policy, support.used

local deadlineUs = 200000

local function waitedUs(request)
  return request.decidedUs - request.beganUs
end

local openBreakers = support.openBreakers

local function metric(world, name)
  return world.dict("sluice_metrics"):get(name) or 0
end

-- Requests that are decided within so many ms.
local function askAndWait(world, name, count, ms, options)
  local requests = ask(world, name, count, options)
  world.run(ms)
  return world.statuses(requests), requests
end

describe("a Redis that answers within the deadline", function()
  it("decides every request, after three quarters of it too", function()
    local limit = fixed("100/1d")
    for seed = 1, 5 do
      local world = support.world({ seed = seed, policies = { policy("a", limit) } })
      world.redis.upUs, world.redis.downUs = 75000, 75000
      assert.same({ [200] = 100, [429] = 200 }, (askAndWait(world, "a", 300, 1000)))
      assert.equal(100, used(world, "a", limit))
      assert.equal(0, openBreakers(world))
      support.assertQuiet(world)
    end
  end)

  -- Sent to Redis one after the other, the 200 that are admitted would wait for four seconds; together they wait for a few replies.
  it("is not taken for one that fails when a burst comes", function()
    local limit = fixed("200/366d")
    for seed = 1, 5 do
      local world = support.world({ seed = seed, policies = { policy("a", limit) } })
      world.redis.upUs, world.redis.downUs = 10000, 10000
      local statuses, requests = askAndWait(world, "a", 500, 500)
      assert.same({ [200] = 200, [429] = 300 }, statuses)
      for _, request in ipairs(requests) do
        assert.is_true(waitedUs(request) <= 60000, tostring(waitedUs(request)))
      end
      for _, kind in ipairs({ "connect", "timeout", "closed", "error", "late" }) do
        assert.equal(0, metric(world, "redis-failure:" .. kind), kind)
      end
    end
  end)

  it("charges all policies of a request or none", function()
    local narrow, wide = fixed("5/1d"), fixed("100/1d")
    local both = { match = { paths = { "/both" } } }
    for seed = 1, 5 do
      local policies = { policy("narrow", narrow, both), policy("wide", wide, both) }
      local world = support.world({ seed = seed, workers = 2, policies = policies })
      assert.same({ [200] = 5, [429] = 45 }, (askAndWait(world, "both", 50, 100, { worker = 0 })))
      assert.same({ 5, 5 }, { used(world, "narrow", narrow), used(world, "wide", wide) })
      world.publish({ policies[2] })
      world.run(20)
      local _, requests = askAndWait(world, "both", 1, 20)
      assert.equal("94", requests[1].headers["X-RateLimit-Remaining"])
    end
  end)
end)

describe("a Redis that is silent for longer than the deadline, and then goes on,", function()
  it("has the quota admitted once", function()
    local limit = fixed("100/1d")
    for seed = 1, 10 do
      local world = support.world({ seed = seed, policies = { policy("a", limit) } })
      assert.same({ [200] = 20 }, (askAndWait(world, "a", 20, 20)))
      world.redis.stop()
      -- The share of a lone gateway is the whole limit, since no worker knew what Redis had left.
      assert.same({ [200] = 60 }, (askAndWait(world, "a", 60, 600)))
      world.redis.go()
      world.run(1000)
      assert.equal(0, openBreakers(world))
      assert.equal(80, used(world, "a", limit), "seed " .. seed)
      assert.same({ [200] = 20, [429] = 30 }, (askAndWait(world, "a", 50, 50)))
      support.assertQuiet(world)
    end
  end)

  it("holds a lone request up for the deadline, however long that is", function()
    for _, ms in ipairs({ 1, 50, 2000, 60000 }) do
      local world = support.world({
        policies = { policy("a", fixed("100/1d")) },
        environment = { SLUICE_REDIS_DEADLINE_MS = tostring(ms) },
      })
      askAndWait(world, "a", 1, 100)
      world.redis.stop()
      local _, requests = askAndWait(world, "a", 1, ms + 1000)
      assert.is_true(waitedUs(requests[1]) >= ms * 1000 - 1000 and waitedUs(requests[1]) <= ms * 1000 + 26000, ms .. " " .. waitedUs(requests[1]))
    end
  end)

  for _, onStoreFailure in ipairs({ "local", "allow" }) do
    it("frees slots that it gave to requests which went on without it: " .. onStoreFailure, function()
      local slots = { algorithm = "concurrency", quota = 5, ttl = "1m" }
      for seed = 1, 10 do
        local world = support.world({ seed = seed, policies = { policy("a", slots, { onStoreFailure = onStoreFailure }) } })
        assert.same({ [200] = 3 }, (askAndWait(world, "a", 3, 50)))
        world.redis.stop()
        assert.same({ [200] = 5 }, (askAndWait(world, "a", 5, 600)))
        world.redis.go()
        world.run(1500)
        local _, said = world.redis.peek(support.counterKey("a", slots), product.limitOf(slots), 1)
        assert.equal(5, said[2], "seed " .. seed)
        assert.same({ [200] = 5 }, (askAndWait(world, "a", 5, 50)))
        support.assertQuiet(world)
      end
    end)
  end

  it("refunds a node counter only what belongs to its current window", function()
    local windowMs = 3000
    local first, second = fixed("30/" .. windowMs .. "ms"), fixed("1/366d")
    local at = { match = { paths = { "/border" } } }
    for seed = 1, 10 do
      local policies = {
        policy("first", first, { scope = "node", priority = 1, match = { paths = { "/border", "/free" } } }),
        policy("second", second, at),
      }
      local world = support.world({ seed = seed, policies = policies, environment = { SLUICE_REDIS_DEADLINE_MS = "5000" } })
      assert.same({ [200] = 1 }, (askAndWait(world, "border", 1, 10)))
      -- Twenty requests are charged at the node just before the border, and refused by Redis just behind it.
      local function untilBorderMs()
        return windowMs - (world.wallUs + world.clock.nowUs) / 1000 % windowMs
      end
      world.run(untilBorderMs() + windowMs - 400)
      world.redis.stop()
      local before = ask(world, "border", 20)
      world.run(untilBorderMs() + 200 + world.clock.random(0, 400))
      -- These requests open the next window, so that a wrong refund would take from it. Ten of them stay charged.
      local behind = ask(world, "border")
      assert.same({ [200] = 10 }, (askAndWait(world, "free", 10, 100)))
      world.redis.go()
      world.run(100)
      assert.same({ { [429] = 20 }, { [429] = 1 } }, { world.statuses(before), world.statuses(behind) })
      world.publish({ policies[1] })
      world.run(20)
      assert.same({ [200] = 20, [429] = 40 }, (askAndWait(world, "border", 60, 50)), "seed " .. seed)
      support.assertQuiet(world)
    end
  end)
end)

describe("a Redis that cannot be reached", function()
  for _, algorithm in ipairs({ "token-bucket", "sliding-window", "sliding-log" }) do
    it("is told afterwards what passed meanwhile: " .. algorithm, function()
      local limit = { algorithm = algorithm, quota = 100, window = "1d" }
      for seed = 1, 5 do
        local world = support.world({ seed = seed, policies = { policy("a", limit) } })
        assert.same({ [200] = 20 }, (askAndWait(world, "a", 20, 20)))
        world.redis.kill()
        world.run(5)
        assert.same({ [200] = 60 }, (askAndWait(world, "a", 60, 100)))
        world.redis.begin(true)
        world.run(1000)
        assert.equal(0, openBreakers(world))
        world.run(1000)
        assert.equal(60, metric(world, "redis-late-units"))
        assert.same({ [200] = 20, [429] = 30 }, (askAndWait(world, "a", 50, 50)))
        support.assertQuiet(world)
      end
    end)
  end

  it("has nothing forgotten of many keys whose units have long been refilled", function()
    local limit = { algorithm = "token-bucket", quota = 10, window = "100ms", burst = 1 }
    local world = support.world({ policies = { policy("many", limit) } })
    -- Each of ten thousand keys is looked at by its own moment.
    world.mostLooks = 100000
    world.redis.kill()
    -- More keys than there is room for at one time.
    for round = 1, 55 do
      for i = 1, 200 do
        ask(world, "many", 1, { key = round .. "-" .. i, serviceUs = 0 })
      end
      world.run(30)
    end
    world.run(300)
    assert.equal(0, metric(world, "redis-forgotten-units"))
    assert.same({ [200] = 11000 }, world.statuses())
  end)

  it("leaves room for one request in a node's share, whatever it costs", function()
    local dear = policy("dear", fixed("8/366d"), { cost = 5 })
    local world = support.world({ policies = { dear } })
    world.setGateways(2)
    world.redis.kill()
    world.run(5)
    assert.same({ [200] = 1, [429] = 4 }, (askAndWait(world, "dear", 5, 50)))
  end)

  it("before it decides another policy of the request has the leased one charged once", function()
    local limit = fixed("1000/1d")
    local function both(name, priority)
      return policy(name, limit, { consistency = name, priority = priority, match = { paths = { "/both" } } })
    end
    for seed = 1, 20 do
      local world = support.world({ seed = seed, policies = { both("leased", 0), both("exact", -1) } })
      for i = 1, 3 do
        assert.same({ [200] = 1 }, (askAndWait(world, "both", 1, 50, { key = "w" .. i })))
      end
      world.run(300)
      -- The first call of this request is that for a lease; the reply to the next one is lost, and Redis is gone.
      local calls = 0
      world.redis.fate = function(commands)
        if commands[1][1] ~= "evalsha" then
          return nil
        end
        calls = calls + 1
        if calls == 2 then
          world.at(0.5, world.redis.kill)
          return { loses = "reply" }
        end
      end
      assert.same({ [200] = 1 }, (askAndWait(world, "both", 1, 300, { key = "b" })))
      assert.is_true(calls >= 2)
      world.redis.fate = nil
      world.redis.begin(true)
      world.run(2000)
      assert.equal(0, openBreakers(world))
      assert.equal(1, used(world, "leased", limit, "b"), "seed " .. seed)
      support.assertQuiet(world)
    end
  end)

  it("costs a worker little while thousands of keys are owed to it, on many nodes of a Cluster", function()
    local jit = require("jit")
    -- How many thousands of instructions a worker runs in a second in which nobody asks, where so many keys are owed.
    local function idle(keys)
      local world = nginx.world({
        redis = false,
        policies = { policy("many", fixed("100/1d")) },
        deploys = function(clock)
          local cluster = redisCluster.new(clock, {})
          for _, node in ipairs(cluster.nodes) do
            node.kill()
          end
          return cluster
        end,
      })
      world.run(500)
      for i = 1, keys do
        ask(world, "many", 1, { key = "k" .. i, serviceUs = 0 })
        if i % 100 == 0 then
          world.run(10)
        end
      end
      world.run(1000)
      assert.equal(keys, world.statuses()[200] or 0)
      local count = 0
      jit.off()
      debug.sethook(function()
        count = count + 1
      end, "", 1000)
      world.run(1000)
      debug.sethook()
      jit.on()
      return count
    end
    local without, with = idle(0), idle(3000)
    -- When everything owed was looked at every 10 ms, it was many times as much.
    assert.is_true(with - without < 1000, ("%d thousand instructions, and %d without"):format(with, without))
  end)
end)

describe("a policy that waits no longer than maxStoreWait", function()
  it("has each request counted once by a Redis that is later than that, which is no failure", function()
    local limit = fixed("100/1d")
    for seed = 1, 10 do
      local world = support.world({ seed = seed, policies = { policy("a", limit, { maxStoreWait = "50ms" }) } })
      askAndWait(world, "a", 1, 20)
      world.redis.upUs, world.redis.downUs = 75000, 75000
      local statuses, requests = askAndWait(world, "a", 30, 500)
      assert.same({ [200] = 30 }, statuses)
      for _, request in ipairs(requests) do
        assert.is_true(waitedUs(request) <= 60000, tostring(waitedUs(request)))
      end
      world.run(1000)
      assert.equal(31, used(world, "a", limit), "seed " .. seed)
      assert.equal(0, openBreakers(world))
      support.assertQuiet(world)
    end
  end)

  it("has who was late counted", function()
    local limit = fixed("100000/1d")
    local hurried = policy("a", limit, support.with(support.denies, { maxStoreWait = "100ms" }))
    local world = support.world({ policies = { hurried }, environment = { SLUICE_REDIS_DEADLINE_MS = "400" } })
    world.redis.upUs, world.redis.downUs = 170000, 170000
    for i = 0, 399 do
      world.at(i * 5, function()
        ask(world, "a")
      end)
    end
    world.run(4000)
    local statuses = world.statuses()
    assert.is_true((statuses[503] or 0) > 50)
    assert.equal(statuses[503], metric(world, "redis-failure:late"))
    assert.equal(statuses[200] or 0, used(world, "a", limit))
    support.assertQuiet(world)
  end)

  it("waits no longer if it is charged by the response, or leased", function()
    local limit = bucket("1000000/1s", 1000000)
    local hurried = { maxStoreWait = "50ms" }
    for seed = 1, 5 do
      local world = support.world({
        seed = seed,
        policies = {
          policy("bytes", limit, support.with(hurried, { cost = { from = "response-bytes" } })),
          policy("leased", limit, support.with(hurried, { consistency = "leased" })),
        },
      })
      for _, name in ipairs({ "bytes", "leased" }) do
        askAndWait(world, name, 1, 50)
      end
      world.redis.upUs, world.redis.downUs = 80000, 80000
      for round = 1, 3 do
        for _, name in ipairs({ "bytes", "leased" }) do
          local statuses, requests = askAndWait(world, name, 1, 400, { key = "k" .. round })
          assert.same({ [200] = 1 }, statuses)
          assert.is_true(waitedUs(requests[1]) <= 60000, name .. " " .. waitedUs(requests[1]))
        end
      end
      assert.equal(0, openBreakers(world))
    end
  end)
end)

describe("a Redis that refuses every call", function()
  it("of a batch is left alone: after the third failure, no request is tried once more by itself", function()
    local day = fixed("100000/1d")
    local world = support.world({ policies = { policy("a", day), policy("b", day) }, environment = { SLUICE_REDIS_DEADLINE_MS = "1000" } })
    ask(world, "a", 2)
    ask(world, "b", 2)
    -- By now no call is under way.
    world.run(200)
    local packets = {}
    world.redis.fate = function(commands)
      if commands[1][1] == "evalsha" then
        packets[#packets + 1] = #commands
      end
    end
    world.redis.error = function()
      return "OOM command not allowed when used memory > 'maxmemory'."
    end
    world.redis.stop()
    -- The first request is sent by itself, the second in the first batch, and the others together in the next.
    for at, names in ipairs({ { "a" }, { "a" }, { "a", "b" } }) do
      world.at(at * 30, function()
        for _, name in ipairs(names) do
          ask(world, name)
        end
      end)
    end
    world.run(120)
    -- It replies to them in this order.
    local upUs = 0
    function world.redis.upUs()
      upUs = upUs + 1000
      return upUs
    end
    world.redis.go()
    world.run(40)
    assert.same({ 1, 1, 2 }, packets)
    assert.equal(1, openBreakers(world))
  end)
end)
