-- gateway/src/charging/refunds.ts, stores/redis/debts.ts: what is decided without Redis is owed to it when the request goes on, and not before.
-- A policy that tags, delays or degrades is charged before the request's other policies decide: a client that uses up nothing of its own limit
-- would use up one that all share.

local product = require("test.gateway.product")
local support = require("test.gateway.virtual.support")
local ask, fixed, policy, used, with = support.ask, support.fixed, support.policy, support.used, support.with

local total = fixed("10000/1h")
local actions = { tag = { action = "tag", header = "x-over: 1" }, delay = { action = "delay", maxDelay = "1s" } }

-- Policies of requests to /shared: one that all share, and one of scope node that has one slot, for which a request waits.
local function policiesOf(shared, maxDelay)
  local slot = { algorithm = "concurrency", quota = 1, ttl = "1m" }
  return {
    policy("shared", total, with({ priority = 9 }, shared)),
    policy("own", slot, { match = { paths = { "/shared" } }, scope = "node", onLimit = { action = "delay", maxDelay = maxDelay or "30s" } }),
    policy("beside", fixed("1000000/1h")),
  }
end

-- From now on, Redis is so slow that the worker decides without it.
local function overload(world)
  world.redis.upUs, world.redis.downUs = 10000, 10000
  for i = 1, 400 do
    world.at(i * 5, function()
      ask(world, "beside", 1, { key = "b" .. i, serviceUs = 0 })
    end)
  end
  world.run(1000)
  assert.is_true(world.workers[1].module("gateway.src.stores.redis.overload").isOverloaded())
end

-- The request that has the slot for so many ms, and 20 that wait for it.
local function waitFor(world, slotMs)
  local waiting = ask(world, "shared", 1, { serviceUs = slotMs * 1000 })
  world.run(50)
  for _, request in ipairs(ask(world, "shared", 20, { serviceUs = 0 })) do
    waiting[#waiting + 1] = request
  end
  world.run(100)
  return waiting
end

local function leave(requests)
  for _, request in ipairs(requests) do
    if not request.ended and not request.passed then
      request.abort()
    end
  end
end

describe("while Redis is overloaded, a shared limit", function()
  for name, action in pairs(actions) do
    local environment = { SLUICE_OVERLOAD_REDIS_P99_MS = "5" }

    it("is charged nothing for requests whose clients leave while they wait for their own: " .. name, function()
      local world = support.world({ workers = 1, environment = environment, policies = policiesOf({ onLimit = action }) })
      overload(world)
      leave(waitFor(world, 2000))
      world.run(500)
      assert.equal(1, used(world, "shared", total))
      world.run(3000)
      support.assertQuiet(world)
    end)

    it("is charged nothing for requests that their own refuses: " .. name, function()
      local world = support.world({ workers = 1, environment = environment, policies = policiesOf({ onLimit = action }, "80ms") })
      overload(world)
      assert.same({ [429] = 20, [200] = 1 }, world.statuses(waitFor(world, 140)))
      world.run(500)
      assert.equal(1, used(world, "shared", total))
    end)

    it("is charged for requests that go on after they have waited: " .. name, function()
      local world = support.world({ workers = 1, environment = environment, policies = policiesOf({ onLimit = action }) })
      overload(world)
      local requests = waitFor(world, 600)
      world.run(2500)
      assert.same({ [200] = 21 }, world.statuses(requests))
      assert.equal(21, used(world, "shared", total))
      support.assertQuiet(world)
    end)
  end
end)

for _, kind in ipairs({ "stops while they are under way", "was away before they came" }) do
  describe("after an outage in which requests wait, and Redis " .. kind .. ",", function()
    local function awayFor(leaves)
      local world = support.world({ workers = 1, policies = policiesOf({ onLimit = actions.tag }) })
      ask(world, "shared", 1, { key = "other", serviceUs = 0 })
      world.run(50)
      if kind == "was away before they came" then
        world.redis.cutOff()
        ask(world, "beside", 3)
        world.run(1000)
      else
        world.at(50, world.redis.stop)
      end
      local requests = waitFor(world, 3000)
      world.run(1000)
      world.redis.go()
      world.run(1000)
      if leaves then
        leave(requests)
      end
      world.run(6000)
      support.assertQuiet(world)
      return world, world.statuses(requests)[200]
    end

    it("a shared limit is charged for those that go on", function()
      local world, passed = awayFor(false)
      assert.equal(21, passed)
      assert.equal(21, used(world, "shared", total))
    end)

    it("a shared limit is charged nothing for those that have left", function()
      local world = awayFor(true)
      assert.equal(1, used(world, "shared", total))
    end)
  end)
end

describe("a policy with slots and another limit", function()
  local rate = with(fixed("100/1h"), { name = "rate" })
  local slots = { algorithm = "concurrency", quota = 50, ttl = "1m", name = "slots" }
  local ways = {
    request = function(world)
      return ask(world, "a", 1, { serviceUs = 0 })[1]
    end,
    hold = function(world)
      return support.callerPosts(world, "hold", { policy = "a", key = { "k" } })
    end,
  }
  for name, send in pairs(ways) do
    it("is charged after an outage for what passed: " .. name, function()
      local policies = { policy("a", nil, { limits = { rate, slots } }) }
      local world = support.world({ workers = 1, policies = policies })
      world.publish(policies, nil, { support.callerSha256 })
      world.redis.cutOff()
      ask(world, "a", 3, { key = "x", serviceUs = 0 })
      world.run(1000)
      local requests = {}
      for i = 1, 5 do
        requests[i] = send(world)
      end
      world.run(100)
      assert.same({ [200] = 5 }, world.statuses(requests))
      world.redis.go()
      world.run(1000)
      local key = support.counterKey("a", rate, "k"):gsub(":default:", ":rate:")
      assert.equal(95, world.redis.peek(key, product.limitOf(rate)))
    end)
  end
end)
