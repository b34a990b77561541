-- gateway/src/stores/lease/: units that Redis debits in advance, which workers spend, wait for, exchange and return.

local fleet = require("test.gateway.virtual.fleet")
local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy = support.ask, support.fixed, support.bucket, support.policy
local demand, passedAt, largestDebt, countBetween = fleet.load, fleet.passedAt, fleet.largestDebt, fleet.countBetween

local leased = { consistency = "leased" }
-- Only leases and Redis admit.
local denying = support.with(leased, support.denies)
local hot = bucket("400/1s", 200)

local function leaseKeyOf(world)
  for key in pairs(world.dicts.sluice_counters.entries) do
    if key:find("^lease%d+:[^:]+$") then
      return key
    end
  end
end

-- The record of the only lease, as a worker reads it.
local function recordOf(world, number)
  local cells = world.workers[number or 1].module("gateway.src.stores.lease.lease-cells")
  local record = cells.newRecord("x")
  cells.loadRecord(assert(leaseKeyOf(world), "there is no lease"), record)
  return record
end

-- Units that the only lease has to spend.
local function unitsHeld(world)
  return math.max(0, world.dict("sluice_counters"):get(leaseKeyOf(world) .. ":" .. recordOf(world).name) or 0)
end

-- Lets time go on until this is so.
local function runUntil(world, isSo)
  for _ = 1, 300 do
    if isSo() then
      return
    end
    world.run(1)
  end
  error("it is not so within 300 ms")
end

-- The worker that exchanges messages for the only lease, if one does.
local function exchanging(world)
  local claim = world.dict("sluice_locks"):get(leaseKeyOf(world))
  for _, worker in ipairs(world.workers) do
    if recordOf(world).waiting == 1 and type(claim) == "string" and claim:find("^" .. worker.pid .. " ") then
      return worker
    end
  end
end

-- At least so many a second passed in the last `ms`.
local function assertRate(leastPerSecond, world, moments, ms, seed)
  local perSecond = countBetween(moments, world.clock.nowUs - ms * 1000) / ms * 1000
  assert.is_true(perSecond >= leastPerSecond, ("seed %d: %.0f a second"):format(seed, perSecond))
end

local function delaysOf(world, leastUs, mostUs)
  local random = world.clock.random
  world.redis.upUs = function() return random(leastUs, mostUs) end
  world.redis.downUs = world.redis.upUs
end

local seeds = { 1, 2 }

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

