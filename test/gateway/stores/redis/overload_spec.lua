-- A gateway that decides by its share by choice while Redis is overloaded: when that begins, what it decides, how often Redis is asked
-- meanwhile, and when it ends.

local fleet = require("test.gateway.virtual.fleet")
local support = require("test.gateway.virtual.support")
local ask, bucket, fixed, policy = support.ask, support.bucket, support.fixed, support.policy

local wide = bucket("100000/1s", 100000)
local p99 = { SLUICE_OVERLOAD_REDIS_P99_MS = "50" }

local function start(options)
  return support.world(support.with({ policies = { policy("a", wide) }, environment = p99 }, options or {}))
end

-- Each way takes half of it.
local function answersAfter(world, ms)
  world.redis.upUs, world.redis.downUs = ms * 500, ms * 500
end

-- A steady load at the first worker, for so many ms: the requests.
local function load(world, perSecond, ms, name)
  local requests = {}
  for i = 0, perSecond * ms / 1000 - 1 do
    world.at(i * 1000 / perSecond, function()
      requests[#requests + 1] = ask(world, name or "a")[1]
    end)
  end
  world.run(ms)
  return requests
end

local function isOverloaded(world, number)
  return world.workers[number or 1].module("gateway.src.stores.redis.overload").isOverloaded()
end

local function overloadedAs(world)
  return world.dict("sluice_state"):get("overloaded:0")
end

local function decisionCalls(world)
  return world.redis.count("charge_token_bucket")
end

describe("a gateway without the setting", function()
  it("waits for a Redis that is slow", function()
    local world = start({ environment = {} })
    answersAfter(world, 150)
    local requests = load(world, 100, 3000)
    world.run(500)
    assert.is_false(isOverloaded(world))
    assert.is_true(support.slowestUs(requests) >= 150000)
  end)
end)

describe("a gateway that is told at which p99 Redis is overloaded", function()
  it("asks Redis while that is not reached", function()
    local world = start()
    -- Some wait for a batch before their own, too.
    answersAfter(world, 36)
    load(world, 200, 8000)
    assert.is_false(isOverloaded(world))
    assert.equal(0, overloadedAs(world))
    assert.equal(0, support.metric(world, "sluice_overload_decisions_total"))
    support.assertQuiet(world)
  end)

  it("asks Redis while no more than one decision in a hundred takes longer", function()
    local world = start()
    local worker = world.workers[1]
    local overload, stopwatch = worker.module("gateway.src.stores.redis.overload"), worker.module("gateway.src.runtime.stopwatch")
    local patience = worker.module("gateway.src.redis.patience")
    local function took(seconds, count)
      worker.call(function()
        local settings = { redisP99Seconds = 0.05, queue = math.huge }
        for _ = 1, count do
          overload.noteWait(settings, stopwatch.stopwatchSeconds() - seconds, patience.patienceSeconds() - seconds, true)
        end
      end)
      world.run(1)
    end
    took(0.049, 198)
    took(0.051, 1)
    world.run(1000)
    took(0.051, 1)
    assert.is_false(isOverloaded(world))
    took(0.051, 1)
    assert.is_true(isOverloaded(world))
  end)

  it("decides by its share, at once, when Redis takes longer", function()
    local world = start()
    answersAfter(world, 2)
    load(world, 200, 2000)
    answersAfter(world, 100)
    load(world, 200, 700)
    assert.is_true(isOverloaded(world))
    assert.equal(1, overloadedAs(world))
    world.run(200)
    local requests = load(world, 200, 2000)
    local late = 0
    for _, request in ipairs(requests) do
      if request.decidedUs - request.beganUs > 1000 then late = late + 1 end
    end
    -- Probes alone wait: four in a second.
    assert.is_true(late > 0 and late <= 8, tostring(late))
    assert.is_true(support.slowestUs(requests) <= 60000, tostring(support.slowestUs(requests)))
    assert.is_true(support.metric(world, "sluice_overload_decisions_total") >= #requests - late)
    assert.equal(1, #world.logged("Redis is overloaded"))
    assert.same({}, world.logged("not sent: Redis is overloaded"))
  end)

  it("does not take one pause of Redis for an overload, however many requests that delays", function()
    for seed = 1, 5 do
      local world = start({ seed = seed })
      answersAfter(world, 2)
      load(world, 500, 2100)
      world.redis.stop()
      world.at(100, function() world.redis.go() end)
      load(world, 500, 2000)
      assert.is_false(isOverloaded(world), "seed " .. seed)
    end
  end)

  it("does not count delays of its own", function()
    local world = start()
    answersAfter(world, 2)
    for i = 1, 20 do
      world.at(i * 100, function() world.workers[1].block(90000) end)
    end
    load(world, 500, 2500)
    assert.is_false(isOverloaded(world))
  end)

  it("does not conclude anything from a few decisions", function()
    local world = start()
    answersAfter(world, 150)
    load(world, 3, 20000)
    assert.is_false(isOverloaded(world))
  end)

  it("asks Redis four times a second at most, in all", function()
    local world = start()
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    world.run(200)
    world.redis.calls = {}
    load(world, 500, 4000)
    local calls = decisionCalls(world)
    assert.is_true(calls >= 12 and calls <= 17, tostring(calls))
  end)

  it("returns five seconds after Redis is quick again, with what it decided charged there", function()
    local limit = fixed("100000/1d")
    local world = start({ policies = { policy("a", limit) } })
    answersAfter(world, 100)
    local requests = load(world, 500, 3000)
    assert.is_true(isOverloaded(world))
    answersAfter(world, 2)
    local quickSinceUs = world.clock.nowUs
    while isOverloaded(world) do
      for _, request in ipairs(load(world, 500, 100)) do requests[#requests + 1] = request end
    end
    local seconds = (world.clock.nowUs - quickSinceUs) / 1e6
    assert.is_true(seconds >= 4.5 and seconds <= 5.8, tostring(seconds))
    assert.equal(0, overloadedAs(world))
    assert.equal(1, #world.logged("not overloaded any more"))
    world.run(500)
    local passed = 0
    for _, request in ipairs(requests) do passed = passed + (request.passed and 1 or 0) end
    assert.equal(#requests, passed)
    assert.equal(passed, support.used(world, "a", limit))
    world.redis.calls = {}
    load(world, 100, 1000)
    assert.is_true(decisionCalls(world) + world.redis.count("charge_fixed_window") >= 90)
    support.assertQuiet(world)
  end)

  it("stays while Redis is between half of the threshold and the threshold", function()
    local world = start()
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    answersAfter(world, 36)
    load(world, 500, 20000)
    assert.is_true(isOverloaded(world))
    answersAfter(world, 16)
    load(world, 500, 6000)
    assert.is_false(isOverloaded(world))
  end)

  it("does not flap, whatever Redis does: it stays twice as long each time that it comes back soon", function()
    for seed = 1, 2 do
      local world = start({ seed = seed })
      local stays, began, changes = {}, nil, 0
      for _ = 1, 200 do
        -- Redis is slow whenever it decides everything.
        answersAfter(world, isOverloaded(world) and 2 or 100 + world.clock.random(0, 60))
        local before = isOverloaded(world)
        load(world, 100, 1000)
        if isOverloaded(world) ~= before then
          changes = changes + 1
          if before then stays[#stays + 1] = (world.clock.nowUs - began) / 1e6 end
          began = world.clock.nowUs
        end
      end
      assert.is_true(changes <= 11, changes .. " changes")
      assert.is_true(stays[1] >= 5 and stays[2] >= 10 and stays[3] >= 20 and stays[4] >= 40, table.concat(stays, " "))
    end
  end)

  it("never stays for less than five seconds", function()
    for seed = 1, 4 do
      local world = start({ seed = seed })
      local enteredUs
      for _ = 1, 300 do
        answersAfter(world, world.clock.random(0, 3) == 0 and 120 or 2)
        local before = isOverloaded(world)
        load(world, 200, 100)
        if isOverloaded(world) and not before then enteredUs = world.clock.nowUs - 100000 end
        if before and not isOverloaded(world) then
          assert.is_true(world.clock.nowUs - enteredUs >= 5000000, "seed " .. seed)
        end
      end
      world.run(300)
      support.assertQuiet(world)
    end
  end)

  it("returns when nothing is asked any more", function()
    local world = start()
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    world.run(7000)
    assert.is_false(isOverloaded(world))
    support.assertQuiet(world)
  end)

  it("stays while Redis fails, and returns after it is back", function()
    local world = start()
    answersAfter(world, 100)
    load(world, 500, 1000)
    world.redis.kill()
    load(world, 500, 8000)
    assert.is_true(isOverloaded(world))
    world.redis.begin()
    answersAfter(world, 2)
    load(world, 500, 7000)
    assert.is_false(isOverloaded(world))
  end)

  for _, onStoreFailure in ipairs({ "allow", "deny" }) do
    it("has Redis decide policies that are told to " .. onStoreFailure, function()
      local narrow = fixed("50/1d")
      local others = { policy("a", wide), policy("b", narrow, { onStoreFailure = onStoreFailure }) }
      local world = start({ policies = others })
      answersAfter(world, 100)
      load(world, 500, 1000)
      assert.is_true(isOverloaded(world))
      local requests = ask(world, "b", 80)
      world.run(1000)
      assert.same({ [200] = 50, [429] = 30 }, world.statuses(requests))
      assert.is_true(support.slowestUs(requests) >= 100000)
      assert.equal(50, support.used(world, "b", narrow))
    end)
  end

  it("has Redis decide a request as a whole that waits for it anyway", function()
    local narrow, at = fixed("50/1d"), { match = { paths = { "/both" } } }
    local world = start({
      policies = {
        policy("a", wide),
        policy("first", fixed("60/1d"), at),
        policy("second", narrow, support.with(at, { onStoreFailure = "deny" })),
      },
    })
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    local requests = ask(world, "both", 80)
    world.run(1000)
    assert.same({ [200] = 50, [429] = 30 }, world.statuses(requests))
    assert.same({ 50, 50 }, { support.used(world, "first", fixed("60/1d")), support.used(world, "second", narrow) })
  end)

  it("has Redis decide a request with a leased policy as a whole, too, if another one denies", function()
    local at = { match = { paths = { "/both" } } }
    local world = start({
      policies = {
        policy("a", wide),
        policy("leased", bucket("100/1s", 100), support.with(at, { consistency = "leased" })),
        policy("second", fixed("5000/1d"), support.with(at, { onStoreFailure = "deny" })),
      },
    })
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    local requests = load(world, 20, 2000, "both")
    world.run(2000)
    assert.same({ [200] = 40 }, world.statuses(requests))
  end)

  it("decides leased policies from the lease, and by its share when that is used up", function()
    local world = start({ policies = { policy("a", wide), policy("b", bucket("200/1s", 200), { consistency = "leased" }) } })
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    world.run(300)
    local requests = load(world, 400, 3000, "b")
    world.run(300)
    local late = 0
    for _, request in ipairs(requests) do
      if request.decidedUs - request.beganUs > 1000 then late = late + 1 end
    end
    assert.is_true(late <= 13, tostring(late))
    support.assertQuiet(world)
  end)

  it("goes on refusing what Redis has refused, without counting it as degraded", function()
    local world = start({ policies = { policy("a", wide), policy("b", fixed("5/1d")) } })
    answersAfter(world, 2)
    ask(world, "b", 10)
    world.run(100)
    answersAfter(world, 100)
    load(world, 500, 1000)
    assert.is_true(isOverloaded(world))
    world.run(200)
    local before = support.metric(world, "sluice_overload_decisions_total")
    local requests = ask(world, "b", 20)
    world.run(10)
    assert.same({ [429] = 20 }, world.statuses(requests))
    assert.equal(before, support.metric(world, "sluice_overload_decisions_total"))
  end)
end)

describe("a gateway that is told how many requests may wait for Redis", function()
  it("decides by its share from then on, at once, and not before", function()
    local world = start({ environment = { SLUICE_OVERLOAD_QUEUE = "100" } })
    answersAfter(world, 150)
    -- The first one calls Redis itself, and does not wait in a batch.
    local first = ask(world, "a", 102)
    assert.is_false(isOverloaded(world))
    local more = ask(world, "a", 50)
    world.run(1)
    assert.is_true(isOverloaded(world))
    assert.is_true(support.slowestUs(more) <= 1000)
    world.run(1000)
    assert.same({ [200] = 102 }, world.statuses(first))
    assert.same({ [200] = 50 }, world.statuses(more))
    world.run(5000)
    assert.is_false(isOverloaded(world))
    support.assertQuiet(world)
  end)

  it("knows that nobody waits any more, whatever became of the requests", function()
    for seed = 1, 10 do
      local world = start({ seed = seed, environment = { SLUICE_OVERLOAD_QUEUE = "1000" } })
      answersAfter(world, 60)
      for _ = 1, 20 do
        local requests = ask(world, "a", 30)
        world.run(world.clock.random(1, 80))
        for i = 1, 30, 3 do requests[i].abort() end
        if world.clock.random(0, 5) == 0 then world.redis.closeAll() end
        if world.clock.random(0, 5) == 0 then
          world.redis.stop()
          world.run(300)
          world.redis.go()
        end
      end
      world.run(3000)
      assert.equal(0, world.workers[1].module("gateway.src.stores.redis.batcher").waitingRequests())
      support.assertQuiet(world)
    end
  end)
end)

describe("two gateways with an overloaded Redis", function()
  it("admit what their shares refill, beyond what Redis admitted", function()
    local limit = bucket("100/1s", 100)
    for seed = 1, 3 do
      local worlds = fleet.start({ gateways = 2, workers = 2, seed = seed, policies = { policy("a", limit) }, environment = p99 })
      local redis = worlds[1].redis
      redis.upUs, redis.downUs = 1000, 1000
      local requests = fleet.load(worlds, "a", 600, 20000)
      worlds[1].run(3000)
      redis.upUs, redis.downUs = 60000, 60000
      worlds[1].run(6000)
      for _, world in ipairs(worlds) do
        assert.is_true(isOverloaded(world, 1) and isOverloaded(world, 2))
      end
      redis.upUs, redis.downUs = 1000, 1000
      local quickUs = worlds[1].clock.nowUs
      worlds[1].run(6000)
      for _, world in ipairs(worlds) do
        assert.is_false(isOverloaded(world, 1) or isOverloaded(world, 2))
      end
      local overUs = worlds[1].clock.nowUs
      worlds[1].run(5200)
      local moments = fleet.passedAt(worlds)
      -- B + rt from the beginning, and in addition rt while the shares decided: 12 s at most.
      local seconds = (overUs - moments[1]) / 1e6
      local admitted = fleet.countBetween(moments, 0, overUs)
      assert.is_true(admitted <= 100 + 100 * seconds + 100 * 12, tostring(admitted))
      -- Afterwards the counter of all decides alone, and owes nothing.
      assert.is_true(fleet.largestDebt({ unpack(moments, admitted + 1) }, limit) <= 101)
      assert.is_true(overUs - quickUs <= 6000000 and #requests > 0)
      for _, world in ipairs(worlds) do assert.same({}, world.errors) end
    end
  end)
end)

