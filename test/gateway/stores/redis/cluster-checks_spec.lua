-- gateway/src/stores/redis/decide-checks.ts where a request's counters are in several slots of a Redis Cluster: one call after the other, and
-- what was charged is refunded when a later call refuses. One server serves all slots here.

local support = require("test.gateway.virtual.support")
local ask, fixed, policy, used = support.ask, support.fixed, support.policy, support.used

local day = fixed("1000/1d")

-- A world whose requests to /a meet policies a, b and c, in this order, each with a slot of its own.
local function clusterWorld(limits, more)
  local policies = {}
  for i, name in ipairs({ "a", "b", "c" }) do
    policies[i] = policy(name, limits[i] or day, support.with({ priority = 10 - i, match = { paths = { "/a" } } }, more or support.denies))
  end
  local world = support.world({ policies = policies })
  local worker = world.workers[1]
  local settings = worker.module("gateway.src.redis.redis-settings").theRedis()
  local calls, map = worker.module("gateway.src.redis.script-call"), worker.module("gateway.src.redis.slot-map")
  local server = calls.serverFor(settings, 0)
  settings.deployment.kind, settings.deployment.seeds = "cluster", {}
  for i, name in ipairs({ "a", "b", "c" }) do
    for _, key in ipairs({ "k", "other" }) do
      worker.call(function()
        map.slotMoved(calls.groupOf(settings, support.counterKey(name, limits[i] or day, key)), server)
      end)
    end
  end
  world.redis.calls = {}
  return world
end