describe("gateways that saturate one limit", function()
  for _, size in ipairs({ { 2, 2 }, { 4, 1 } }) do
    local gateways, workers = unpack(size)
    it(("admit no more than a bucket, and hardly less: %d gateways of %d workers"):format(gateways, workers), function()
      local limit = bucket("400/1s", 400)
      for _, seed in ipairs(seeds) do
        local worlds = fleet.start({
          seed = seed,
          gateways = gateways,
          workers = workers,
          policies = { policy("a", limit, leased) },
        })
        local world = worlds[1]
        delaysOf(world, 50, 3000)
        local requests = demand(worlds, "a", 800, 2400)
        world.run(1400)
        world.redis.calls = {}
        world.run(1000)
        local moments = passedAt({ requests })
        assert.is_true(largestDebt(moments, limit) <= 400, "seed " .. seed)
        assertRate(0.98 * 400, world, moments, 1000, seed)
        assert.is_true(fleet.leaseCalls(world.redis) <= 25 * gateways + gateways, tostring(fleet.leaseCalls(world.redis)))
        world.run(400)
        local statuses = world.statuses(requests)
        assert.equal(1920, statuses[200] + statuses[429], "seed " .. seed)
        for _, each in ipairs(worlds) do
          support.assertQuiet(each)
        end
      end
    end)
  end

  it("admit no more than the quota in any fixed window, and hardly less", function()
    local limit = fixed("400/1s")
    for _, seed in ipairs(seeds) do
      local worlds = fleet.start({ seed = seed, gateways = 4, policies = { policy("a", limit, leased) } })
      local world = worlds[1]
      delaysOf(world, 50, 3000)
      world.run(980)
      world.redis.calls = {}
      local requests = demand(worlds, "a", 800, 2000)
      world.run(2300)
      local windows = fleet.countByWindow(passedAt({ requests }), 1000000)
      for window = 1, 2 do
        assert.is_true(windows[window] <= 400, ("seed %d: %d"):format(seed, windows[window]))
        assert.is_true(windows[window] >= 0.97 * 400, ("seed %d: %d"):format(seed, windows[window]))
      end
      assert.is_true(fleet.leaseCalls(world.redis) <= 25 * 4 * 2 + 4, tostring(fleet.leaseCalls(world.redis)))
    end
  end)

  it("have the whole limit again after one of them was killed, with units in its hands", function()
    local limit = bucket("400/1s", 400)
    for _, seed in ipairs(seeds) do
      local worlds = fleet.start({ seed = seed, gateways = 3, policies = { policy("a", limit, leased) } })
      local world = worlds[1]
      delaysOf(world, 50, 3000)
      local requests = demand(worlds, "a", 1050, 2600)
      world.run(1150 + 7 * seed)
      runUntil(world, function() return unitsHeld(worlds[2]) > 3 end)
      worlds[2].workers[1].kill()
      world.run(2620 - world.clock.nowUs / 1000)
      local moments = passedAt({ requests })
      assert.is_true(largestDebt(moments, limit) <= 400, "seed " .. seed)
      assertRate(0.97 * 400, world, moments, 1000, seed)
    end
  end)

  it("go on when a worker is killed in the middle of an exchange, and another one begins", function()
    local limit = bucket("400/1s", 400)
    for _, seed in ipairs(seeds) do
      local worlds = fleet.start({
        seed = seed,
        workers = 2,
        policies = { policy("a", limit, denying) },
        environment = { SLUICE_REDIS_DEADLINE_MS = "60" },
      })
      local world = worlds[1]
      -- An exchange takes most of the time until the next one.
      world.redis.upUs, world.redis.downUs = 12000, 13000
      local requests, kills = demand(worlds, "a", 800, 4000), 0
      for i = 1, 8 do
        world.run(200 + world.clock.random(0, 40))
        local killed = worlds[i % 2 + 1]
        runUntil(world, function() return exchanging(killed) end)
        world.run(world.clock.random(0, 20))
        local worker = exchanging(killed)
        if worker then
          kills = kills + 1
          worker.kill()
          killed.addWorker(worker.number).begin()
        end
      end
      world.run(4020 - world.clock.nowUs / 1000)
      local moments = passedAt({ requests })
      assert.is_true(kills >= 4, ("seed %d: %d"):format(seed, kills))
      assert.is_true(largestDebt(moments, limit) <= 400, "seed " .. seed)
      assertRate(0.95 * 400, world, moments, 1000, seed)
      world.run(500)
      for _, each in ipairs(worlds) do
        support.assertQuiet(each)
      end
    end
  end)

  for _, way in ipairs({ "with their connection", "silently" }) do
    it("admit nothing beyond it where replies are lost " .. way, function()
      local limit = bucket("400/1s", 400)
      for _, seed in ipairs(seeds) do
        local worlds = fleet.start({
          seed = seed,
          policies = { policy("a", limit, denying) },
          environment = { SLUICE_REDIS_DEADLINE_MS = "50" },
        })
        local world = worlds[1]
        delaysOf(world, 50, 2000)
        local loses, lost = 0, 0
        world.redis.fate = function(commands)
          if loses == 0 or commands[1][1] ~= "evalsha" then
            return nil
          end
          loses, lost = loses - 1, lost + 1
          return way == "silently" and { downUs = 100000000 } or { loses = "reply" }
        end
        local requests = demand(worlds, "a", 800, 3600)
        world.run(700)
        for i = 0, 5 do
          loses = loses + (i < 3 and 1 or 2)
          world.run(250)
        end
        world.run(1400)
        local moments = passedAt({ requests })
        assert.equal(9, lost)
        local counted = fleet.counted(worlds[1], "lease-event:lost") + fleet.counted(worlds[2], "lease-event:lost")
        assert.is_true(counted >= 9, tostring(counted))
        assert.is_true(largestDebt(moments, limit) <= 400, "seed " .. seed)
        assertRate(0.97 * 400, world, moments, 1000, seed)
      end
    end)
  end

  it("spend what they hold besides a new limit after FLUSHALL, and no more", function()
    local limit = bucket("400/1s", 400)
    for _, seed in ipairs(seeds) do
      local worlds = fleet.start({ seed = seed, policies = { policy("a", limit, leased) } })
      local world = worlds[1]
      local requests = demand(worlds, "a", 1000, 2000)
      world.run(1000 + 11 * seed)
      local held = 0
      for _, each in ipairs(worlds) do
        held = held + unitsHeld(each)
      end
      world.redis.flush()
      world.run(1000 - 11 * seed)
      local debt = largestDebt(passedAt({ requests }), limit)
      assert.is_true(debt <= 800 + held, ("seed %d: %f, held %d"):format(seed, debt, held))
      assert.is_true(debt > 600, ("seed %d: %f"):format(seed, debt))
    end
  end)
end)

