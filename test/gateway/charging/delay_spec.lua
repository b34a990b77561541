-- gateway/src/charging/delay.ts and waiting-requests.ts: requests that wait for units stand in line, and leave it whatever ends them.

local support = require("test.gateway.virtual.support")
local ask, fixed, bucket, policy, used = support.ask, support.fixed, support.bucket, support.policy, support.used

local function delays(maxDelay, maxWaiting)
  return { onLimit = { action = "delay", maxDelay = maxDelay, maxWaiting = maxWaiting or 100 } }
end

-- How many wait in lines and how many wait at all, as the worker itself keeps it.
local function counted(world, number)
  local worker = world.workers[number or 1]
  return {
    queues = worker.inner("gateway.src.charging.delay", "queues"),
    waitingFor = worker.inner("gateway.src.charging.waiting-requests", "ofPolicies"),
    waiting = worker.inner("gateway.src.charging.waiting-requests", "places").taken,
  }
end

local nobody = { queues = {}, waitingFor = {}, waiting = 0 }
local steady = bucket("10/1s", 1)

for _, scope in ipairs({ "node", "cluster" }) do
  local function world(limit, onLimit, options)
    return support.world(support.with({ policies = { policy("a", limit, support.with(onLimit, { scope = scope })) } }, options or {}))
  end

  describe("requests that wait for units, scope " .. scope .. ",", function()
    it("go on one after the other as the limit refills, in the order in which they came", function()
      local w = world(steady, delays("5s"))
      local requests = {}
      for i = 1, 11 do
        requests[i] = ask(w, "a")[1]
        w.run(1)
      end
      w.run(1500)
      for i, request in ipairs(requests) do
        assert.equal(200, request.status)
        local waitedMs = (request.decidedUs - requests[1].decidedUs) / 1000
        assert.is_true(waitedMs >= (i - 1) * 100 - 1 and waitedMs <= (i - 1) * 100 + 40, i .. ": " .. waitedMs)
      end
      assert.same(nobody, counted(w))
      support.assertQuiet(w)
    end)

    it("are not overtaken by those who come just when there is a unit", function()
      for seed = 1, 5 do
        local w = world(steady, delays("20s"), { seed = seed })
        local requests = {}
        for i = 1, 40 do
          w.at(i * 7 + w.clock.random() * 7, function()
            requests[#requests + 1] = ask(w, "a")[1]
          end)
        end
        for i = 1, 30 do
          w.at(300 + i * 10 + w.clock.random() * 10, function()
            requests[#requests + 1] = ask(w, "a")[1]
          end)
        end
        w.run(8000)
        for i = 2, #requests do
          assert.equal(200, requests[i].status)
          assert.is_true(requests[i].decidedUs > requests[i - 1].decidedUs, ("seed %d, %d"):format(seed, i))
        end
      end
    end)

    it("are refused at once where their turn would come too late", function()
      local w = world(steady, delays("500ms"))
      local requests = ask(w, "a", 20)
      w.run(20)
      local statuses = w.statuses(requests)
      assert.is_true(statuses[429] >= 13 and statuses[429] <= 15, tostring(statuses[429]))
      w.run(1000)
      for _, request in ipairs(requests) do
        assert.is_true(request.decidedUs - request.beganUs <= 530000)
      end
      assert.same(nobody, counted(w))
    end)

    it("are no more than the policy says", function()
      local w = world(steady, delays("10s", 4))
      local requests = ask(w, "a", 20)
      w.run(20)
      assert.equal(15, w.statuses(requests)[429])
      w.run(1000)
      assert.equal(5, w.statuses(requests)[200])
    end)

    it("are no more on a worker than the operator says, of all policies and keys together", function()
      local w = world(steady, delays("10s"), { environment = { SLUICE_MAX_WAITING = "3" } })
      local requests = {}
      for i = 1, 5 do
        for _, request in ipairs(ask(w, "a", 3, { key = "k" .. i })) do
          requests[#requests + 1] = request
        end
      end
      w.run(20)
      assert.equal(15 - 5 - 3, w.statuses(requests)[429])
      w.run(2000)
      assert.equal(8, w.statuses(requests)[200])
      assert.same(nobody, counted(w))
    end)

    it("give their place to the next when their client leaves, wherever they stand", function()
      for seed = 1, 25 do
        local w = world(steady, delays("5s"), { seed = seed, redis = { upUs = 300, downUs = 300 } })
        local random = w.clock.random
        local requests = ask(w, "a", 12)
        local left = {}
        for _, request in ipairs(requests) do
          if random() < 0.4 then
            left[request] = true
            w.clock.at(w.clock.nowUs + random(0, 1100000), request.abort)
          end
        end
        w.run(4000)
        local passed = {}
        for _, request in ipairs(requests) do
          assert.is_true(request.status == 200 or left[request] == true, "seed " .. seed)
          if request.passed then
            passed[#passed + 1] = request
          end
        end
        -- In the order in which they came.
        for i = 2, #passed do
          assert.is_true(passed[i].decidedUs > passed[i - 1].decidedUs, "seed " .. seed)
        end
        assert.same(nobody, counted(w))
        assert.equal(0, w.waitingAtSemaphores())
        support.assertQuiet(w)
      end
    end)

    it("have slots as they come back, which nobody can foretell", function()
      local w = world({ algorithm = "concurrency", quota = 2, ttl = "10s" }, delays("2s"))
      local holders = ask(w, "a", 2, { serviceUs = -1 })
      w.run(10)
      local requests = ask(w, "a", 2, { serviceUs = 100000 })
      w.run(300)
      assert.equal(2, w.statuses(requests).open)
      holders[1].finish()
      w.run(40)
      assert.equal(1, w.statuses(requests)[200])
      w.run(150)
      assert.equal(2, w.statuses(requests)[200])
      holders[2].finish()
      w.run(200)
      assert.same(nobody, counted(w))
      support.assertQuiet(w)
    end)

    it("meet a policy that is edited while they wait, and nobody waits for ever", function()
      local w = world(steady, delays("2s"))
      local requests = ask(w, "a", 15)
      w.run(50)
      w.publish({ policy("a", bucket("1000/1s", 100), support.with(delays("2s"), { scope = scope })) })
      w.run(20)
      local later = ask(w, "a", 10)
      w.run(30)
      assert.equal(10, w.statuses(later)[200])
      w.run(3000)
      assert.is_nil(w.statuses(requests).open)
      assert.same(nobody, counted(w))
    end)
  end)
end

describe("a leaky-bucket", function()
  it("sends requests on one after the other, and none too early", function()
    local limit = { algorithm = "leaky-bucket", quota = 100, window = "1s", burst = 20 }
    for seed = 1, 10 do
      local world = support.world({ seed = seed, policies = { policy("a", limit) } })
      world.turnUs = function()
        return world.clock.random(0, 300)
      end
      local requests = ask(world, "a", 40)
      world.run(500)
      local statuses = world.statuses(requests)
      assert.is_true(statuses[200] >= 20 and statuses[200] <= 22, tostring(statuses[200]))
      local passed = {}
      for _, request in ipairs(requests) do
        if request.passed then
          passed[#passed + 1] = request.decidedUs
        end
      end
      table.sort(passed)
      -- Ten ms apart by Redis' clock; a reply and a late worker take some of it.
      assert.is_true(passed[#passed] - passed[1] >= (#passed - 1) * 10000 - 15000, tostring(passed[#passed] - passed[1]))
      assert.equal(0, counted(world).waiting)
      support.assertQuiet(world)
    end
  end)

  for _, scope in ipairs({ "node", "cluster" }) do
    it("of scope " .. scope .. " lets one request go at once and five wait, 200 ms apart, and refuses the rest at once", function()
      for seed = 1, 5 do
        local limit = { algorithm = "leaky-bucket", quota = 5, window = "1s", burst = 5 }
        local world = support.world({ seed = seed, policies = { policy("a", limit, { scope = scope }) } })
        local requests = ask(world, "a", 9)
        world.run(5)
        assert.same({ [200] = 1, [429] = 3, open = 5 }, world.statuses(requests))
        world.run(1100)
        local atUs = {}
        for _, request in ipairs(requests) do
          if request.passed then
            atUs[#atUs + 1] = request.decidedUs - requests[1].beganUs
          end
        end
        table.sort(atUs)
        assert.equal(6, #atUs)
        for i, us in ipairs(atUs) do
          -- nginx sleeps for whole ms, and the way to Redis and back takes 0.2 ms.
          local turnUs = (i - 1) * 200000
          assert.is_true(us >= turnUs and us <= turnUs + 1500, ("seed %d, %d: %d"):format(seed, i, us))
        end
        support.assertQuiet(world)
      end
    end)
  end

  it("never lets a request go before its turn, not even by a part of a ms", function()
    local limit = { algorithm = "leaky-bucket", quota = 200, window = "1s", burst = 5 }
    local world = support.world({ policies = { policy("a", limit) }, lookUs = 40 })
    local random = world.clock.random
    world.turnUs = function()
      return random(0, 700)
    end
    for i = 1, 400 do
      local options = { key = "k" .. i, serviceUs = 0 }
      local first = ask(world, "a", 1, options)[1]
      world.run(random(300, 2500) / 1000)
      local second = ask(world, "a", 1, options)[1]
      world.run(random(12000, 14000) / 1000)
      assert.is_true(first.passed and second.passed)
      -- The second may overtake the first on the way to Redis.
      local early, late = first, second
      if second.decidedUs < first.decidedUs then
        early, late = second, first
      end
      assert.is_true(late.decidedUs - early.beganUs >= 5000, ("%d: %d"):format(i, late.decidedUs - early.beganUs))
    end
    support.assertQuiet(world)
  end)

  it("delays requests even where its policy's action is to mark them", function()
    local limit = { algorithm = "leaky-bucket", quota = 5, window = "1s", burst = 5 }
    local tags = { action = "tag", header = "x-mark: over" }
    local world = support.world({ policies = { policy("a", limit, { scope = "node", onLimit = tags }) }, redis = false })
    local requests = ask(world, "a", 7)
    world.run(1100)
    assert.same({ [200] = 7 }, world.statuses(requests))
    local marked, waited = 0, 0
    for _, request in ipairs(requests) do
      marked = marked + (request.sent["x-mark"] == "over" and 1 or 0)
      waited = waited + (request.decidedUs - request.beganUs >= 199000 and 1 or 0)
    end
    assert.same({ 1, 5 }, { marked, waited })
  end)

  it("counts those out that leave while they wait", function()
    local limit = { algorithm = "leaky-bucket", quota = 10, window = "1s", burst = 20 }
    local world = support.world({ policies = { policy("a", limit) } })
    local requests = ask(world, "a", 15)
    world.run(50)
    assert.equal(14, counted(world).waiting)
    for _, request in ipairs(requests) do
      request.abort()
    end
    world.run(10)
    assert.equal(0, counted(world).waiting)
    support.assertQuiet(world)
  end)
end)

describe("a request that waits for one policy and was charged by another before", function()
  it("has its units of this node back when its client leaves", function()
    local first = policy("b", fixed("5/1h"), { scope = "node", priority = 2 })
    local second = policy("a", steady, delays("5s"))
    first.match = { paths = { "/a" } }
    local world = support.world({ policies = { first, second } })
    local requests = ask(world, "a", 5)
    world.run(20)
    requests[4].abort()
    requests[5].abort()
    world.run(1500)
    assert.equal(3, world.statuses(requests)[200])
    local later = ask(world, "a", 3)
    world.run(1500)
    assert.same({ [200] = 2, [429] = 1 }, world.statuses(later))
  end)

  it("has those units back when its client leaves, and keeps them when it goes on", function()
    local first = policy("b", fixed("100/1h"), { priority = 2 })
    local second = policy("a", steady, delays("5s"))
    first.match = { paths = { "/a" } }
    local world = support.world({ policies = { first, second } })
    local requests = ask(world, "a", 5)
    world.run(20)
    requests[4].abort()
    requests[5].abort()
    world.run(1500)
    assert.equal(3, world.statuses(requests)[200])
    assert.equal(3, used(world, "b", fixed("100/1h")))
    support.assertQuiet(world)
  end)
end)

describe("a thousand requests at once, of ten clients that may have 20/s each,", function()
  local leaky = { algorithm = "leaky-bucket", quota = 20, window = "1s", burst = 1000 }
  local kinds = {
    { "of a leaky-bucket", leaky, {}, 1 },
    { "delayed by a token bucket of burst 2", bucket("20/1s", 2), delays("60s", 1000), 2 },
  }
  for _, scope in ipairs({ "node", "cluster" }) do
    for _, kind in ipairs(kinds) do
      local name, limit, onLimit, atOnce = unpack(kind)
      it(("%s, scope %s, depart 50 ms apart, in their order, while others are served, and leave nothing"):format(name, scope), function()
        local world = support.world({
          policies = { policy("a", limit, support.with(onLimit, { scope = scope })) },
          environment = { SLUICE_REDIS_DEADLINE_MS = "10000" },
        })
        local startUs = world.clock.nowUs
        local requests = {}
        for i = 1, 1000 do
          requests[i] = ask(world, "a", 1, { key = "k" .. i % 10, serviceUs = 0 })[1]
        end
        local slowestUs = 0
        for _ = 1, 90 do
          world.run(50)
          local other = ask(world, "other", 1, { serviceUs = 0 })[1]
          world.run(5)
          slowestUs = math.max(slowestUs, other.decidedUs - other.beganUs)
        end
        -- The worker serves others at once, however many wait.
        assert.is_true(slowestUs < 1000, tostring(slowestUs))
        world.run(1000)
        local departures = {}
        for i, request in ipairs(requests) do
          assert.equal(200, request.status)
          local own = departures[i % 10] or {}
          departures[i % 10] = own
          own[#own + 1] = request.decidedUs - startUs
        end
        for client = 0, 9 do
          assert.equal(100, #departures[client])
          -- Those that go at once may overtake each other; the others go as they came.
          for i, us in ipairs(departures[client]) do
            local turnUs = math.max(0, i - atOnce) * 50000
            assert.is_true(us >= turnUs - 1000 and us <= turnUs + 25000, ("client %d, %d: %d"):format(client, i, us))
            if i > atOnce + 1 then
              assert.is_true(us > departures[client][i - 1], ("client %d, %d"):format(client, i))
            end
          end
        end
        assert.same(nobody, counted(world))
        assert.equal(0, world.waitingAtSemaphores())
        support.assertQuiet(world)
        -- Nothing is in shared memory but their counters, which expire.
        assert.is_true(#world.dict("sluice_counters"):get_keys(0) <= 10)
        world.run(60000)
        assert.same({}, world.dict("sluice_counters"):get_keys(0))
      end)
    end
  end
end)

describe("a thousand requests that wait, as many as may", function()
  it("leave their places to others when their clients go away", function()
    local world = support.world({
      policies = { policy("a", bucket("100/1s", 2), support.with(delays("60s", 1000), { scope = "node" })) },
      redis = false,
    })
    local leaving = ask(world, "a", 1300)
    world.run(5)
    assert.same({ [200] = 2, [429] = 298, open = 1000 }, world.statuses(leaving))
    for _, request in ipairs(leaving) do
      request.abort()
    end
    world.run(200)
    assert.same(nobody, counted(world))
    local nextOnes = ask(world, "a", 200)
    world.run(2000)
    -- They do not wait behind those that left, whose turns would take ten seconds.
    assert.same({ [200] = 200 }, world.statuses(nextOnes))
    support.assertQuiet(world)
  end)
end)

describe("a policy that delays", function()
  for _, scope in ipairs({ "node", "cluster" }) do
    it("of scope " .. scope .. " has requests go on one every 50 ms and never sooner, and lets others pass meanwhile", function()
      for seed = 1, 5 do
        local world = support.world({
          seed = seed,
          policies = { policy("a", bucket("20/1s", 1), support.with(delays("3s"), { scope = scope })) },
        })
        local requests = ask(world, "a", 21)
        local other = ask(world, "other")[1]
        world.run(1)
        assert.is_true(other.passed)
        world.run(1500)
        local atUs = {}
        for i, request in ipairs(requests) do
          assert.equal(200, request.status)
          atUs[i] = request.decidedUs - requests[1].beganUs
        end
        -- Each that waits asks twice: as the first of the line, and when its turn has come.
        assert.equal(scope == "cluster" and 1 + 2 * 20 or 0, world.redis.count())
        table.sort(atUs)
        for i, us in ipairs(atUs) do
          local turnUs = (i - 1) * 50000
          -- Each asks a started ms after its turn at the latest, and the next one's turn counts from the limit, not from that.
          assert.is_true(us >= turnUs - 1000 and us <= turnUs + 5000, ("seed %d, %d: %d"):format(seed, i, us))
        end
      end
    end)
  end

  it("refuses with its status those that would wait too long, or find too many waiting", function()
    for _, case in ipairs({ { "3s", 5, 6 }, { "120ms", 100, 3 } }) do
      local maxDelay, maxWaiting, admitted = unpack(case)
      local onLimit = { action = "delay", maxDelay = maxDelay, maxWaiting = maxWaiting, status = 503 }
      local world = support.world({ policies = { policy("a", bucket("20/1s", 1), { scope = "node", onLimit = onLimit }) }, redis = false })
      local requests = ask(world, "a", 10)
      world.run(1)
      assert.same({ 10 - admitted, admitted - 1 }, { world.statuses(requests)[503], world.statuses(requests).open })
      world.run(1000)
      assert.same({ [200] = admitted, [503] = 10 - admitted }, world.statuses(requests))
    end
  end)

  it("has what others charged, units and a slot, refunded for a client that leaves while it waits", function()
    local function beside(name, limit)
      return policy(name, limit, { scope = "node", priority = 1, match = { paths = { "/a", "/" .. name } } })
    end
    local world = support.world({
      policies = {
        beside("units", fixed("2/366d")),
        beside("slots", { algorithm = "concurrency", quota = 1, ttl = "1h" }),
        policy("a", bucket("1/10s", 1), support.with(delays("60s", 10), { scope = "node" })),
      },
      redis = false,
    })
    local function status(name)
      local request = ask(world, name, 1, { serviceUs = 0 })[1]
      world.run(5)
      return request.status
    end
    assert.equal(200, status("a"))
    local gone = ask(world, "a")[1]
    world.run(50)
    assert.equal(429, status("slots"))
    gone.abort()
    world.run(5)
    assert.equal(200, status("slots"))
    assert.same({ 200, 429 }, { status("units"), status("units") })
    support.assertQuiet(world)
  end)

  it("has what a request waited for refunded when a later policy refuses it", function()
    for _, scope in ipairs({ "node", "cluster" }) do
      local waits = policy("waits", fixed("1/2s"), support.with(delays("3s"), { scope = scope, priority = 1, match = { paths = { "/own", "/alone" } } }))
      local world = support.world({ policies = { waits, policy("own", fixed("1/366d"), { scope = "node" }) } })
      world.clock.runUntil(2000000)
      local first = ask(world, "own")[1]
      world.run(100)
      local waited = ask(world, "own")[1]
      world.run(2000)
      assert.same({ 200, 429 }, { first.status, waited.status })
      assert.is_near(1900000, waited.decidedUs - waited.beganUs, 5000)
      -- The window has just begun: had its unit not been refunded, this request would wait for the next one.
      local alone = ask(world, "alone")[1]
      world.run(10)
      assert.equal(200, alone.status)
      support.assertQuiet(world)
    end
  end)

  it("lets others go soon after units are back that requests took which a later policy refused", function()
    local shared = support.with(delays("5s"), { key = { "const:all" }, priority = 9 })
    local own = policy("own", fixed("2/1d"), { match = { paths = { "/a" } } })
    local world = support.world({ policies = { policy("a", bucket("20/60s", 20), shared), own } })
    ask(world, "a", 3, { key = "mallory" })
    world.run(100)
    local burst = ask(world, "a", 60, { key = "mallory" })
    world.run(300)
    assert.same({ [429] = 60 }, world.statuses(burst))
    local honest = ask(world, "a", 2, { key = "ann" })
    world.run(20)
    assert.same({ [200] = 2 }, world.statuses(honest))
    support.assertQuiet(world)
  end)

  it("has its units in Redis refunded when a later policy refuses, also where nobody waited", function()
    local shared = policy("shared", fixed("2/366d"), support.with(delays("1ms"), { priority = 1, match = { paths = { "/own", "/alone" } } }))
    local world = support.world({ policies = { shared, policy("own", fixed("1/366d"), { scope = "node" }) } })
    local statuses = {}
    for i, name in ipairs({ "own", "own", "own", "alone", "alone" }) do
      local request = ask(world, name)[1]
      world.run(20)
      statuses[i] = request.status
    end
    assert.same({ 200, 429, 429, 200, 429 }, statuses)
    support.assertQuiet(world)
  end)

  it("names all of its limits that refuse", function()
    local function named(name)
      return support.with(fixed("1/366d"), { name = name })
    end
    local both = policy("a", named("a"), support.with(delays("1ms"), { scope = "node", limits = { named("a"), named("b") } }))
    local world = support.world({ policies = { both }, redis = false })
    local requests = ask(world, "a", 2)
    world.run(20)
    assert.equal(429, requests[2].status)
    assert.is_truthy(requests[2].body:find('"violated-policies":["a","b"]', 1, true), requests[2].body)
  end)

  it("denies at once where there is no Redis and onStoreFailure is deny, and counts one refusal", function()
    local denies = support.with(delays("2s"), { onStoreFailure = "deny" })
    local world = support.world({ policies = { policy("a", { algorithm = "concurrency", quota = 1 }, denies) }, redis = false })
    local request = ask(world, "a")[1]
    world.run(1)
    assert.equal(429, request.status)
    world.run(200)
    local metrics = world.dict("sluice_metrics")
    assert.same({ 1, 1 }, { metrics:get("shop?a"), metrics:get("shop!a") })
  end)

  it("denies a request that finds Redis gone after it has waited", function()
    local denies = support.with(delays("4s"), { onStoreFailure = "deny" })
    local world = support.world({ policies = { policy("a", bucket("1/1s", 1), denies) } })
    ask(world, "a")
    world.run(5)
    local waiting = ask(world, "a")[1]
    world.run(200)
    world.redis.kill()
    world.run(1000)
    assert.equal(429, waiting.status)
    assert.is_truthy(waiting.body:find("Limit cannot be checked", 1, true), waiting.body)
    assert.is_true(waiting.decidedUs - waiting.beganUs < 1500000)
  end)
end)

describe("requests that wait for units while the machine's clock steps,", function()
  local hourUs = 3600000000

  for _, stepUs in ipairs({ -hourUs, -30000000, hourUs }) do
    for _, workers in ipairs({ 1, 2 }) do
      it(("by %d s, at %d workers, wait for no longer, and those that come later go on"):format(stepUs / 1000000, workers), function()
        local limit = bucket("2/1s", 1)
        local w = support.world({
          workers = workers,
          policies = { policy("a", limit, support.with(delays("8s"), { scope = "node" })) },
        })
        local requests = ask(w, "a", 8, { worker = 0 })
        w.run(1200)
        w.wallUs = w.wallUs + stepUs
        for _ = 1, 12 do
          w.run(1000)
          requests[#requests + 1] = ask(w, "a", 1, { worker = 0 })[1]
        end
        w.run(5000)
        for i, request in ipairs(requests) do
          assert.equal(200, request.status, "request " .. i)
          assert.is_true(request.decidedUs - request.beganUs <= 8000000, i .. ": " .. request.decidedUs - request.beganUs)
        end
        for number = 1, workers do
          assert.same(nobody, counted(w, number))
        end
        support.assertQuiet(w)
      end)
    end
  end

  it("and whose first one was at a worker that is killed, wait for that one for a second", function()
    local w = support.world({ workers = 2, policies = { policy("a", steady, support.with(delays("5s"), { scope = "node" })) } })
    ask(w, "a", 3)
    w.run(10)
    local request = ask(w, "a", 1, { worker = 2 })[1]
    w.run(10)
    w.workers[1].kill()
    w.wallUs = w.wallUs - hourUs
    w.run(1600)
    assert.equal(200, request.status)
  end)
end)
