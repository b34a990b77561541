-- gateway/src/stores/redis/shared-refusals.ts: plans, and limits from before an edit, share counters. A share knows which limit was used up, and
-- does not take a larger one for it.

local support = require("test.gateway.virtual.support")
local bucket, fixed, policy, with = support.bucket, support.fixed, support.policy, support.with

local function named(name, limit)
  return with(limit, { name = name })
end

local function worldOf(free, pro)
  local plans = { free = free, pro = pro }
  local world = support.world({ workers = 2, policies = { policy("a", nil, { plans = plans, planBy = "header:x-plan", defaultPlan = "free" }) } })
  world.redis.upUs, world.redis.downUs = 500, 500
  return world
end

-- So many requests of this plan, one every 3 ms. Returns how many passed.
local function send(world, plan, count)
  local requests = {}
  for i = 0, count - 1 do
    world.at(i * 3, function()
      requests[#requests + 1] = support.ask(world, "a", 1, { worker = i % 2 + 1, variables = { http_x_plan = plan }, serviceUs = 0 })[1]
    end)
  end
  world.run(count * 3 + 100)
  return world.statuses(requests)[200] or 0
end

local function takeAway(world)
  world.redis.cutOff()
  for number = 1, 2 do
    for _ = 1, 3 do
      support.ask(world, "a", 1, { worker = number, key = "another" })
    end
  end
  world.run(600)
end

local few, many = { named("daily", fixed("5/1d")) }, { named("daily", fixed("50/1d")) }

describe("while Redis is away, a client whose plan is used up", function()
  it("has the units of a larger plan to which it moves", function()
    local world = worldOf(few, many)
    assert.equal(5, send(world, "free", 60))
    takeAway(world)
    assert.equal(50, send(world, "pro", 60))
    support.assertQuiet(world)
  end)

  it("has none of a smaller plan", function()
    local world = worldOf(few, many)
    assert.equal(50, send(world, "pro", 60))
    takeAway(world)
    assert.equal(0, send(world, "free", 60))
    assert.equal(0, send(world, "pro", 60))
  end)

  it("has none of it either after a smaller plan has refused, too", function()
    local world = worldOf(few, many)
    assert.equal(50, send(world, "pro", 60))
    assert.equal(0, send(world, "free", 60))
    takeAway(world)
    assert.equal(0, send(world, "pro", 60))
  end)

  it("has the units of a larger bucket to which it moves", function()
    local world = worldOf({ named("rate", bucket("5/1h", 5)) }, { named("rate", bucket("50/1h", 50)) })
    assert.equal(5, send(world, "free", 60))
    takeAway(world)
    assert.equal(50, send(world, "pro", 60))
  end)

  it("has the units of a limit that only the other plan has, although it is called alike", function()
    local daily = named("daily", fixed("1000/1d"))
    local world = worldOf({ daily, named("burst", fixed("50/1d")) }, { daily, named("burst", bucket("50/1h", 50)) })
    assert.equal(50, send(world, "free", 60))
    takeAway(world)
    assert.equal(50, send(world, "pro", 60))
  end)

  it("has the units of its own after an edit that makes it larger", function()
    local world = support.world({ workers = 2, policies = { policy("a", fixed("5/1d")) } })
    assert.equal(5, send(world, "free", 60))
    takeAway(world)
    world.publish({ policy("a", fixed("50/1d")) })
    world.run(100)
    assert.equal(50, send(world, "free", 60))
  end)

  it("has none of its own after an edit that makes it smaller", function()
    local world = support.world({ workers = 2, policies = { policy("a", fixed("50/1d")) } })
    assert.equal(50, send(world, "free", 60))
    takeAway(world)
    world.publish({ policy("a", fixed("5/1d")) })
    world.run(100)
    assert.equal(0, send(world, "free", 60))
  end)
end)

describe("while Redis is away, a client with requests of two plans that fill in the same time", function()
  -- The shares of the smaller one are rounded down further.
  for _, sizes in ipairs({ { 3, 10, 5, 100, 50 }, { 2, 10, 5, 100, 50 }, { 4, 60, 10, 600, 100 } }) do
    local gateways, few, fewAtOnce, many, manyAtOnce = unpack(sizes)
    it(("is admitted no more than with the larger one: %d gateways, %d and %d a minute"):format(gateways, few, many), function()
      local world = worldOf({ named("rate", bucket(few .. "/1m", fewAtOnce)) }, { named("rate", bucket(many .. "/1m", manyAtOnce)) })
      world.setGateways(gateways)
      takeAway(world)
      local count, beganUs = 0, world.clock.nowUs
      while world.clock.nowUs - beganUs < 10000000 do
        for _, plan in ipairs({ "pro", "free" }) do
          local request = support.ask(world, "a", 1, { serviceUs = 0, variables = { http_x_plan = plan } })[1]
          world.run(10)
          count = count + (request.passed and 1 or 0)
        end
      end
      local most = manyAtOnce / gateways + many / gateways * 10 / 60 + 1
      assert.is_true(count <= most and count > manyAtOnce / gateways - 2, ("%d of %f"):format(count, most))
    end)
  end
end)

describe("when Redis is back, a client that went on with requests of two plans of one counter", function()
  for _, limit in ipairs({ fixed("50/1d"), bucket("50/1d", 50) }) do
    it("has what is left of the larger plan, after what it took: " .. limit.algorithm, function()
      local small = with(limit, { quota = 5, burst = limit.burst and 5 })
      local world = worldOf({ named("daily", small) }, { named("daily", limit) })
      local count = 0
      for _ = 1, 3 do
        takeAway(world)
        count = count + send(world, "pro", 6) + send(world, "free", 1)
        world.redis.go()
        world.run(3000)
      end
      assert.equal(21, count)
      -- In a bucket, a unit of the smaller plan takes the place of ten. In a window, the smaller plan has room for five units, and is charged for
      -- one: the larger plan has more than that from the first time on.
      local left = limit.algorithm == "fixed-window" and 31 or 2
      assert.equal(left, send(world, "pro", 60))
    end)
  end
end)