describe("a leased policy", function()
  local limit = bucket("400/1s", 400)

  it("is spent from the lease while Redis is gone, then decided by onStoreFailure, and leased again afterwards", function()
    for _, seed in ipairs(seeds) do
      local world = support.world({
        seed = seed,
        policies = { policy("a", limit, denying) },
        environment = { SLUICE_REDIS_DEADLINE_MS = "50" },
      })
      demand({ world }, "a", 200, 1000)
      world.run(1000)
      local held = unitsHeld(world)
      world.redis.stop()
      local during = demand({ world }, "a", 200, 1000)
      world.run(1000)
      local statuses = world.statuses(during)
      assert.is_true(statuses[200] > 3, tostring(statuses[200]))
      -- Those of the lease, and of a grant that was under way.
      assert.is_true(statuses[200] <= held, ("seed %d: %d of %d"):format(seed, statuses[200], held))
      assert.equal(200 - statuses[200], statuses[503])
      assert.is_true(fleet.longestWaitUs(during) <= 52000, tostring(fleet.longestWaitUs(during)))
      world.redis.go()
      world.run(500)
      demand({ world }, "a", 200, 500)
      world.run(500)
      world.redis.calls = {}
      local after = demand({ world }, "a", 200, 500)
      world.run(510)
      assert.same({ [200] = 100 }, world.statuses(after))
      assert.equal(0, world.redis.count("charge_leased"))
      support.assertQuiet(world)
    end
  end)

  it("waits one deadline at most while Redis hangs", function()
    for _, seed in ipairs(seeds) do
      local world = support.world({ seed = seed, workers = 2, policies = { policy("a", limit, denying) },
        environment = { SLUICE_REDIS_DEADLINE_MS = "400" } })
      demand({ world }, "a", 300, 700)
      world.run(700)
      world.redis.stop()
      local during = demand({ world }, "a", 300, 1200)
      world.run(1700)
      assert.is_true(world.statuses(during)[503] > 100)
      assert.is_true(fleet.longestWaitUs(during) >= 300000, tostring(fleet.longestWaitUs(during)))
      assert.is_true(fleet.longestWaitUs(during) <= 402000, tostring(fleet.longestWaitUs(during)))
    end
  end)

  it("does not wait where Redis refuses connections", function()
    for _, seed in ipairs(seeds) do
      local world = support.world({ seed = seed, policies = { policy("a", limit, denying) },
        environment = { SLUICE_REDIS_DEADLINE_MS = "1000" } })
      for round = 0, 3 do
        demand({ world }, "a", 600, 600)
        world.run(600)
        -- What was left of the lease has been returned, and the gateway needs Redis for more.
        world.run(210 + round * 5)
        world.redis.kill()
        local during = demand({ world }, "a", 100, 500)
        world.run(500)
        assert.is_true(world.statuses(during)[503] > 20)
        assert.is_true(fleet.longestWaitUs(during) <= 50000, tostring(fleet.longestWaitUs(during)))
        world.redis.begin(true)
      end
    end
  end)

  it("is charged once for a request that goes on although Redis does not decide another policy of it", function()
    local year = fixed("100/366d")
    local decided = policy("decided", year, support.with(leased, { onStoreFailure = "allow" }))
    local undecided = policy("undecided", year, support.with(leased, { onStoreFailure = "allow", priority = -1 }))
    undecided.match = decided.match
    local world = support.world({ policies = { decided, undecided } })
    world.redis.error = function(words)
      for _, word in ipairs(words) do
        if word:find("{shop:undecided:", 1, true) then
          return "NOPERM No permissions to access a key"
        end
      end
    end
    for i = 1, 3 do
      ask(world, "decided")
      world.run(300)
      assert.equal(200, world.requests[i].status)
    end
    world.redis.error = nil
    assert.equal(3, support.used(world, "decided", year))
    assert.equal(0, support.used(world, "undecided", year))
  end)

  it("returns idle units, and accounts for every unit", function()
    for _, seed in ipairs(seeds) do
      local world = support.world({ seed = seed, workers = 2, policies = { policy("a", limit, leased) } })
      delaysOf(world, 50, 3000)
      local requests = demand({ world }, "a", 300, 1500)
      world.run(2500)
      local units = fleet.leaseUnits(world)
      assert.equal(0, recordOf(world).out)
      assert.equal(units.granted, units.spent + units.returned + units.expired)
      assert.is_true(units.returned > 0)
      -- The first requests were decided one by one. None of two workers lost a unit to the other.
      local exactly = world.redis.count("charge_leased")
      assert.equal(450, world.statuses(requests)[200])
      assert.equal(450, units.admitted + exactly, "seed " .. seed)
      assert.equal(units.admitted, units.spent, "seed " .. seed)
    end
  end)

  it("gets back the units of requests that another policy refused", function()
    local few = policy("few", fixed("3/366d"))
    few.match = { paths = { "/a" } }
    local world = support.world({ policies = { policy("a", limit, leased), few } })
    local requests = demand({ world }, "a", 300, 1000)
    world.run(1800)
    assert.equal(3, world.statuses(requests)[200])
    assert.is_true(fleet.leaseUnits(world).spent < 50, tostring(fleet.leaseUnits(world).spent))
  end)

  it("reports what remains, and when to come again", function()
    local all = fixed("200/366d")
    local world = support.world({ policies = { policy("a", all, leased) } })
    for i = 1, 210 do
      local request = ask(world, "a")[1]
      world.run(1.5)
      assert.equal(tostring(math.max(200 - i, 0)), request.headers["X-RateLimit-Remaining"], "request " .. i)
      assert.equal(i <= 200 and 200 or 429, request.status, "request " .. i)
    end
    world.run(100)
    assert.is_true(fleet.leaseUnits(world).granted > 0)
    local headers = ask(world, "a")[1].headers
    world.run(100)
    assert.equal("200", headers["X-RateLimit-Limit"])
    assert.is_true(tonumber(headers["Retry-After"]) >= 1)
    assert.is_true(math.abs(tonumber(headers["Retry-After"]) - tonumber(headers["X-RateLimit-Reset"])) <= 1)
  end)

  it("asks again within two seconds after a refusal until the window's end, because units may be there again", function()
    local all = fixed("200/366d")
    local world = support.world({ policies = { policy("a", all, leased) } })
    local requests = demand({ world }, "a", 400, 1000)
    world.run(1000)
    assert.equal(200, world.statuses(requests)[200])
    local refused = ask(world, "a")[1]
    assert.is_true(tonumber(refused.headers["Retry-After"]) > 3600, refused.headers["Retry-After"])
    world.redis.calls = {}
    demand({ world }, "a", 100, 3000)
    world.run(3000)
    assert.is_true(fleet.leaseCalls(world.redis) <= 4, tostring(fleet.leaseCalls(world.redis)))
    world.redis.flush()
    local after = demand({ world }, "a", 100, 3000)
    world.run(3000)
    assert.equal(200, world.statuses(after)[200])
    assert.is_true(fleet.countBetween(passedAt({ after }), after[1].beganUs, after[1].beganUs + 2100000) > 0)
  end)

  it("is exact if it cannot be leased, or if a request costs more than a lease brings", function()
    local log = { algorithm = "sliding-log", quota = 20, window = "1h" }
    for _, seed in ipairs(seeds) do
      local worlds = fleet.start({ seed = seed, policies = {
        policy("a", log, leased),
        policy("dear", bucket("1/1h", 1000), support.with(leased, { cost = 100 })),
      } })
      local few, dear = demand(worlds, "a", 100, 2000), demand(worlds, "dear", 16, 2000)
      worlds[1].run(2100)
      assert.same({ [200] = 20, [429] = 180 }, worlds[1].statuses(few))
      assert.same({ [200] = 10, [429] = 22 }, worlds[1].statuses(dear))
    end
  end)
end)

