-- gateway/src/stores/node/key-lock.ts: the lock of a counter that several workers share, with lua-resty-lock and without it.

local support = require("test.gateway.virtual.support")
local ask, bucket, metric, policy = support.ask, support.bucket, support.metric, support.policy

local five = policy("a", bucket("1/1h", 5), { scope = "node" })

for _, restyLock in ipairs({ true, false }) do
  local function worldWith(options)
    local world = support.world(support.with({ policies = { five }, redis = false, workers = 2, restyLock = restyLock }, options or {}))
    -- The objects of lua-resty-lock that workers make.
    local made = {}
    for _, worker in pairs(world.workers) do
      local library = worker.module("gateway.src.runtime.lua-modules").lockLibrary
      assert.equal(restyLock, library ~= nil)
      if library then
        local new = library.new
        function library.new(...)
          local object, failure = new(...)
          made[#made + 1] = object
          return object, failure
        end
      end
    end
    return world, made
  end

  local function remaining(request)
    return tonumber(request.headers["X-RateLimit-Remaining"])
  end

  -- The lock of a counter has the name of the counter's cell.
  local function cellOf(world)
    local cells = world.dict("sluice_counters"):get_keys(0)
    assert.equal(1, #cells)
    return cells[1]
  end

  describe("the lock of a counter, " .. (restyLock and "with" or "without") .. " lua-resty-lock,", function()
    it("is taken at once where it is free, without an object of lua-resty-lock", function()
      local world, made = worldWith()
      local left = {}
      for i = 1, 7 do
        local request = ask(world, "a", 1, { worker = i % 2 + 1 })[1]
        -- So short that it was decided without any sleep.
        world.run(0.001)
        left[i] = request.passed and remaining(request) or request.status
      end
      assert.same({ 4, 3, 2, 1, 0, 429, 429 }, left)
      assert.equal(0, #made)
      assert.same({}, world.dict("sluice_locks"):get_keys(0))
      world.run(2)
      support.assertQuiet(world)
    end)

    it("is waited for where it is taken, and the request is charged once", function()
      local world, made = worldWith()
      local first = ask(world, "a")[1]
      world.run(1)
      assert.equal(4, remaining(first))
      world.dict("sluice_locks"):set(cellOf(world), true, 0.2)
      local second = ask(world, "a", 1, { worker = 2 })[1]
      world.run(200)
      assert.is_nil(second.status)
      world.run(20)
      assert.equal(3, remaining(second))
      -- It looks after 1, 2, 4, 8, 16 ms more, then each 20 ms.
      assert.is_near(211000, second.decidedUs - second.beganUs, 1000)
      assert.equal(restyLock and 1 or 0, #made)
      -- The lock was freed, so the next request does not wait.
      local third = ask(world, "a")[1]
      world.run(0.001)
      assert.equal(2, remaining(third))
      assert.equal(restyLock and 1 or 0, #made)
      assert.equal(0, metric(world, "sluice_lock_timeouts_total"))
      support.assertQuiet(world)
    end)

    it("is done without where it cannot be had in time, which is counted", function()
      local world = worldWith()
      ask(world, "a")
      world.run(1)
      world.dict("sluice_locks"):set(cellOf(world), true)
      local request = ask(world, "a", 1, { worker = 2 })[1]
      world.run(1000)
      assert.equal(3, remaining(request))
      -- lua-resty-lock waits for no longer than a lock lives.
      assert.is_near(restyLock and 500000 or 600000, request.decidedUs - request.beganUs, 2000)
      assert.equal(1, metric(world, "sluice_lock_timeouts_total"))
      support.assertQuiet(world)
    end)

    it("is done without soon where there is no memory for it, which is counted", function()
      local world, made = worldWith({ sizes = { sluice_locks = 8192 } })
      ask(world, "a")
      world.run(1)
      local locks, stored = world.dict("sluice_locks"), 0
      while locks:safe_add("lock of another counter " .. stored, true, 60) do
        stored = stored + 1
      end
      for left = 3, 0, -1 do
        local request = ask(world, "a", 1, { worker = 2 })[1]
        world.run(25)
        assert.equal(left, remaining(request))
        assert.is_true(request.decidedUs - request.beganUs <= 20000)
      end
      -- No lock of another counter was evicted for it.
      assert.equal(stored, #locks:get_keys(0))
      world.run(100)
      assert.equal(4, metric(world, "sluice_lock_timeouts_total"))
      assert.equal(0, #made)
      support.assertQuiet(world)
    end)

    it("of a worker that is killed while it holds it is free again after half a second", function()
      for seed = 1, 20 do
        local world = worldWith({ seed = seed })
        ask(world, "a")
        world.run(1)
        -- The worker is killed between two accesses to shared memory, one of which was the lock's.
        world.interruptions, world.interruptedUs = 1, 1000
        ask(world, "a")
        local locks = world.dict("sluice_locks")
        while #locks:get_keys(0) == 0 do
          world.run(0.05)
        end
        world.workers[1].kill()
        world.interruptions = 0
        -- As many as there are, at any moments since.
        local requests = {}
        for i = 1, 10 do
          world.at(1 + world.clock.random() * 400, function()
            requests[i] = ask(world, "a", 1, { worker = 2 })[1]
          end)
        end
        world.run(450)
        for i = 1, 10 do
          assert.is_nil(requests[i].status)
        end
        world.run(150)
        -- Of five units one was the first request's, and one perhaps the killed worker's.
        local passed = world.statuses(requests)[200]
        assert.is_true(passed == 3 or passed == 4, ("seed %d: %s passed"):format(seed, tostring(passed)))
        assert.equal(0, metric(world, "sluice_lock_timeouts_total", world.workers[2]))
        assert.same({}, locks:get_keys(0))
      end
    end)

    it("has one holder at a time, whenever other workers have their turns, and is left by none", function()
      local waited = 0
      for seed = 1, 40 do
        local world, made = worldWith({ seed = seed, workers = 3 })
        world.interruptions, world.interruptedUs = 0.3, 3000
        local random = world.clock.random
        local holders, done = {}, 0
        for _, worker in ipairs(world.workers) do
          for _ = 1, 15 do
            worker.call(function()
              local lock = worker.module("gateway.src.stores.node.key-lock")
              local key = "key " .. random(1, 2)
              worker.ngx.sleep(random(0, 20) / 1000)
              assert.is_true(lock.acquire(key))
              assert.is_nil(holders[key], "two hold it")
              holders[key] = worker
              worker.ngx.shared.sluice_counters:incr("looked at", 1, 0)
              holders[key] = nil
              lock.release(key)
              done = done + 1
            end)
          end
        end
        world.run(1000)
        assert.same({}, world.errors, "seed " .. seed)
        assert.equal(45, done)
        world.interruptions = 0
        assert.same({}, world.dict("sluice_locks"):get_keys(0))
        assert.equal(0, metric(world, "sluice_lock_timeouts_total"))
        waited = waited + #made
        for _, object in ipairs(made) do
          -- Or it would delete its key when it is collected, whoever holds that by then.
          assert.is_nil(object.key)
        end
      end
      assert.is_true(waited > 100 or not restyLock, tostring(waited))
    end)
  end)
end