local function charges(world)
  local keys = {}
  for _, call in ipairs(world.redis.calls) do
    if call.name == "charge_fixed_window" then
      keys[#keys + 1] = call.keys[1]:match("shop:(%a)")
    end
  end
  return table.concat(keys)
end

local function counts(world, limits)
  return { used(world, "a", limits[1] or day), used(world, "b", limits[2] or day), used(world, "c", limits[3] or day) }
end

describe("a request with counters in several slots", function()
  it("is charged in all of them, one after the other", function()
    local world = clusterWorld({})
    ask(world, "a")
    world.run(20)
    assert.same({ [200] = 1 }, world.statuses())
    assert.equal("abc", charges(world))
    assert.same({ 1, 1, 1 }, counts(world, {}))
    assert.equal(0, world.redis.count("refund"))
    world.run(100)
    support.assertQuiet(world)
  end)

  it("is charged nowhere where one refuses, and those after it are not asked", function()
    local limits = { day, fixed("1/1d"), day }
    local world = clusterWorld(limits)
    ask(world, "a")
    world.run(20)
    world.redis.calls = {}
    local refused = ask(world, "a")[1]
    world.run(20)
    -- Its policy's own status.
    assert.equal(503, refused.status)
    assert.equal("ab", charges(world))
    assert.same({ 1, 1, 1 }, counts(world, limits))
    assert.equal(1, world.redis.count("refund"))
    -- The refusal is remembered: another request asks nothing.
    world.redis.calls = {}
    ask(world, "a")
    world.run(20)
    assert.equal(0, world.redis.count())
    assert.same({}, world.logged("a refund failed"))
    world.run(100)
    support.assertQuiet(world)
  end)

  it("tells of the units that it has back", function()
    local limits = { fixed("7/1d"), fixed("1/1d"), day }
    local world = clusterWorld(limits)
    local merged = world.workers[1].module("limiter.src.compiled.merged-decision").newMergedDecision()
    ask(world, "a")
    world.run(20)
    local own = world.workers[1].module("limiter.src.compiled.merged-decision").newMergedDecision()
    local policies = world.workers[1].module("gateway.src.snapshot.current").policiesOf("shop")
    local function check(name, key)
      return { policy = policies[name], keyValues = key or "1:k", chargedAt = {}, separate = false, degraded = false }
    end
    local allowed
    local checks = { check("a"), check("b"), check("c") }
    checks[1].merged = own
    world.workers[1].call(function()
      allowed = world.workers[1].module("gateway.src.stores.redis.decide-checks").decideInRedis(
        world.workers[1].module("gateway.src.redis.redis-settings").theRedis(), checks, merged)
    end)
    world.run(30)
    assert.is_false(allowed)
    -- One was charged before, and what this one was charged has come back.
    assert.equal(6, own.decision.remaining)
    assert.same({ true, false, nil }, { checks[1].allowed, checks[2].allowed, checks[3].allowed })
    assert.is_false(merged.allowed)
  end)

  it("goes on to those that are told by themselves, though one has refused", function()
    local limits = { fixed("1/1d"), day, day }
    local world = clusterWorld(limits)
    ask(world, "a")
    world.run(20)
    world.redis.calls = {}
    local worker = world.workers[1]
    local new = worker.module("limiter.src.compiled.merged-decision").newMergedDecision
    local policies = worker.module("gateway.src.snapshot.current").policiesOf("shop")
    local checks = {}
    for i, name in ipairs({ "a", "b", "c" }) do
      checks[i] = { policy = policies[name], keyValues = "1:k", chargedAt = {}, separate = true, degraded = false, merged = new() }
    end
    local allowed
    worker.call(function()
      allowed = worker.module("gateway.src.stores.redis.decide-checks").decideInRedis(
        worker.module("gateway.src.redis.redis-settings").theRedis(), checks, new())
    end)
    world.run(30)
    assert.is_false(allowed)
    assert.equal("abc", charges(world))
    assert.same({ false, true, true }, { checks[1].allowed, checks[2].allowed, checks[3].allowed })
    -- Those two are refunded, the last first, so that each finds its counter as its charge left it.
    local refunded = {}
    for _, call in ipairs(world.redis.calls) do
      if call.name == "refund" then
        refunded[#refunded + 1] = call.keys[1]:match("shop:(%a)")
      end
    end
    assert.equal("cb", table.concat(refunded))
    assert.same({ 1, 1, 1 }, counts(world, limits))
  end)

  -- Redis answers an error to what concerns this policy.
  local function failAt(world, name)
    world.redis.error = function(words)
      for _, word in ipairs(words) do
        if tostring(word):find("shop:" .. name .. ":", 1, true) and words[1]:lower() ~= "get" then
          return "OOM command not allowed when used memory > 'maxmemory'."
        end
      end
    end
  end

  it("is not decided where one does not decide, and has back what was charged", function()
    local world = clusterWorld({})
    failAt(world, "c")
    ask(world, "a")
    world.run(30)
    assert.same({ [503] = 1 }, world.statuses())
    assert.same({ 1, 1, 0 }, counts(world, {}))
    world.run(200)
    assert.same({ 0, 0, 0 }, counts(world, {}))
    assert.equal(2, world.redis.count("refund"))
    assert.is_true(#world.logged("Redis did not decide") == 1)
    support.assertQuiet(world)
  end)

  it("keeps what was charged where it goes on without Redis", function()
    local world = clusterWorld({}, { onStoreFailure = "allow" })
    failAt(world, "c")
    ask(world, "a")
    world.run(300)
    assert.same({ [200] = 1 }, world.statuses())
    local counted = counts(world, {})
    assert.same({ 1, 1 }, { counted[1], counted[2] })
    assert.equal(0, world.redis.count("refund"))
  end)

  it("has back what was charged when its client leaves during a later call", function()
    local mostReplies = 0
    for step = 1, 8 do
      local world = clusterWorld({})
      world.redis.upUs, world.redis.downUs = 1000, 1000
      local before = #world.redis.sent
      local request = ask(world, "a")[1]
      world.run(step * 0.9)
      if request.status ~= 200 then
        local replies = 0
        for i = before + 1, #world.redis.sent do
          replies = replies + (world.redis.sent[i].delivered and 1 or 0)
        end
        request.abort()
        world.run(500)
        -- The call that was under way is refunded, too.
        assert.same({ 0, 0, 0 }, counts(world, {}), ("%d replies"):format(replies))
        assert.equal(replies + 1, world.redis.count("refund"))
        mostReplies = math.max(mostReplies, replies)
        support.assertQuiet(world)
      end
    end
    assert.equal(2, mostReplies)
  end)

  it("is told in the log where its refund may have been made or not", function()
    local limits = { day, fixed("1/1d"), day }
    local world = clusterWorld(limits)
    ask(world, "a")
    world.run(20)
    world.redis.fate = function(commands)
      for _, word in ipairs(commands[1]) do
        if #commands[1] > 3 and word == "fixed-window" then
          return { loses = "reply" }
        end
      end
    end
    ask(world, "a")
    world.run(300)
    assert.equal(1, #world.logged("a refund failed: units stay charged"))
  end)
end)