describe("an idle gateway returns the units that it holds", function()
  -- What a control plane does for an operator: the counter goes, and each gateway forgets what it keeps about it.
  local function reset(worlds, name)
    for key in pairs(worlds[1].redis.keys) do
      if key:find("{shop:" .. name .. ":", 1, true) then
        worlds[1].redis.keys[key] = nil
      end
    end
    for _, world in ipairs(worlds) do
      local worker = world.workers[1]
      worker.call(function()
        local orders = worker.module("gateway.src.push.counter-orders")
        orders.obey({ type = "counter", id = 1, ["do"] = "forget", app = "shop", policy = name, key = { "k" } })
      end)
    end
    worlds[1].run(20)
  end

  it("after a reset by hand, and takes nothing from the others", function()
    for _, seed in ipairs(seeds) do
      local worlds = fleet.start({ seed = seed, policies = { policy("a", fixed("300/366d"), leased) } })
      local idle, busy = unpack(worlds)
      for round = 1, 3 do
        demand({ idle }, "a", 1500, 500)
        idle.run(500)
        reset(worlds, "a")
        local requests = demand({ busy }, "a", 1000, 1000)
        busy.run(1000)
        local count = busy.statuses(requests)[200]
        assert.is_true(count > 270 and count <= 300, ("seed %d, round %d: %d"):format(seed, round, count))
        reset(worlds, "a")
      end
      assert.equal(0, fleet.leaseUnits(idle).expired)
    end
  end)

  it("though its policy was edited, with the same limits", function()
    local limit = bucket("400/1s", 400)
    local world = support.world({ policies = { policy("a", limit, leased) } })
    for round = 0, 3 do
      demand({ world }, "a", 300, 500)
      world.run(500)
      world.publish({ policy("a", limit, support.with(leased, { onLimit = { action = "reject", status = 430 + round } })) })
      world.run(15)
      ask(world, "a")
      world.run(500)
    end
    local units = fleet.leaseUnits(world)
    assert.equal(0, units.expired)
    assert.is_true(units.returned > 20, tostring(units.returned))
  end)
end)

