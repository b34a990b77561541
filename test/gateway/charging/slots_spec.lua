-- gateway/src/charging/held-slots.ts: the life of slots of concurrency. A slot is held while its request runs, renewed meanwhile, and
-- free again when the request has ended, however it ends.

local support = require("test.gateway.virtual.support")
local ask, metric, policy, used = support.ask, support.metric, support.policy, support.used

local function slots(quota, ttl)
  return { algorithm = "concurrency", quota = quota, ttl = ttl or "1s" }
end

-- Requests that ask for a slot each so many ms, for so long. Returns how many there were of each status.
local function probe(world, everyMs, forMs, options)
  local requests = {}
  for i = 1, math.floor(forMs / everyMs) do
    world.run(everyMs)
    requests[i] = ask(world, "a", 1, support.with({ serviceUs = 0 }, options or {}))[1]
  end
  return requests
end

local function finish(requests)
  for _, request in ipairs(requests) do
    request.finish()
  end
end

for _, scope in ipairs({ "node", "cluster" }) do
  local function worldWith(limit, options)
    return support.world(support.with({ policies = { policy("a", limit, { scope = scope }) } }, options or {}))
  end

  describe("concurrency of scope " .. scope, function()
    it("runs three of ten requests, refuses seven, and takes new ones as those end", function()
      local world = worldWith(slots(3, "60s"), { workers = 2 })
      local first = ask(world, "a", 10, { worker = 0, serviceUs = -1 })
      world.run(100)
      assert.same({ [200] = 3, [429] = 7 }, world.statuses(first))
      for _, request in ipairs(first) do
        if request.passed then
          request.finish()
          break
        end
      end
      world.run(50)
      local further = ask(world, "a", 2, { worker = 0, serviceUs = -1 })
      world.run(50)
      assert.same({ [200] = 1, [429] = 1 }, world.statuses(further))
      finish(first)
      finish(further)
      world.run(50)
      local last = ask(world, "a", 10, { worker = 0 })
      world.run(50)
      assert.same({ [200] = 3, [429] = 7 }, world.statuses(last))
      support.assertQuiet(world)
    end)

    it("reports the quota in the draft's own unit, and that a refused request may come again soon", function()
      local world = worldWith(slots(3))
      ask(world, "a", 3, { serviceUs = -1 })
      world.run(10)
      local refused = ask(world, "a")[1]
      world.run(10)
      assert.equal(429, refused.status)
      assert.equal('"default";q=3;qu="concurrent-requests"', refused.headers["RateLimit-Policy"])
      assert.equal(1, refused.headers["Retry-After"])
    end)

    it("frees the slots of clients that go away, at once", function()
      local world = worldWith(slots(3, "60s"), { workers = 2 })
      local leaving = ask(world, "a", 3, { worker = 0, serviceUs = -1 })
      world.run(10)
      for _, request in ipairs(leaving) do
        request.abort()
      end
      world.run(10)
      local requests = ask(world, "a", 3, { worker = 0 })
      world.run(10)
      assert.same({ [200] = 3 }, world.statuses(requests))
      support.assertQuiet(world)
    end)

    it("renews the slot of a request that outlives its time to live, at every moment", function()
      for seed = 1, 3 do
        local world = worldWith(slots(1), { seed = seed, workers = 2, interruptions = 0.05 })
        local long = ask(world, "a", 1, { serviceUs = -1 })[1]
        world.run(10)
        local probes = probe(world, 10, 4000, { worker = 2 })
        world.run(10)
        assert.same({ [429] = 400 }, world.statuses(probes), "seed " .. seed)
        long.finish()
        world.run(10)
        local last = ask(world, "a", 1, { worker = 2 })
        world.run(10)
        assert.same({ [200] = 1 }, world.statuses(last))
        support.assertQuiet(world)
      end
    end)

    it("keeps the slot of a request that an old worker finishes after a reload", function()
      for seed = 1, 3 do
        local world = worldWith(slots(1), { seed = seed, interruptions = 0.05 })
        local long = ask(world, "a", 1, { serviceUs = -1 })[1]
        world.run(world.clock.random(10, 400))
        local former = world.workers[1]
        world.generation = 2
        world.addWorker(1).begin()
        former.quit()
        world.run(20)
        local probes = probe(world, 10, 2500)
        world.run(10)
        assert.same({ [429] = 250 }, world.statuses(probes), "seed " .. seed)
        assert.is_false(former.gone)
        long.finish()
        world.run(150)
        assert.is_true(former.gone)
        local last = ask(world, "a")
        world.run(10)
        assert.same({ [200] = 1 }, world.statuses(last))
        support.assertQuiet(world)
      end
    end)

    it("frees the slots of a killed worker after their time to live, and not before", function()
      for seed = 1, 5 do
        local world = worldWith(slots(1), { seed = seed, workers = 2, interruptions = 0.05 })
        ask(world, "a", 1, { serviceUs = -1 })
        -- Slots are renewed each third of a second: the last time up to that long before.
        world.run(world.clock.random(10, 1500))
        world.workers[1].kill()
        local killedUs = world.clock.nowUs
        local probes = probe(world, 10, 1300, { worker = 2 })
        world.run(10)
        local backUs
        for _, request in ipairs(probes) do
          if request.passed then
            backUs = backUs or request.beganUs
          else
            assert.is_nil(backUs, "seed " .. seed)
          end
        end
        -- A life has ten ticks: a slot is counted until the tick in which it was renewed is a whole life ago.
        assert.is_true(backUs - killedUs > 500000 and backUs - killedUs <= 1110000, ("seed %d: %d"):format(seed, backUs - killedUs))
      end
    end)

    it("runs no more than a raised quota while requests of the old policy outlive several lives of their slots", function()
      local world = worldWith(slots(3), { workers = 2 })
      local running = ask(world, "a", 3, { worker = 0, serviceUs = -1 })
      world.run(30)
      world.publish({ policy("a", slots(6), { scope = scope }) })
      world.run(30)
      for _, request in ipairs(ask(world, "a", 3, { worker = 0, serviceUs = -1 })) do
        running[#running + 1] = request
      end
      world.run(30)
      assert.same({ [200] = 6 }, world.statuses(running))
      local probes = probe(world, 10, 2500, { worker = 2 })
      world.run(30)
      assert.same({ [429] = 250 }, world.statuses(probes))
      finish(running)
      world.run(30)
      local last = ask(world, "a", 7, { worker = 0 })
      world.run(30)
      assert.same({ [200] = 6, [429] = 1 }, world.statuses(last))
      support.assertQuiet(world)
    end)
  end)
end

describe("slots that are renewed at a Redis which stands still again and again", function()
  it("are counted once each, and none is lost", function()
    local world = support.world({
      workers = 2,
      policies = { policy("a", slots(200, "3s")), policy("b", slots(400, "3s")) },
      environment = { SLUICE_REDIS_DEADLINE_MS = "10000" },
    })
    local running = ask(world, "a", 200, { worker = 0, serviceUs = -1 })
    local others = ask(world, "b", 200, { worker = 0, serviceUs = -1 })
    world.run(500)
    assert.same({ { [200] = 200 }, { [200] = 200 } }, { world.statuses(running), world.statuses(others) })
    -- For 4 ms of each 5, until the time is over.
    local over = false
    local function standStill()
      world.redis.stop()
      world.at(4, function()
        world.redis.go()
        world.at(1, function()
          if not over then
            standStill()
          end
        end)
      end)
    end
    standStill()
    local probes = {}
    for i = 1, 250 do
      world.run(20)
      probes[i] = ask(world, "a", 1, { worker = 0, serviceUs = 0 })[1]
      assert.equal(200, used(world, "b", slots(400, "3s")))
    end
    over = true
    world.run(50)
    assert.same({ [429] = 250 }, world.statuses(probes))
    assert.equal(0, metric(world, "sluice_late_renewals_total"))
    finish(running)
    finish(others)
    world.run(500)
    assert.equal(0, used(world, "a", slots(200, "3s")))
    assert.equal(0, used(world, "b", slots(400, "3s")))
    support.assertQuiet(world)
  end)
end)

describe("a slot on the node", function()
  it("is renewed while Redis, in which others have theirs, stands still", function()
    local world = support.world({
      policies = { policy("a", slots(1), { scope = "node" }), policy("b", slots(10)) },
      environment = { SLUICE_REDIS_DEADLINE_MS = "10000" },
    })
    local own = ask(world, "a", 1, { serviceUs = -1 })
    local others = ask(world, "b", 10, { serviceUs = -1 })
    world.run(250)
    assert.same({ { [200] = 1 }, { [200] = 10 } }, { world.statuses(own), world.statuses(others) })
    world.redis.stop()
    local probes = probe(world, 50, 4000)
    assert.same({ [429] = 80 }, world.statuses(probes))
    world.redis.go()
    world.run(500)
    finish(own)
    finish(others)
    world.run(500)
    assert.equal(0, used(world, "b", slots(10)))
  end)
end)

describe("three hundred slots of one worker at a Redis 40 ms away", function()
  local function distantWorld(quota, options)
    return support.world(support.with({
      policies = { policy("a", slots(quota, "3s")) },
      redis = { upUs = 20000, downUs = 20000 },
      environment = { SLUICE_REDIS_DEADLINE_MS = "10000" },
    }, options or {}))
  end

  local function askEach(world, first, last, serviceUs)
    local requests = {}
    for i = first, last do
      requests[#requests + 1] = ask(world, "a", 1, { key = "k" .. i % 300, serviceUs = serviceUs })[1]
    end
    return requests
  end

  local function held(world)
    local count = 0
    for i = 0, 299 do
      count = count + used(world, "a", slots(1, "3s"), "k" .. i)
    end
    return count
  end

  for _, kind in ipairs({ "of one key", "of as many keys" }) do
    it(kind .. " are not lost", function()
      local ofOne = kind == "of one key"
      local world = distantWorld(ofOne and 300 or 1)
      local running = ofOne and ask(world, "a", 300, { serviceUs = -1 }) or askEach(world, 1, 300, -1)
      world.run(1000)
      assert.same({ [200] = 300 }, world.statuses(running))
      world.redis.calls = {}
      local probes = {}
      for i = 1, 300 do
        world.run(7000 / 300)
        probes[i] = (ofOne and ask(world, "a", 1) or askEach(world, i, i, 0))[1]
      end
      world.run(200)
      assert.same({ [429] = 300 }, world.statuses(probes))
      assert.equal(0, metric(world, "sluice_late_renewals_total"))
      -- Each slot is renewed about once a second, many of them in one round trip.
      local renewals, trips = 0, {}
      for _, call in ipairs(world.redis.calls) do
        if call.name == "renew" then
          renewals = renewals + 1
          trips[call.atUs] = true
        end
      end
      local tripCount = 0
      for _ in pairs(trips) do
        tripCount = tripCount + 1
      end
      assert.is_true(renewals >= 7 * 300 and renewals <= 8 * 300, tostring(renewals))
      assert.is_true(tripCount <= renewals / 60, tostring(tripCount))
      finish(running)
      world.run(500)
      assert.equal(0, ofOne and used(world, "a", slots(300, "3s")) or held(world))
      support.assertQuiet(world)
    end)
  end

  it("are renewed in shared calls at a Redis that has forgotten the script, as soon as it knows it again", function()
    local world = distantWorld(300)
    local running = ask(world, "a", 300, { serviceUs = -1 })
    world.run(500)
    -- While Redis stands still, all slots become due for renewal, also those that are being renewed.
    world.redis.stop()
    world.run(1800)
    world.redis.go()
    world.run(600)
    world.redis.calls = {}
    world.redis.known = {}
    world.run(1500)
    local unknown = world.redis.count("noscript")
    assert.is_true(unknown > 0 and unknown < 110, tostring(unknown))
    assert.equal(300, used(world, "a", slots(300, "3s")))
    assert.equal(0, metric(world, "sluice_late_renewals_total"))
    finish(running)
    world.run(500)
    assert.equal(0, used(world, "a", slots(300, "3s")))
    support.assertQuiet(world)
  end)

  it("are freed within few round trips, also at a Redis that has forgotten the script", function()
    for _, forgets in ipairs({ false, true }) do
      local world = distantWorld(1)
      local running = askEach(world, 1, 300, -1)
      world.run(1000)
      assert.same({ 300, { [200] = 300 } }, { held(world), world.statuses(running) })
      world.redis.calls = {}
      if forgets then
        world.redis.known = {}
      end
      finish(running)
      -- Freed one by one, they took twelve seconds.
      world.run(forgets and 400 or 200)
      assert.equal(0, held(world))
      assert.equal(forgets, world.redis.count("noscript") > 0)
      support.assertQuiet(world)
    end
  end)

  it("are counted as late renewals when they were lost, and asked for again", function()
    local world = distantWorld(1)
    local running = askEach(world, 1, 10, -1)
    world.run(500)
    world.redis.upUs, world.redis.downUs = 4000000, 4000000
    world.run(8000)
    world.redis.upUs, world.redis.downUs = 20000, 20000
    world.run(9000)
    local late = metric(world, "sluice_late_renewals_total")
    assert.is_true(late >= 10 and late <= 30, tostring(late))
    assert.is_true(#world.logged("slots were lost before they were renewed") > 0)
    -- They are held again, and renewed in time from now on.
    world.run(5000)
    assert.equal(10, held(world))
    assert.equal(late, metric(world, "sluice_late_renewals_total"))
    finish(running)
    world.run(500)
    assert.equal(0, held(world))
  end)
end)

describe("a slot that a defect keeps from being renewed or freed", function()
  -- While `breaks.now`, every round trip with a call about the policy "broken" alone fails like a defect of the gateway.
  local function breakingWorld()
    local function limited(name, priority)
      return policy(name, slots(1, "6s"), { priority = priority, match = { paths = { "/" .. name, "/both" } } })
    end
    local world = support.world({ policies = { limited("broken", 1), limited("sound", 0) } })
    local breaks = { now = false }
    local library = world.workers[1].module("gateway.src.runtime.lua-modules").redisLibrary
    local commit = library.commit_pipeline
    function library.commit_pipeline(connection)
      for _, request in ipairs(connection._reqs) do
        local sent = table.concat(request)
        if breaks.now and sent:find(":broken:", 1, true) and not sent:find(":sound:", 1, true) then
          error("broken by this test")
        end
      end
      return commit(connection)
    end
    return world, breaks
  end

  local function statusOf(world, name)
    local request = ask(world, name, 1, { serviceUs = 0 })[1]
    world.run(100)
    return request.status
  end

  it("is the only one of a request's slots that stays taken", function()
    local world, breaks = breakingWorld()
    local running = ask(world, "both", 1, { serviceUs = -1 })[1]
    world.run(20)
    assert.is_true(running.passed)
    breaks.now = true
    running.finish()
    world.run(100)
    assert.equal(200, statusOf(world, "sound"))
    breaks.now = false
    assert.equal(429, statusOf(world, "broken"))
    assert.is_true(#world.logged("broken by this test") > 0)
    -- It is free when its life is over.
    world.run(7000)
    assert.equal(200, statusOf(world, "broken"))
  end)

  it("is freed even if renewing it failed", function()
    local world, breaks = breakingWorld()
    local running = ask(world, "both", 1, { serviceUs = -1 })[1]
    world.run(20)
    assert.is_true(running.passed)
    breaks.now = true
    world.run(2500)
    assert.is_true(#world.logged("broken by this test") > 0)
    breaks.now = false
    running.finish()
    world.run(100)
    assert.equal(200, statusOf(world, "both"))
    support.assertQuiet(world, { timers = 1 })
  end)
end)
