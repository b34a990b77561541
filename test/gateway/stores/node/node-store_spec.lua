-- gateway/src/stores/node: several workers share one count, and together they admit what one would, wherever one of them is
-- interrupted by the others.

local support = require("test.gateway.virtual.support")
local ask, bucket, fixed, policy = support.ask, support.bucket, support.fixed, support.policy

local function node(name, limit, more)
  return policy(name, limit, support.with({ scope = "node" }, more or {}))
end

for _, restyLock in ipairs({ true, false }) do
  -- Four workers; time passes while one of them decides, and the others go on meanwhile.
  local function worldWith(policies, seed, interruptions)
    local world = support.world({ policies = policies, redis = false, workers = 4, seed = seed, restyLock = restyLock })
    world.interruptions, world.interruptedUs = interruptions or 0.02, 300
    return world
  end

  -- Requests at random moments of the next so many ms, each at any worker. The answers are there when this time has passed.
  local function spread(world, count, ms)
    local random = world.clock.random
    local requests = {}
    for i = 1, count do
      world.at(random() * ms, function()
        requests[i] = ask(world, "a", 1, { worker = random(1, 4), serviceUs = 0 })[1]
      end)
    end
    return requests
  end

  describe("four workers, " .. (restyLock and "with" or "without") .. " lua-resty-lock,", function()
    it("admit exactly 100 of 1,000 concurrent requests in each of ten fixed windows in a row", function()
      local world = worldWith({ node("a", fixed("100/2s")) }, 1)
      for window = 1, 10 do
        world.clock.runUntil(window * 2000000 + 20000)
        local requests = ask(world, "a", 1000, { worker = 0, serviceUs = 0 })
        world.run(1900)
        assert.same({ [200] = 100, [429] = 900 }, world.statuses(requests), "window " .. window)
      end
      support.assertQuiet(world)
    end)

    it("admit as many in each window also while requests come at its very end and the next one's beginning", function()
      for seed = 1, 4 do
        local world = worldWith({ node("a", fixed("10/1s")) }, seed, 0.3)
        world.run(500)
        local requests = spread(world, 400, 4000)
        world.run(4500)
        local admitted = {}
        for _, request in ipairs(requests) do
          if request.passed then
            -- A request counts by the clock that its worker had cached when it decided, not by when it was told.
            local window = math.floor(request.beganUs / 1000000)
            admitted[window] = (admitted[window] or 0) + 1
          end
        end
        for window = 1, 3 do
          assert.is_near(10, admitted[window], 1, ("seed %d, window %d"):format(seed, window))
        end
        assert.equal(50, world.statuses(requests)[200], "seed " .. seed)
        support.assertQuiet(world)
      end
    end)

    it("limit a token bucket of 50/s, burst 50, to burst + rate × time, and admit all of that", function()
      for seed = 1, 3 do
        local world = worldWith({ node("a", bucket("50/1s", 50)) }, seed)
        local requests = spread(world, 2000, 10000)
        world.run(10000)
        local passed = world.statuses(requests)[200]
        assert.is_true(passed <= 550 and passed >= 548, ("seed %d: %d"):format(seed, passed))
        -- Nor within any part of that time.
        local atUs = {}
        for _, request in ipairs(requests) do
          if request.passed then
            atUs[#atUs + 1] = request.decidedUs
          end
        end
        table.sort(atUs)
        for first = 1, #atUs, 7 do
          for last = first + 60, #atUs, 13 do
            local seconds = (atUs[last] - atUs[first]) / 1000000
            -- A worker decides by its cached clock, and may have been interrupted or waited for a lock since.
            assert.is_true(last - first + 1 <= 50 + 50 * (seconds + 0.05) + 1, ("seed %d"):format(seed))
          end
        end
        support.assertQuiet(world)
      end
    end)

    local algorithms = {
      bucket("1/1h", 30),
      { algorithm = "sliding-window", quota = 30, window = "1h" },
      { algorithm = "sliding-log", quota = 30, window = "1h" },
      { algorithm = "leaky-bucket", quota = 1, window = "60s", burst = 30, maxDelay = "1h" },
    }
    for _, limit in ipairs(algorithms) do
      it("admit exactly as many as a " .. limit.algorithm .. " allows, of hundreds of concurrent requests", function()
        for seed = 1, 3 do
          local world = worldWith({ node("a", limit) }, seed, 0.1)
          local requests = ask(world, "a", 300, { worker = 0, serviceUs = 0 })
          world.run(5000)
          local statuses = world.statuses(requests)
          -- A leaky bucket has all but the first wait, for a minute and more.
          local waits = limit.algorithm == "leaky-bucket" and 30 or 0
          assert.same({ waits > 0 and 1 or 30, waits }, { statuses[200], statuses.open or 0 }, "seed " .. seed)
        end
      end)
    end

    it("charge several limits of one policy together or not at all", function()
      for seed = 1, 4 do
        local function pair(quota)
          local few = support.with(fixed(quota .. "/366d"), { name = "few" })
          return node("a", few, { limits = { few, support.with(bucket("1/1d", 1000), { name = "many" }) } })
        end
        local world = worldWith({ pair(30) }, seed, 0.1)
        local requests = ask(world, "a", 300, { worker = 0 })
        world.run(3000)
        assert.same({ [200] = 30, [429] = 270 }, world.statuses(requests), "seed " .. seed)
        -- With the small limit widened, the other limit is the most restrictive: it was charged only for the 30 that were admitted.
        world.publish({ pair(5000) })
        world.run(20)
        local further = ask(world, "a")[1]
        world.run(2)
        assert.equal("969", further.headers["X-RateLimit-Remaining"], "seed " .. seed)
        support.assertQuiet(world)
      end
    end)

    it("refund exactly what policies before charged to requests that a later policy refuses", function()
      for seed = 1, 4 do
        local first = node("first", fixed("100/366d"), { priority = 2, match = { paths = { "/a", "/first" } } })
        local bucketed = node("second", bucket("1/1d", 100), { priority = 1, match = { paths = { "/a", "/second" } } })
        local world = worldWith({ first, bucketed, node("a", fixed("10/366d")) }, seed, 0.1)
        local requests = ask(world, "a", 90, { worker = 0 })
        world.run(3000)
        assert.same({ [200] = 10, [429] = 80 }, world.statuses(requests), "seed " .. seed)
        world.interruptions = 0
        for _, name in ipairs({ "first", "second" }) do
          local further = ask(world, name)[1]
          world.run(10)
          assert.equal("89", further.headers["X-RateLimit-Remaining"], ("seed %d, %s"):format(seed, name))
        end
        support.assertQuiet(world)
      end
    end)
  end)
end