describe("leases, when something is lost,", function()
  local function play(seed, disturb, options)
    local world = support.world(support.with({
      seed = seed,
      workers = 2,
      policies = { policy("a", hot, denying) },
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
      local world = support.world({ seed = seed, workers = 2, policies = { policy("a", limit, denying) } })
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
        policies = { policy("a", limit, denying) },
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
  local total = fixed("100000/1h")

  it("spends nothing where the other is known to refuse", function()
    local both = policy("a", total, leased)
    local small = policy("b", fixed("10/1h"))
    small.match = both.match
    local world = support.world({ policies = { both, small } })
    demand({ world }, "a", 1000, 300)
    world.run(1500)
    assert.equal(10, #passedAt({ world }))
    assert.equal(10, support.used(world, "a", total))
    assert.is_true(fleet.leaseUnits(world).granted < 100, tostring(fleet.leaseUnits(world).granted))
    support.assertQuiet(world)
  end)

  -- Every second request meets the other policy, whose only slot is taken: it is refused, and no refusal by slots is remembered.
  local function withSlots(options)
    local slots = policy("b", { algorithm = "concurrency", quota = 1, ttl = "1m" }, { key = { "header:x-slot" } })
    slots.match = { paths = { "/a" } }
    local world = support.world(support.with({ workers = 3, policies = { policy("a", total, leased), slots } }, options))
    support.ask(world, "a", 1, { variables = { http_x_slot = "s" }, serviceUs = 3000000 })
    world.run(10)
    return world
  end

  it("has all units back of requests that the other refuses, whatever Redis was told meanwhile", function()
    for seed = 1, 3 do
      local world = withSlots({ seed = seed })
      delaysOf(world, 50, 3000)
      demand({ world }, "a", 600, 1200)
      local refused = demand({ world }, "a", 900, 1200, { variables = { http_x_slot = "s" } })
      world.run(2000)
      assert.same({ [429] = 1080 }, world.statuses(refused))
      assert.equal(721, #passedAt({ world }))
      assert.equal(721, support.used(world, "a", total), "seed " .. seed)
      assert.equal(0, recordOf(world).out)
      -- Metrics are flushed.
      world.run(3000)
      local units = fleet.leaseUnits(world)
      assert.equal(0, units.expired)
      assert.equal(units.granted, units.spent + units.returned)
      assert.equal(units.admitted, units.spent)
      support.assertQuiet(world)
    end
  end)

  it("leaves all of a shared limit to other gateways, however many requests its clients' own slots refuse here", function()
    local shared = policy("a", bucket("60/1s", 40), leased)
    shared.key = { "const:all" }
    shared.match = { paths = { "/a", "/h" } }
    local own = policy("b", { algorithm = "concurrency", quota = 1, ttl = "60s" })
    own.match = { paths = { "/a" } }
    local worlds = fleet.start({ policies = { shared, own } })
    local world = worlds[1]
    world.redis.upUs, world.redis.downUs = 10000, 10000
    local holder = support.ask(world, "a", 1, { serviceUs = 60000000 })
    world.run(600)
    local refused = demand({ world }, "a", 2000, 3000)
    local honest = demand({ worlds[2] }, "h", 10, 3000)
    world.run(3500)
    assert.same({ [200] = 1 }, world.statuses(holder))
    assert.same({ [429] = 6000 }, world.statuses(refused))
    assert.same({ [200] = 30 }, world.statuses(honest))
    assert.equal(0, fleet.leaseUnits(world).granted)
  end)

  it("does not keep Redis from being asked again about the other, whose refusal is remembered for ten seconds", function()
    local a, b = policy("a", bucket("100000/1s", 100000), leased), policy("b", fixed("3/1h"))
    a.match, b.match = { paths = { "/a" } }, { paths = { "/a" } }
    a.key = { "const:all" }
    local world = support.world({ policies = { a, b } })
    local others = 0
    -- Other keys keep the lease in use. Returns how often Redis is asked about the key in so many seconds.
    local function askedIn(seconds)
      world.redis.calls = {}
      for _ = 1, seconds * 50 do
        support.ask(world, "a", 1)
        for _ = 1, 4 do
          others = others + 1
          support.ask(world, "a", 1, { key = "other" .. others })
        end
        world.run(20)
      end
      local count = 0
      for _, call in ipairs(world.redis.calls) do
        for _, key in ipairs(call.keys or {}) do
          count = count + (key:find("1:k}", 1, true) and 1 or 0)
        end
      end
      return count
    end
    askedIn(1)
    assert.same({ 1, 1 }, { askedIn(10), askedIn(10) })
  end)

  it("leases nothing for requests that the other refuses, although each finds no units in the lease", function()
    local world = withSlots()
    demand({ world }, "a", 900, 2000, { variables = { http_x_slot = "s" } })
    local most = 0
    for _ = 1, 200 do
      world.run(10)
      most = math.max(most, leaseKeyOf(world) and unitsHeld(world) or 0)
    end
    world.run(3000)
    local units = fleet.leaseUnits(world)
    assert.same({ 0, 0 }, { most, units.granted })
    assert.equal(1, support.used(world, "a", total))
  end)

  it("gives no unit twice, wherever between two accesses to shared memory another has its turn", function()
    for seed = 1, 4 do
      local world = withSlots({ seed = seed, interruptions = 0.1, interruptedUs = 3000 })
      demand({ world }, "a", 600, 700)
      demand({ world }, "a", 900, 700, { variables = { http_x_slot = "s" } })
      world.run(3500)
      local passed, used = #passedAt({ world }), support.used(world, "a", total)
      assert.is_true(used >= passed, ("seed %d: %d of %d"):format(seed, passed, used))
      assert.is_true(used <= passed + 20, ("seed %d: %d of %d"):format(seed, passed, used))
      support.assertQuiet(world)
    end
  end)

  it("has units back of clients that leave while they wait for the other, long after they were spent", function()
    local patient = policy("b", bucket("10/1s", 10), { key = { "header:x-user" }, onLimit = { action = "delay", maxDelay = "10s" } })
    patient.match = { paths = { "/a" } }
    patient.priority = 1
    local first = policy("a", total, support.with(leased, { onLimit = { action = "delay", maxDelay = "1s" }, priority = 5 }))
    local world = support.world({ workers = 2, policies = { first, patient } })
    demand({ world }, "a", 600, 1200)
    world.run(300)
    local waiting = demand({ world }, "a", 100, 300, { variables = { http_x_user = "u" } })
    world.run(700)
    local left = 0
    for _, request in ipairs(waiting) do
      if not request.decidedUs then
        left = left + 1
        request.abort()
      end
    end
    assert.is_true(left > 10, tostring(left))
    world.run(1200)
    assert.equal(720 + 30 - left, #passedAt({ world }))
    assert.equal(#passedAt({ world }), support.used(world, "a", total))
    support.assertQuiet(world)
  end)
end)

describe("no unit stays undecided", function()
  -- A number of the lease's term for each gateway: what is undecided there.
  local function undecided(world)
    local units = {}
    for key, entry in pairs(world.dicts.sluice_counters.entries) do
      if key:find(":undecided", 1, true) then
        units[#units + 1] = world.dict("sluice_counters"):get(key)
      end
    end
    return units
  end

  local total = fixed("100000/1h")
  local other = policy("b", total, { match = { paths = { "/a" } } })
  for name, case in pairs({
    ["of a policy alone"] = { fields = {} },
    ["of a policy beside another"] = { fields = {}, other = other },
    ["of a policy in shadow mode"] = { fields = { mode = "shadow" }, other = other },
    ["of a policy that tags"] = { fields = { onLimit = { action = "tag", header = "x-mark: over" } }, other = other },
    ["of a policy that delays"] = { fields = { onLimit = { action = "delay", maxDelay = "1s" } }, other = other },
    ["while Redis is away"] = { fields = {}, other = other, isAway = true },
  }) do
    it(name, function()
      local policies = { policy("a", total, support.with(leased, case.fields)), case.other }
      local world = support.world({ workers = 2, policies = policies })
      demand({ world }, "a", 1000, 600)
      world.run(500)
      if case.isAway then
        world.redis.cutOff()
      end
      world.run(case.isAway and 1000 or 150)
      local units = undecided(world)
      assert.is_true(case.isAway or #units > 0)
      for _, each in ipairs(units) do
        assert.equal(0, each)
      end
      -- A leased key's share begins without units.
      assert.is_true(case.isAway or #passedAt({ world }) == 600)
      support.assertQuiet(world)
    end)
  end

  for _, mode in ipairs({ "all", "each" }) do
    it("of checks, in the mode " .. mode, function()
      local world = support.world({ policies = { policy("a", total, leased), policy("b", fixed("100/1h")) } })
      local worker = world.workers[1]
      local decide = worker.module("gateway.src.check-api.decide").decideRequestedChecks
      local policies = worker.module("gateway.src.snapshot.current").policiesOf("shop")
      local function of(each)
        return { policy = each, applied = each, values = { "k" }, keyValues = "1:k", cost = 1, isPeek = false, maxWaitUs = 0, holds = false }
      end
      local allowed = 0
      for i = 1, 600 do
        world.at(i, function()
          worker.call(function()
            local outcomes = decide({ allowedSeries = "x", refusedSeries = "y" }, { of(policies.a), of(policies.b) }, {}, mode)
            allowed = allowed + (outcomes[1].allowed and 1 or 0)
          end)
        end)
      end
      world.run(620)
      local units = undecided(world)
      assert.equal(1, #units)
      assert.equal(0, units[1])
      -- Requests that the other refuses are no demand, so one may come when five messages were sent in a row.
      assert.is_true(allowed >= 598, tostring(allowed))
      world.run(1000)
      assert.equal(mode == "all" and 100 or 600, support.used(world, "a", total))
      assert.same({}, world.errors)
    end)
  end
end)

describe("a request that states a cost that its limit does not have any more", function()
  local total = fixed("10000/1h")
  local priced = support.with(leased, { cost = { from = "header:x-cost", max = 10000 } })

  for _, cost in ipairs({ "10000", "6000" }) do
    it(("is no demand: its gateway leases nothing for requests of %s units that are refused"):format(cost), function()
      local worlds = fleet.start({ policies = { policy("a", total, priced) } })
      local world = worlds[1]
      local dear = support.ask(worlds[2], "a", 1, { variables = { http_x_cost = "5000" } })
      world.run(20)
      assert.same({ [200] = 1 }, world.statuses(dear))
      local refused = demand({ worlds[1] }, "a", 1000, 2000, { variables = { http_x_cost = cost } })
      local honest = demand({ worlds[2] }, "a", 100, 2000)
      world.run(2500)
      assert.same({ [429] = 2000 }, world.statuses(refused))
      assert.same({ [200] = 200 }, world.statuses(honest))
      assert.equal(5200, support.used(world, "a", total))
      world.run(3000)
      assert.equal(0, fleet.leaseUnits(worlds[1]).granted)
    end)
  end

  it("is no demand where as much was admitted before: what the lease has left goes back to the others", function()
    local worlds = fleet.start({ policies = { policy("a", total, priced) } })
    local world = worlds[1]
    local dear = { variables = { http_x_cost = "4000" } }
    support.ask(worlds[1], "a", 2, dear)
    local refused = demand({ worlds[1] }, "a", 100, 10000, dear)
    local honest = demand({ worlds[2] }, "a", 10, 10000)
    world.run(10500)
    assert.same({ [429] = 1000 }, world.statuses(refused))
    local passed = world.statuses(honest)[200]
    -- Those are missing that came while the gateway took the flood for demand, or within two seconds of a refusal then.
    assert.is_true(passed >= 75, tostring(passed))
    assert.equal(8000 + passed, support.used(world, "a", total))
  end)

  it("is no demand either beside others that the lease pays", function()
    local worlds = fleet.start({ policies = { policy("a", total, priced) } })
    local world = worlds[1]
    local honest = demand(worlds, "a", 400, 2000)
    local refused = demand({ worlds[1] }, "a", 1000, 2000, { variables = { http_x_cost = "10000" } })
    world.run(1500)
    assert.is_true(unitsHeld(worlds[1]) < 100, tostring(unitsHeld(worlds[1])))
    world.run(1000)
    assert.same({ [429] = 2000 }, world.statuses(refused))
    assert.same({ [200] = 800 }, world.statuses(honest))
    assert.equal(800, support.used(world, "a", total))
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

  for _, limit in ipairs({ fixed("100/1d"), bucket("100/1d", 100) }) do
    it("has a whole share where only a dear request was refused before: " .. limit.algorithm, function()
      local worlds = fleet.start({ policies = { policy("a", limit, support.with(leased, { cost = { from = "header:x-cost", max = 100 } })) } })
      local world = worlds[1]
      local function ask(cost)
        local request = support.ask(world, "a", 1, { variables = { http_x_cost = tostring(cost) } })[1]
        world.run(300)
        return request.status
      end
      assert.same({ 200, 429, 200 }, { ask(60), ask(60), ask(1) })
      world.redis.stop()
      for i = 1, 20 do
        assert.equal(200, ask(1), "request " .. i)
      end
    end)
  end

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
