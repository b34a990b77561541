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
    waitingFor = worker.inner("gateway.src.charging.delay", "waitingFor"),
    waiting = worker.inner("gateway.src.charging.waiting-requests", "waiting"),
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
