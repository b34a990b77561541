-- gateway/src/stores/share/ and limiter/src/algorithms/share.ts: while Redis does not decide, a gateway limits by its share, which
-- does not begin anew with units that the gateway knows to be in use.

local fleet = require("test.gateway.virtual.fleet")
local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy = support.ask, support.fixed, support.bucket, support.policy
local load, passedAt, countBetween = fleet.load, fleet.passedAt, fleet.countBetween

-- A share that began anew would admit one more second's worth.
local perSecond, burst = 200, 200
local limit = bucket("200/1s", 200)
local seeds = { 1, 2 }

local function worldWith(consistency, seed, limits, more)
  local policies = { policy("a", limits, { consistency = consistency }) }
  return support.world(support.with({ seed = seed, workers = 2, policies = policies }, more or {}))
end

-- Clients come so often that the limit is used up at any time.
local function saturate(world, ms)
  return load({ world }, "a", 500, ms)
end

local function passed(world, requests)
  return world.statuses(requests)[200] or 0
end

for _, consistency in ipairs({ "exact", "leased" }) do
  describe("with a bucket that Redis has just emptied, consistency " .. consistency .. ",", function()
    it("a share admits what refills since Redis last replied", function()
      for _, seed in ipairs(seeds) do
        local world = worldWith(consistency, seed, limit)
        local requests = saturate(world, 2500)
        world.run(1000 + 13 * seed)
        world.redis.stop()
        local awayUs = world.clock.nowUs
        world.run(1500)
        local moments = passedAt({ requests })
        local debt = fleet.largestDebt(moments, limit)
        assert.is_true(debt <= burst + 1, ("seed %d: %f"):format(seed, debt))
        local during = countBetween(moments, awayUs + 300000, awayUs + 1300000)
        assert.is_true(during >= 0.98 * perSecond and during <= 1.02 * perSecond, ("seed %d: %d"):format(seed, during))
      end
    end)

    it("ten outages in a row admit no more than one bucket, because Redis is told what passed", function()
      for _, seed in ipairs(seeds) do
        local world = worldWith(consistency, seed, limit)
        local requests = saturate(world, 6000)
        world.run(900 + 13 * seed)
        for _ = 1, 10 do
          world.redis.stop()
          world.run(200)
          world.redis.go()
          -- By then a probe has been answered.
          world.run(300)
        end
        world.run(100)
        local debt = fleet.largestDebt(passedAt({ requests }), limit)
        -- What refills during all of them would be 1,000 more.
        assert.is_true(debt <= burst + 10, ("seed %d: %f"):format(seed, debt))
      end
    end)
  end)

  it("a used-up fixed window leaves nothing to the share: " .. consistency, function()
    for _, seed in ipairs(seeds) do
      local world = worldWith(consistency, seed, fixed("50/366d"))
      local before = load({ world }, "a", 200, 1000)
      world.run(1000)
      assert.equal(50, passed(world, before))
      world.redis.stop()
      local during = load({ world }, "a", 200, 3000)
      world.run(3300)
      assert.same({ [429] = 600 }, world.statuses(during))
    end
  end)

  it("a fixed window that ends during the outage refills: " .. consistency, function()
    for _, seed in ipairs(seeds) do
      local world = worldWith(consistency, seed, fixed("400/4s"))
      -- The load starts 1.5 s before the window's end, and uses the window up within 1.1 s.
      world.run(2500 - world.clock.nowUs / 1000)
      local requests = saturate(world, 3000)
      world.run(1100)
      assert.equal(400, passed(world, requests))
      world.redis.stop()
      local awayUs = world.clock.nowUs
      world.run(2200)
      local moments = passedAt({ requests })
      assert.equal(0, countBetween(moments, awayUs, 4000000))
      -- The share of a window is a bucket that refills by 100 a second since the window's end.
      local during = countBetween(moments, awayUs)
      assert.is_true(during >= 140 and during <= 151, ("seed %d: %d"):format(seed, during))
    end
  end)
end

