-- Requests that wait for units wait for those of their own limits: nobody waits behind others who need units of other limits.

local support = require("test.gateway.virtual.support")
local ask, bucket, fixed, policy, with = support.ask, support.bucket, support.fixed, support.policy, support.with

local function delays(maxDelay)
  return { action = "delay", maxDelay = maxDelay, maxWaiting = 100 }
end

local function named(name, limit)
  return with(limit, { name = name })
end

local function inPlan(plan)
  return { variables = { http_x_plan = plan } }
end

for _, scope in ipairs({ "node", "cluster" }) do
  describe("a line of requests that wait, scope " .. scope, function()
    it("is of one plan: who floods a small plan does not hold up a large one of the same key", function()
      local plans = { free = { named("free", bucket("10/1s", 10)) }, pro = { named("pro", bucket("1000/1s", 1000)) } }
      local shared = { name = "a", scope = scope, match = { paths = { "/a" } }, key = {}, plans = plans }
      local world = support.world({
        policies = { with(shared, { planBy = "header:x-plan", defaultPlan = "free", onLimit = delays("10s") }) },
      })
      local pro = {}
      for i = 0, 999 do
        world.at(i * 5, function() ask(world, "a", 1, inPlan("free")) end)
      end
      for i = 0, 99 do
        world.at(1000 + i * 40, function() pro[#pro + 1] = ask(world, "a", 1, inPlan("pro"))[1] end)
      end
      world.run(20000)
      assert.same({ [200] = 100 }, world.statuses(pro))
      assert.is_true(support.slowestUs(pro) < 100000)
    end)

    it("is of one plan: who is moved to a larger one does not wait for the smaller one", function()
      local plans = { free = { named("m", fixed("1/60s")) }, pro = { named("m", fixed("1000/60s")) } }
      local moved = policy("a", nil, { scope = scope, plans = plans, planBy = "header:x-plan", defaultPlan = "free" })
      local world = support.world({ policies = { with(moved, { onLimit = delays("5m") }) } })
      ask(world, "a", 2, inPlan("free"))
      world.run(100)
      local pro = ask(world, "a", 20, inPlan("pro"))
      world.run(1000)
      assert.same({ [200] = 20 }, world.statuses(pro))
    end)

    it("is of one version of the limits, at all workers", function()
      for worker = 1, 2 do
        local small = policy("a", fixed("1/60s"), { scope = scope, onLimit = delays("5m") })
        local large = policy("a", fixed("1000/60s"), { scope = scope, onLimit = delays("5m") })
        local world = support.world({ workers = 2, policies = { small } })
        ask(world, "a", 2, { worker = 1 })
        world.run(50)
        world.publish({ large })
        world.run(50)
        local later = {}
        for i = 1, 20 do
          world.run(100)
          later[i] = ask(world, "a", 1, { worker = worker })[1]
        end
        world.run(1000)
        assert.same({ [200] = 20 }, world.statuses(later), "worker " .. worker)
      end
    end)

    it("refuses nobody who has time, behind other workers, whatever limit is named first", function()
      local slow, quick = named("daily", bucket("1000/1d", 1000)), named("burst", bucket("10/1s", 1))
      for _, limits in ipairs({ { slow, quick }, { quick, slow } }) do
        for workers = 1, 4 do
          local own = policy("a", nil, { scope = scope, limits = limits, onLimit = delays("10s") })
          local world = support.world({ workers = workers, policies = { own } })
          local requests = {}
          for i = 1, 40 do
            requests[i] = ask(world, "a", 1, { worker = (i - 1) % workers + 1 })[1]
            world.run(5)
          end
          world.run(15000)
          assert.same({ [200] = 40 }, world.statuses(requests), workers .. " workers")
        end
      end
    end)
  end)
end

describe("a line of requests that wait", function()
  it("has its own places: checks that wait take none of them", function()
    local own = policy("a", bucket("2/1s", 1), { scope = "node", onLimit = delays("10s") })
    local world = support.world({})
    world.publish({ own }, nil, { support.callerSha256 })
    world.run(20)
    for i = 1, 200 do support.check(world, { { policy = "a", key = { "caller " .. i % 5 }, maxWait = "60s" } }) end
    world.run(100)
    local honest = {}
    for i = 1, 20 do
      honest[i] = ask(world, "a", 1, { key = "ann" })[1]
      world.run(250)
    end
    world.run(15000)
    assert.same({ [200] = 20 }, world.statuses(honest))
  end)
end)
