-- gateway/src/stores/lease/: units that Redis debits in advance, which workers spend, wait for, exchange and return.

local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy = support.ask, support.fixed, support.bucket, support.policy

local leased = { consistency = "leased" }
local hot = bucket("400/1s", 200)

-- `perSecond` requests a second to all workers of these gateways in turn, for so many ms from now.
local function demand(worlds, name, perSecond, ms, key)
  local world = worlds[1]
  local count = math.floor(perSecond * ms / 1000)
  for i = 0, count - 1 do
    world.at(i * 1000 / perSecond, function()
      local asked = worlds[i % #worlds + 1]
      local number = math.floor(i / #worlds) % asked.workerCount + 1
      if not asked.workers[number].gone then
        ask(asked, name, 1, { worker = number, key = key, serviceUs = 0 })
      end
    end)
  end
end

local function passedAt(worlds)
  local moments = {}
  for _, world in ipairs(worlds) do
    for _, request in ipairs(world.requests) do
      if request.passed then
        moments[#moments + 1] = request.decidedUs
      end
    end
  end
  table.sort(moments)
  return moments
end

-- The largest debt of a bucket that is charged when requests pass: no more than its burst where the limit is kept.
local function largestDebt(moments, limit)
  local perUs = limit.quota / 1000000
  local debt, atUs, largest = 0, moments[1] or 0, 0
  for _, us in ipairs(moments) do
    debt = math.max(0, debt - (us - atUs) * perUs) + 1
    atUs = us
    largest = math.max(largest, debt)
  end
  return largest
end

local function leaseKeyOf(world)
  for key in pairs(world.dicts.sluice_counters.entries) do
    if key:find("^lease:") and not key:find(":", 7, true) then
      return key
    end
  end
end

-- The record of the only lease, as a worker reads it.
local function recordOf(world)
  local cells = world.workers[1].module("gateway.src.stores.lease.lease-cells")
  local record = cells.newRecord("x")
  cells.loadRecord(assert(leaseKeyOf(world), "there is no lease"), record)
  return record
end

describe("a hot key that is leased", function()
  it("costs Redis 25 calls a second at most, and admits all that its limit has", function()
    local world = support.world({ workers = 2, policies = { policy("a", hot, leased) } })
    demand({ world }, "a", 1200, 2000)
    world.run(500)
    world.redis.calls = {}
    world.run(1000)
    assert.is_true(world.redis.count("lease") <= 26, tostring(world.redis.count("lease")))
    world.run(1000)
    local moments = passedAt({ world })
    assert.is_true(largestDebt(moments, hot) <= 200)
    -- Its burst, and what refills in two seconds.
    assert.is_true(#moments >= 960 and #moments <= 1000, tostring(#moments))
    support.assertQuiet(world)
  end)

  it("is never admitted beyond its limit by several gateways, whatever their seeds", function()
    for seed = 1, 4 do
      local world = support.world({ seed = seed, workers = 2, policies = { policy("a", hot, leased) } })
      local other = support.world({ beside = world, workers = 1, policies = { policy("a", hot, leased) },
        environment = { SLUICE_GATEWAY_ID = "g2" } })
      local random = world.clock.random
      world.redis.upUs = function() return random(50, 3000) end
      world.redis.downUs = function() return random(50, 3000) end
      demand({ world, other }, "a", 1500, 1000)
      world.run(1500)
      local moments = passedAt({ world, other })
      assert.is_true(largestDebt(moments, hot) <= 200, "seed " .. seed)
      assert.is_true(#moments >= 540, #moments .. " of 600, seed " .. seed)
    end
  end)

  it("has units back that nobody needed: Redis counts what passed, and nothing else", function()
    local limit = fixed("100000/1h")
    local world = support.world({ workers = 2, policies = { policy("a", limit, leased) } })
    demand({ world }, "a", 1000, 500)
    world.run(600)
    assert.is_true(support.used(world, "a", limit) > 500, "units are out")
    world.run(400)
    assert.equal(500, #passedAt({ world }))
    assert.equal(500, support.used(world, "a", limit))
    assert.equal(0, recordOf(world).out)
  end)

  it("that is used up is refused without a call, until there is more", function()
    local limit = fixed("50/1h")
    local world = support.world({ policies = { policy("a", limit, leased) } })
    demand({ world }, "a", 1000, 300)
    world.run(400)
    assert.equal(50, #passedAt({ world }))
    world.redis.calls = {}
    demand({ world }, "a", 1000, 1000)
    world.run(1100)
    assert.equal(50, #passedAt({ world }))
    assert.is_true(world.redis.count("lease") + world.redis.count("charge_leased") <= 25)
  end)

  it("has requests wait for the answer where the units ran out sooner than expected, and no longer", function()
    local world = support.world({ policies = { policy("a", fixed("100000/1h"), leased) } })
    demand({ world }, "a", 100, 500)
    world.run(500)
    world.redis.upUs, world.redis.downUs = 10000, 10000
    local requests = ask(world, "a", 200)
    world.run(500)
    assert.same({ [200] = 200 }, world.statuses(requests))
    local longest = 0
    for _, request in ipairs(requests) do
      longest = math.max(longest, request.decidedUs - request.beganUs)
    end
    assert.is_true(longest > 5000 and longest < 250000, tostring(longest))
    support.assertQuiet(world)
  end)
end)

describe("leases, when something is lost,", function()
  local function play(seed, disturb, options)
    local world = support.world(support.with({
      seed = seed,
      workers = 2,
      policies = { policy("a", hot, support.with(leased, support.denies)) },
    }, options or {}))
    local random = world.clock.random
    world.redis.upUs = function() return random(50, 1000) end
    world.redis.downUs = function() return random(50, 1000) end
    demand({ world }, "a", 1200, 1200)
    disturb(world, random)
    world.run(1800)
    return passedAt({ world }), world
  end

  it("answers: nothing is admitted beyond the limit", function()
    for seed = 1, 4 do
      local moments, world = play(seed, function(world, random)
        world.redis.fate = function(commands)
          if commands[1][1] == "evalsha" and random() < 0.1 then
            return { loses = random() < 0.5 and "reply" or "request" }
          end
        end
      end)
      assert.is_true(largestDebt(moments, hot) <= 200, "seed " .. seed)
      assert.is_true(world.redis.lostReplies > 0)
      assert.is_true(#moments > 300, tostring(#moments))
    end
  end)

  it("a worker in the middle of an exchange: another goes on with its lease", function()
    for seed = 1, 4 do
      local killedUs
      local moments, world = play(seed, function(world, random)
        world.at(300 + random(0, 60), function()
          killedUs = world.clock.nowUs
          world.workers[1].kill()
        end)
      end)
      assert.is_true(largestDebt(moments, hot) <= 200, "seed " .. seed)
      local after = 0
      for _, us in ipairs(moments) do
        if us > killedUs + 500000 then
          after = after + 1
        end
      end
      -- 400 ms, of which requests come to the other worker.
      assert.is_true(after > 100, ("seed %d: %d"):format(seed, after))
      support.assertQuiet(world)
    end
  end)

  it("the ledger with all of Redis: no more than what was out is admitted besides", function()
    for seed = 1, 4 do
      local moments = play(seed, function(world)
        world.at(600, world.redis.flush)
      end)
      -- Its burst once more, and what was out: at most another burst.
      assert.is_true(largestDebt(moments, hot) <= 600, "seed " .. seed)
    end
  end)

  it("time of a worker: units are not spent after they have expired", function()
    for seed = 1, 4 do
      local moments = play(seed, function(world, random)
        for i = 1, 3 do
          world.at(i * 300, function()
            world.workers[random(1, 2)].block(random(100000, 400000))
          end)
        end
      end)
      assert.is_true(largestDebt(moments, hot) <= 200, "seed " .. seed)
    end
  end)
end)

describe("leases of a fixed window", function()
  it("end with it: no window admits more than its quota, whenever units were asked for", function()
    local limit = fixed("500/1s")
    for seed = 1, 4 do
      local world = support.world({ seed = seed, workers = 2, policies = { policy("a", limit, support.with(leased, support.denies)) } })
      -- Less than the limit, so that units are in hand when the window ends, and then more than it.
      world.run(180)
      demand({ world }, "a", 450, 800)
      world.run(800)
      demand({ world }, "a", 1500, 1500)
      world.run(1800)
      local windows = {}
      for _, us in ipairs(passedAt({ world })) do
        local window = math.floor(us / 1000000)
        windows[window] = (windows[window] or 0) + 1
      end
      for window, count in pairs(windows) do
        assert.is_true(count <= 500, ("seed %d, window %d: %d"):format(seed, window, count))
      end
      assert.is_true((windows[1] or 0) >= 480, tostring(windows[1]))
    end
  end)
end)

describe("workers that share a lease", function()
  it("spend no unit twice, wherever between two accesses to shared memory another has its turn", function()
    for seed = 1, 4 do
      local limit = fixed("700/1h")
      local world = support.world({
        seed = seed,
        workers = 3,
        interruptions = 0.1,
        interruptedUs = 3000,
        policies = { policy("a", limit, support.with(leased, support.denies)) },
      })
      demand({ world }, "a", 1500, 700)
      world.run(1500)
      assert.is_true(#passedAt({ world }) <= 700, ("seed %d: %d"):format(seed, #passedAt({ world })))
      assert.is_true(#passedAt({ world }) >= 600, ("seed %d: %d"):format(seed, #passedAt({ world })))
      assert.is_true(support.used(world, "a", limit) >= #passedAt({ world }), "seed " .. seed)
      support.assertQuiet(world)
    end
  end)
end)

describe("a leased policy beside another", function()
  it("has its units back when the other refuses", function()
    local both = policy("a", fixed("100000/1h"), leased)
    local small = policy("b", fixed("10/1h"))
    small.match = both.match
    local world = support.world({ policies = { both, small } })
    demand({ world }, "a", 1000, 300)
    world.run(1500)
    assert.equal(10, #passedAt({ world }))
    local counted = support.used(world, "a", fixed("100000/1h"))
    -- What Redis had been told of as spent meanwhile stays spent.
    assert.is_true(counted >= 10 and counted < 150, tostring(counted))
  end)
end)

describe("while Redis is away, a leased key", function()
  it("spends what is in hand, and its share after that, without waiting", function()
    local world = support.world({ workers = 2, policies = { policy("a", hot, leased) } })
    demand({ world }, "a", 1200, 1500)
    world.run(500)
    world.redis.cutOff()
    local awayUs = world.clock.nowUs
    world.run(1500)
    local moments = passedAt({ world })
    local longest, during = 0, 0
    for _, request in ipairs(world.requests) do
      longest = math.max(longest, request.decidedUs - request.beganUs)
      if request.passed and request.decidedUs >= awayUs then
        during = during + 1
      end
    end
    -- The bound of the docs: B + rτ, and what a share refills.
    assert.is_true(during <= 200 + 400 * 1 * 2, tostring(during))
    assert.is_true(during >= 300, tostring(during))
    assert.is_true(longest <= 250000, tostring(longest))
    assert.is_true(largestDebt(moments, hot) <= 200 + 400)
    world.redis.go()
    world.run(2000)
    support.assertQuiet(world)
  end)

  it("is decided by leases again when Redis is back", function()
    local world = support.world({ policies = { policy("a", hot, leased) } })
    demand({ world }, "a", 600, 3000)
    world.run(500)
    world.redis.kill()
    world.run(500)
    world.redis.begin(true)
    world.run(1000)
    world.redis.calls = {}
    world.run(900)
    assert.is_true(world.redis.count("lease") > 10)
    assert.equal(0, world.redis.count("charge_leased"))
  end)
end)