it("a key that the gateway knows nothing about has its whole share", function()
  local world = worldWith("exact", 1, limit)
  saturate(world, 1000)
  world.run(1000)
  world.redis.stop()
  ask(world, "a", 2, { worker = 0 })
  world.run(250)
  local cold = ask(world, "a", 500, { key = "cold", worker = 0 })
  world.run(250)
  assert.same({ [200] = 200, [429] = 300 }, world.statuses(cold))
end)

it("what Redis refused right after the start is still known when it goes away", function()
  local world = worldWith("exact", 1, bucket("10/366d", 10), { workers = 1 })
  for i = 1, 13 do
    local request = ask(world, "a")[1]
    world.run(2)
    assert.equal(i <= 10 and 200 or 429, request.status)
  end
  -- This is longer than a worker takes until it first checks whether Redis is another one.
  world.run(3000)
  world.redis.kill()
  for _ = 1, 3 do
    local request = ask(world, "a")[1]
    world.run(2)
    assert.equal(429, request.status)
  end
end)

it("a limit that did not refuse does not count as used up because another one refused", function()
  for _, seed in ipairs(seeds) do
    local daily = support.with(fixed("1000/366d"), { name = "daily" })
    local world = worldWith("exact", seed, daily)
    world.publish({ policy("a", daily, { limits = { support.with(bucket("20/1s", 20), { name = "burst" }), daily } }) })
    world.run(20)
    local before = load({ world }, "a", 100, 1000)
    world.run(1000)
    assert.is_true(world.statuses(before)[429] > 0)
    world.redis.stop()
    local during = load({ world }, "a", 100, 2000)
    world.run(2300)
    local count = passed(world, during)
    assert.is_true(count >= 38 and count <= 2 * 20 + 1, ("seed %d: %d"):format(seed, count))
  end
end)

describe("a gateway that starts while control plane and Redis are down", function()
  local function directory()
    local path = os.tmpname()
    os.remove(path)
    assert(os.execute("mkdir " .. path))
    return path .. "/"
  end

  -- What a request is told of its limit by a gateway that starts with this directory.
  local function limitReported(path)
    local world = support.world({
      policies = { policy("a", bucket("10/366d", 10)) },
      environment = { SLUICE_GATEWAY_DIR = path },
    })
    world.redis.kill()
    ask(world, "a", 5)
    world.run(300)
    local request = ask(world, "a")[1]
    world.run(10)
    return request.headers["X-RateLimit-Limit"], world
  end

  it("has its share and not the whole, by the number of gateways that it was last told", function()
    local path = directory()
    local limited, world = limitReported(path)
    assert.equal("10", limited)
    assert.same({}, world.logged("live-gateways"))
    local worker = world.workers[1]
    worker.call(function()
      worker.module("gateway.src.snapshot.live-gateways").keepLiveGateways(path, 2)
    end)
    world.run(10)
    limited, world = limitReported(path)
    assert.equal("5", limited)
    assert.same({}, world.logged("live-gateways is damaged"))
    local file = assert(io.open(path .. "live-gateways", "w"))
    file:write("0\n")
    file:close()
    limited, world = limitReported(path)
    assert.equal("10", limited)
    assert.equal(1, #world.logged("live-gateways is damaged"))
    os.execute("rm -r " .. path)
  end)
end)

describe("a share whose requests have several costs", function()
  -- One gateway of ten: its share is 100 units a minute, with room for one request of 100.
  for _, cost in ipairs({ { from = "header:x-cost", default = 1, max = 100 }, { from = "request-bytes", max = 100 } }) do
    it("admits no more than with the largest of them: " .. cost.from, function()
      local world = support.world({ policies = { policy("a", support.with(bucket("1000/1m", 100), {}), { cost = cost }) } })
      world.setGateways(10)
      world.redis.kill()
      ask(world, "a", 4, { key = "another" })
      world.run(300)
      local units, beganUs = 0, world.clock.nowUs
      while world.clock.nowUs - beganUs < 180000000 do
        for _, size in ipairs({ 100, 1 }) do
          local variables = { http_x_cost = tostring(size), content_length = tostring(size) }
          local request = ask(world, "a", 1, { serviceUs = 0, variables = variables })[1]
          world.run(375)
          units = units + (request.passed and size or 0)
        end
      end
      assert.is_true(units >= 250 and units <= 400, tostring(units))
    end)
  end
end)
