-- gateway/src/stores/redis/batcher.ts, submit.ts and reconcile.ts: who asks Redis together with whom, who is released when, and
-- what becomes of replies that nobody waited for.

local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy, used = support.ask, support.fixed, support.bucket, support.policy, support.used

local denies = support.denies
local day = fixed("1000/1d")
local deadlineUs = 200000

-- The largest number of requests to Redis that were under way at the same time, from now on.
local function watchPackets(world)
  local seen = { underWay = 0, most = 0, packets = 0 }
  world.redis.fate = function(commands)
    if commands[1][1] ~= "evalsha" then
      return nil
    end
    seen.packets = seen.packets + 1
    seen.underWay = seen.underWay + 1
    seen.most = math.max(seen.most, seen.underWay)
    world.clock.at(world.clock.nowUs + world.redis.upUs + world.redis.downUs, function()
      seen.underWay = seen.underWay - 1
    end)
  end
  return seen
end

local function batcherOf(world, name)
  return world.workers[1].inner("gateway.src.stores.redis.batcher", name)
end

describe("requests that come together", function()
  it("ask by one call, but for the first, which asks by itself", function()
    local world = support.world({ policies = { policy("a", day) } })
    ask(world, "a", 100)
    world.run(10)
    assert.same({ [200] = 100 }, world.statuses())
    local counters = {}
    for _, call in ipairs(world.redis.calls) do
      counters[#counters + 1] = #call.keys
    end
    table.sort(counters)
    assert.same({ 1, 99 }, counters)
    support.assertQuiet(world)
  end)

  for _, algorithm in ipairs({ "token-bucket", "fixed-window", "sliding-window", "sliding-log" }) do
    it("are decided exactly: " .. algorithm, function()
      local limit = { algorithm = algorithm, quota = 50, window = "1h" }
      local world = support.world({ policies = { policy("a", limit) }, workers = 2 })
      ask(world, "a", 500, { worker = 0 })
      world.run(50)
      assert.same({ [200] = 50, [429] = 450 }, world.statuses())
      assert.is_true(world.redis.count() < 12, "few calls: " .. world.redis.count())
    end)
  end

  it("of several policies share the round trip, each with its own limit and cost", function()
    local dear = policy("b", fixed("10/1d"), { cost = 3 })
    local both = policy("c", fixed("7/1d"))
    both.limits[2] = fixed("4/1h")
    both.limits[1].name, both.limits[2].name = "many", "few"
    local world = support.world({ policies = { policy("a", fixed("5/1d")), dear, both } })
    local seen = watchPackets(world)
    local requests = { a = ask(world, "a", 10), b = ask(world, "b", 10), c = ask(world, "c", 10) }
    world.run(10)
    assert.same({ [200] = 5, [429] = 5 }, world.statuses(requests.a))
    assert.same({ [200] = 3, [429] = 7 }, world.statuses(requests.b))
    assert.same({ [200] = 4, [429] = 6 }, world.statuses(requests.c))
    assert.is_true(seen.packets <= 3)
  end)

  it("are 256 counters a batch at most", function()
    local world = support.world({ policies = { policy("a", fixed("100000/1d")) } })
    ask(world, "a", 1000)
    world.run(50)
    local most = 0
    for _, call in ipairs(world.redis.calls) do
      most = math.max(most, #call.keys)
    end
    assert.equal(256, most)
    assert.same({ [200] = 1000 }, world.statuses())
  end)

  it("wait in 32 batches at most, and more is not decided by Redis", function()
    local world = support.world({ policies = { policy("a", fixed("100000/1d"), denies) } })
    world.redis.downUs = 50000
    local requests = ask(world, "a", 1 + 32 * 256 + 100)
    world.run(1)
    assert.equal(100, world.statuses(requests)[503])
    world.run(3000)
    assert.equal(100, world.statuses(requests)[503])
    assert.equal(1 + 32 * 256, world.statuses(requests)[200])
  end)

  it("have no thread that lives longer than somebody asks", function()
    local world = support.world({ policies = { policy("a", day) } })
    ask(world, "a", 10)
    world.run(10)
    assert.equal(1, batcherOf(world, "threads"))
    world.run(60)
    assert.equal(0, batcherOf(world, "threads"))
    assert.equal(0, world.waitingAtSemaphores())
    ask(world, "a", 10)
    world.run(100)
    assert.same({ [200] = 20 }, world.statuses())
  end)
end)

describe("a Redis that takes long", function()
  it("has four batches under way at most, and nobody waits for others' replies as well", function()
    local world = support.world({ policies = { policy("a", fixed("100000/1d"), denies) } })
    world.redis.upUs, world.redis.downUs = 60000, 60000
    local seen = watchPackets(world)
    for i = 0, 999 do
      world.at(i * 2, function()
        ask(world, "a")
      end)
    end
    world.run(2500)
    assert.same({ [200] = 1000 }, world.statuses())
    assert.is_true(seen.most > 1 and seen.most <= 5, "under way: " .. seen.most)
    for _, request in ipairs(world.requests) do
      -- Its own round trip, and at most one until a thread is there for it.
      assert.is_true(request.decidedUs - request.beganUs <= 241000, tostring(request.decidedUs - request.beganUs))
    end
    assert.equal(1000, used(world, "a", fixed("100000/1d")))
    support.assertQuiet(world)
  end)

  it("decides all the same where replies take just less than a deadline", function()
    local world = support.world({ policies = { policy("a", fixed("100000/1d"), denies) } })
    world.redis.upUs, world.redis.downUs = 85000, 85000
    for i = 0, 199 do
      world.at(i * 10, function()
        ask(world, "a")
      end)
    end
    world.run(3000)
    assert.same({ [200] = 200 }, world.statuses())
    assert.equal(200, used(world, "a", fixed("100000/1d")))
  end)

  -- A request that waits no longer than 50 ms, begun at this moment after the patience clock began to go.
  local function hurriedAt(us)
    local hurried = policy("a", fixed("100000/1d"), support.with(denies, { maxStoreWait = "50ms" }))
    local world = support.world({ policies = { hurried } })
    world.redis.downUs = 120000
    ask(world, "a", 10, { key = "other" })
    world.run(us / 1000)
    local requests = ask(world, "a", 20)
    world.run(1500)
    return world, requests
  end

  it("has what it charged too late refunded where a policy waits no longer", function()
    local world, requests = hurriedAt(0)
    assert.same({ [503] = 20 }, world.statuses(requests))
    for _, request in ipairs(requests) do
      assert.is_true(request.decidedUs - request.beganUs <= 60000, tostring(request.decidedUs - request.beganUs))
    end
    assert.equal(0, used(world, "a", fixed("100000/1d")))
    support.assertQuiet(world)
  end)

  -- A wait for less than a ms ends at once in nginx, and without yielding. The patience clock would stand still then, and the worker would
  -- do nothing else until five times the limit had passed by the stopwatch.
  local function requestsThatSpin()
    local spun, longestUs = 0, 0
    for us = 0, 9900, 300 do
      local world, requests = hurriedAt(us)
      spun = spun + #world.spins
      for _, request in ipairs(requests) do
        longestUs = math.max(longestUs, request.decidedUs - request.beganUs)
      end
    end
    return spun, longestUs
  end

  it("lets its worker go on while a wait ends that has less than a ms left", function()
    local spun, longestUs = requestsThatSpin()
    assert.equal(0, spun)
    assert.is_true(longestUs < 65000, tostring(longestUs))
  end)

  -- The same with the limit that all policies have, of five deadlines: the worker would stand still for four seconds.
  it("lets its worker go on while the five deadlines of a request end", function()
    local world = support.world({ policies = { policy("a", fixed("100000/1d"), denies) } })
    world.redis.fate = function(commands)
      for _, words in ipairs(commands) do
        if table.concat(words, " "):find(":slow}", 1, true) then
          return { upUs = 2500000 }
        end
      end
    end
    for i = 1, 60 do
      world.at(i * 20, function()
        ask(world, "a", 2, { key = "other" })
      end)
    end
    world.run(30)
    ask(world, "a", 1, { key = "first" })
    local requests = ask(world, "a", 3, { key = "slow" })
    world.run(6000)
    assert.equal(0, #world.spins)
    for _, request in ipairs(requests) do
      assert.is_true(request.decidedUs - request.beganUs <= 1060000, tostring(request.decidedUs - request.beganUs))
    end
  end)

  it("is not sent what nobody waits for any more when its turn comes", function()
    local hurried = policy("b", day, support.with(denies, { maxStoreWait = "50ms" }))
    local world = support.world({ policies = { policy("a", day, denies), hurried } })
    world.redis.upUs, world.redis.downUs = 80000, 80000
    for i = 0, 30 do
      world.at(i, function()
        ask(world, "a")
      end)
    end
    world.run(40)
    -- All four batches are under way by now.
    local requests = ask(world, "b", 5, { key = "late" })
    requests[6] = ask(world, "b", 1, { key = "in-time" })[1]
    world.run(1500)
    assert.same({ [503] = 6 }, world.statuses(requests))
    for _, call in ipairs(world.redis.calls) do
      for _, key in ipairs(call.keys) do
        assert.is_nil(key:find("shop:b:", 1, true), key)
      end
    end
    support.assertQuiet(world)
  end)

  it("that replies in the moment in which a request waits no longer, decides it or refunds it", function()
    for seed = 1, 40 do
      local hurried = policy("a", day, support.with(denies, { maxStoreWait = "50ms" }))
      local world = support.world({ seed = seed, policies = { hurried } })
      world.redis.downUs = 46000
      ask(world, "a", 2)
      world.run(20)
      local requests = ask(world, "a", 10)
      world.run(40)
      -- Reply and timer are both there when the worker goes on.
      world.workers[1].block(30000)
      world.run(1000)
      local passed = 0
      for _, request in ipairs(world.requests) do
        passed = passed + (request.passed and 1 or 0)
      end
      assert.equal(passed, used(world, "a", day), "seed " .. seed)
      assert.is_nil(world.statuses(requests).open)
      support.assertQuiet(world)
    end
  end)

  it("has what it charged too late stay charged where the request went on meanwhile, and charged once", function()
    local hurried = policy("a", day, { maxStoreWait = "50ms" })
    local world = support.world({ policies = { hurried } })
    world.redis.downUs = 120000
    ask(world, "a", 20)
    world.run(1500)
    assert.same({ [200] = 20 }, world.statuses())
    assert.equal(20, used(world, "a", day))
    assert.equal(0, world.redis.count("charge_up_to"))
    assert.equal(0, world.redis.count("refund"))
  end)

  it("is told what went on meanwhile where it refused too late", function()
    local limit = bucket("10/1m", 10)
    local hurried = policy("a", limit, { maxStoreWait = "50ms", onStoreFailure = "allow" })
    local world = support.world({ policies = { hurried } })
    ask(world, "a", 10)
    world.run(100)
    world.redis.downUs = 120000
    ask(world, "a", 5, { key = "k" })
    world.run(1500)
    assert.same({ [200] = 15 }, world.statuses())
    assert.equal(1, world.redis.count("charge_up_to"))
  end)
end)

describe("a Redis that falls silent", function()
  it("has all released who wait, after one deadline, and the reply is dealt with all the same", function()
    local world = support.world({ policies = { policy("a", day, denies) } })
    ask(world, "a", 2)
    world.run(10)
    world.redis.stop()
    local stoppedUs = world.clock.nowUs
    for i = 0, 49 do
      world.at(i * 3, function()
        ask(world, "a")
      end)
    end
    world.run(400)
    for _, request in ipairs(world.requests) do
      if request.beganUs >= stoppedUs then
        assert.equal(503, request.status)
        assert.is_true(request.decidedUs <= stoppedUs + deadlineUs + 26000, tostring(request.decidedUs - stoppedUs))
      end
    end
    world.redis.go()
    world.run(1000)
    assert.equal(2, used(world, "a", day))
    support.assertQuiet(world)
  end)

  -- Releasing the first batch reports a silent server, which releases the others. None of them may be released a second time: each
  -- release takes one from the number of threads beside the queue's.
  it("has each batch released once, where several are under way", function()
    local world = support.world({ policies = { policy("a", day) } })
    ask(world, "a", 2)
    world.run(10)
    world.redis.stop()
    for i = 0, 9 do
      world.at(i * 10, function()
        ask(world, "a")
      end)
    end
    world.run(400)
    local queue = batcherOf(world, "queues")[0]
    assert.equal(0, queue.beside)
    world.redis.go()
    world.run(1000)
    local seen = watchPackets(world)
    world.redis.upUs, world.redis.downUs = 60000, 60000
    for i = 0, 99 do
      world.at(i * 3, function()
        ask(world, "a")
      end)
    end
    world.run(1000)
    assert.is_true(seen.most <= 5, "under way: " .. seen.most)
  end)

  it("decides again after it, by new threads", function()
    local world = support.world({ policies = { policy("a", day) } })
    ask(world, "a", 10)
    world.run(10)
    world.redis.stop()
    ask(world, "a", 10)
    world.run(300)
    world.redis.go()
    world.run(1000)
    assert.equal(0, batcherOf(world, "threads"))
    ask(world, "a", 10)
    world.run(5)
    assert.same({ [200] = 30 }, world.statuses())
    assert.equal(30, used(world, "a", day))
    world.run(100)
    assert.equal(0, batcherOf(world, "threads"))
    assert.equal(0, world.waitingAtSemaphores())
  end)

  -- The reply comes so near the end of the patience that each seed has another order of what happens then.
  for _, onStoreFailure in ipairs({ "deny", "local" }) do
    it("and replies in the moment of the deadline, charges whoever went on, and nobody else: " .. onStoreFailure, function()
      local redisDecided, without = 0, 0
      for seed = 1, 40 do
        local world = support.world({ seed = seed, policies = { policy("a", day, onStoreFailure == "deny" and denies or {}) } })
        ask(world, "a", 2)
        world.run(7)
        -- The patience clock ticks every 5 ms: silence ends at one of its ticks.
        world.redis.downUs = deadlineUs - 8000 + math.floor(world.clock.random() * 16000)
        ask(world, "a", 10)
        world.run(300)
        local statuses = world.statuses()
        world.redis.downUs = 100
        world.run(1500)
        assert.equal(statuses[200], used(world, "a", day), "seed " .. seed)
        if #world.logged("Redis did not decide") > 0 then
          without = without + 1
        else
          redisDecided = redisDecided + 1
        end
        support.assertQuiet(world)
      end
      assert.is_true(redisDecided > 0 and without > 0, redisDecided .. " " .. without)
    end)
  end
end)

describe("a connection that is lost", function()
  it("has no script sent again, and nobody is charged twice", function()
    local world = support.world({ policies = { policy("a", day) } })
    ask(world, "a", 2)
    world.run(10)
    world.redis.fate = function(commands)
      if commands[1][1] == "evalsha" then
        return { loses = "reply" }
      end
    end
    ask(world, "a", 10)
    world.run(20)
    world.redis.fate = nil
    world.run(1000)
    assert.same({ [200] = 12 }, world.statuses())
    -- The ten were charged, and their replies lost: they are not charged again.
    assert.equal(12, used(world, "a", day))
    assert.equal(0, world.redis.count("charge_up_to"))
  end)

  it("has none of several scripts sent again that went together", function()
    local world = support.world({ policies = { policy("a", day), policy("b", day) } })
    ask(world, "a", 2)
    world.run(10)
    world.redis.fate = function(commands)
      return commands[1][1] == "evalsha" and { loses = "reply" } or nil
    end
    local requests = ask(world, "a", 5)
    for _, request in ipairs(ask(world, "b", 5)) do
      requests[#requests + 1] = request
    end
    world.run(20)
    world.redis.fate = nil
    world.run(1000)
    assert.same({ [200] = 10 }, world.statuses(requests))
    assert.same({ 7, 5 }, { used(world, "a", day), used(world, "b", day) })
    assert.equal(0, world.redis.count("charge_up_to"))
  end)

  it("of an idle connection that Redis has closed, is one more connection and no failure", function()
    local world = support.world({ policies = { policy("a", day, denies) } })
    ask(world, "a", 10)
    world.run(100)
    world.redis.closeAll()
    world.run(10)
    ask(world, "a", 10)
    world.run(10)
    assert.same({ [200] = 20 }, world.statuses())
  end)

  it("leaves scripts that Redis does not know any more to be sent whole, in the same call", function()
    local world = support.world({ policies = { policy("a", day, denies) } })
    ask(world, "a", 10)
    world.run(100)
    world.redis.known = {}
    ask(world, "a", 10)
    world.run(10)
    assert.same({ [200] = 20 }, world.statuses())
    assert.equal(20, used(world, "a", day))
  end)
end)

describe("a client that leaves while Redis is asked", function()
  local slots = { algorithm = "concurrency", quota = 9, ttl = "1m" }

  for _, count in ipairs({ 1, 6 }) do
    it("has its slot back, whatever came first: " .. count .. " at once", function()
      for seed = 1, 40 do
        local world = support.world({ seed = seed, policies = { policy("a", slots) }, redis = { upUs = 400, downUs = 400 } })
        local requests = ask(world, "a", count, { serviceUs = 300 })
        for _, request in ipairs(requests) do
          world.clock.at(world.clock.nowUs + world.clock.random(0, 2000), request.abort)
        end
        world.run(1000)
        local _, said = world.redis.peek(support.counterKey("a", slots), require("test.gateway.product").limitOf(slots), 1)
        assert.equal(9, said[2], "seed " .. seed)
        support.assertQuiet(world)
        assert.equal(0, world.waitingAtSemaphores())
      end
    end)
  end

  it("in the middle of its own call, keeps others from asking by themselves for no longer than calls last", function()
    local world = support.world({ policies = { policy("a", day) } })
    world.redis.stop()
    local gone = ask(world, "a")[1]
    world.run(1)
    gone.abort()
    world.redis.go()
    world.run(10)
    local queue = batcherOf(world, "queues")[0]
    assert.equal(1, queue.direct)
    ask(world, "a")
    world.run(10)
    assert.is_true(queue.running)
    world.run(2100)
    assert.is_false(queue.running)
    ask(world, "a")
    world.run(10)
    assert.is_false(queue.running)
    assert.equal(0, queue.direct)
    assert.same({ [200] = 2, aborted = 1 }, world.statuses())
  end)
end)

describe("a worker that stands still itself", function()
  it("is decided by Redis, whose reply came meanwhile", function()
    for seed = 1, 20 do
      local world = support.world({ seed = seed, policies = { policy("a", day, denies) } })
      ask(world, "a", 4)
      world.run(10)
      world.redis.downUs = 1000
      ask(world, "a", 10)
      world.run(0.5)
      world.workers[1].block(700000)
      world.run(1500)
      assert.same({ [200] = 14 }, world.statuses(), "seed " .. seed)
    end
  end)

  it("again and again has not waited for Redis in that time", function()
    local world = support.world({ policies = { policy("a", day, denies) } })
    ask(world, "a", 2)
    world.run(10)
    world.redis.upUs, world.redis.downUs = 160000, 160000
    ask(world, "a", 10)
    -- Of each 60 ms, 50 ms are the worker's own: of 320 ms, less than a deadline is Redis'.
    for i = 0, 9 do
      world.at(i * 60 + 1, function()
        world.workers[1].block(50000)
      end)
    end
    world.run(1500)
    assert.same({ [200] = 12 }, world.statuses())
  end)
end)

describe("a timer that nginx drops", function()
  it("is begun anew, and nobody waits for ever", function()
    local world = support.world({ policies = { policy("a", day) } })
    local drops = 0
    world.dropsTimer = function()
      drops = drops + 1
      return drops <= 3
    end
    ask(world, "a", 10)
    world.run(1500)
    assert.same({ [200] = 10 }, world.statuses())
    assert.is_true(drops >= 3)
  end)
end)
