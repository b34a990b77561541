-- The virtual nginx itself: where it is not as nginx and ngx_lua are, specs that use it say nothing.

local nginx = require("test.gateway.virtual.nginx")

local function worldWith(options)
  options = options or {}
  options.policies = options.policies or {}
  options.redis = false
  local world = nginx.world(options)
  world.run(1)
  return world, world.workers[1], world.workers[1].ngx
end

-- Runs a function in the worker, and time for so many ms.
local function inWorker(world, work, ms, number)
  world.workers[number or 1].call(work)
  world.run(ms or 1000)
  assert.same({}, world.errors)
end

describe("a virtual nginx", function()
  it("has a clock that stands for a turn, and a stopwatch", function()
    local world, worker, ngx = worldWith({ lookUs = 100 })
    inWorker(world, function()
      local now, us = ngx.now(), worker.stopwatchUs()
      for _ = 1, 100 do
        worker.stopwatchUs()
      end
      assert.equal(now, ngx.now())
      assert.is_true(worker.stopwatchUs() > us + 2000)
      ngx.update_time()
      assert.is_true(ngx.now() > now)
    end)
  end)

  it("ends sleeps by whole ms of its cached time", function()
    local world, worker, ngx = worldWith()
    world.clock.runUntil(10300)
    local woke = {}
    inWorker(world, function()
      ngx.sleep(0.0059)
      woke[1] = world.clock.nowUs
      ngx.sleep(0.0009)
      woke[2] = world.clock.nowUs
    end)
    -- 10.3 ms count as 10, 5.9 as 5, and 0.9 as none.
    assert.same({ 15000, 15001 }, woke)
  end)

  it("begins nothing else of a worker that stands still, and another worker goes on", function()
    local world, _, ngx = worldWith({ workers = 2 })
    local moments = {}
    for number = 1, 2 do
      world.workers[number].call(function()
        world.workers[number].ngx.sleep(0.01)
        moments[number] = world.clock.nowUs
      end)
    end
    world.at(5, function()
      world.workers[1].block(50000)
    end)
    world.run(100)
    assert.is_true(moments[1] >= 55000 and moments[2] < 12000)
    assert.is_not_nil(ngx)
  end)

  it("wakes who waits for a semaphore in their order, when the turn has ended", function()
    local world, worker, ngx = worldWith()
    local semaphore = worker.module("gateway.src.runtime.lua-modules").semaphoreLibrary.new(0)
    local told = {}
    for i = 1, 3 do
      worker.call(function()
        local had = semaphore:wait(0.05)
        told[#told + 1] = i .. " " .. tostring(had)
      end)
    end
    world.run(1)
    assert.equal(-3, semaphore:count())
    inWorker(world, function()
      semaphore:post(2)
      told[#told + 1] = "posted"
      assert.same({ nil, "timeout" }, { semaphore:wait(0) })
      ngx.sleep(0.1)
    end)
    assert.same({ "posted", "1 true", "2 true", "3 nil" }, told)
    inWorker(world, function()
      semaphore:post(1)
      assert.is_true(semaphore:wait(0))
      -- Less than a ms is no time: who asks so does not wait, and nobody else has a turn.
      local before = world.clock.nowUs
      assert.same({ nil, "timeout" }, { semaphore:wait(0.0009) })
      assert.equal(before, world.clock.nowUs)
    end)
  end)

  it("shares its dicts among workers, whose entries end by the wall clock", function()
    local world, _, ngx = worldWith({ workers = 2 })
    local other = world.workers[2].ngx.shared.sluice_counters
    inWorker(world, function()
      local dict = ngx.shared.sluice_counters
      assert.same({ true, nil, false }, { dict:set("a", 1, 0.01) })
      assert.same({ false, "exists", false }, { dict:safe_add("a", 2) })
      assert.same({ 3, nil, false }, { dict:incr("a", 2) })
      assert.same({ nil, "not found", false }, { dict:incr("b", 2) })
      assert.equal(7, (dict:incr("b", 2, 5)))
      ngx.sleep(0.01)
      assert.equal(3, (dict:get("a")))
      ngx.sleep(0.001)
      assert.is_nil((dict:get("a")))
      assert.is_true((dict:safe_add("a", 4)))
    end)
    assert.same({ 4, 7 }, { (other:get("a")), (other:get("b")) })
  end)

  it("has dicts that say when they are full, and evict only where they may", function()
    local world, _, ngx = worldWith({ sizes = { sluice_locks = 8192 } })
    inWorker(world, function()
      local dict, stored = ngx.shared.sluice_locks, 0
      while dict:safe_add("key " .. stored, true) do
        stored = stored + 1
      end
      assert.same({ false, "no memory", false }, { dict:safe_set("one more", true) })
      local _, _, forcible = dict:set("one more", true)
      assert.is_true(forcible)
      assert.is_nil((dict:get("key 0")))
      assert.is_true((dict:get("key 1")))
    end)
  end)

  it("tells its timers that they come too early when a worker is to end, and waits for those that run", function()
    local world, worker, ngx = worldWith()
    local told = {}
    inWorker(world, function()
      ngx.timer.at(100, function(premature)
        told[#told + 1] = premature
        told[#told + 1] = (select(2, ngx.timer.at(1, function() end)))
        ngx.sleep(0.2)
        told[#told + 1] = worker.gone
      end)
    end, 10)
    worker.quit()
    world.run(100)
    assert.is_false(worker.gone)
    world.run(200)
    assert.same({ true, "process exiting", false }, told)
    assert.is_true(worker.gone)
  end)

  it("drops timers beyond those that may run", function()
    local world, worker, ngx = worldWith()
    world.mostRunningTimers = 3
    local ran = 0
    inWorker(world, function()
      for _ = 1, 10 do
        ngx.timer.at(0, function()
          ran = ran + 1
          ngx.sleep(1)
        end)
      end
    end, 500)
    assert.is_true(ran <= 3 and worker.runningTimers <= 3)
    assert.is_true(#world.logged("lua_max_running_timers") > 0)
  end)

  it("takes back what a request waits for before its log phase, and frees it after that", function()
    local world, worker, ngx = worldWith()
    local told = {}
    local slot, address
    local semaphore = worker.module("gateway.src.runtime.lua-modules").semaphoreLibrary.new(0)
    worker.sluice.access = function()
      address = tostring(worker.task.request)
      ngx.ctx.mine = true
      slot = worker.task.request.contextSlot
      semaphore:wait(1)
      told[#told + 1] = "woke"
    end
    worker.sluice.log = function()
      told[#told + 1] = semaphore:count()
      told[#told + 1] = ngx.ctx.mine
      told[#told + 1] = pcall(ngx.sleep, 0.001)
    end
    local request = worker.request("/")
    world.at(10, request.abort)
    world.run(2000)
    assert.same({ 0, true, false }, told)
    assert.not_equal("table", type(worker.contexts[slot]))
    assert.equal(0, #worker.requests)
    -- A later request may have the same address.
    worker.request("/")
    local before = address
    world.run(1)
    assert.equal(before, address)
  end)

  it("lets another worker have its turn between two accesses to shared memory, where it is told to", function()
    local lost = false
    for seed = 1, 20 do
      local world = worldWith({ workers = 2, seed = seed })
      world.interruptions, world.interruptedUs = 0.5, 100
      for number = 1, 2 do
        local worker = world.workers[number]
        worker.call(function()
          local dict = worker.ngx.shared.sluice_counters
          for _ = 1, 10 do
            dict:set("sum", (dict:get("sum") or 0) + 1)
            dict:incr("exact", 1, 0)
          end
        end)
      end
      world.run(100)
      local dict = world.dict("sluice_counters")
      assert.equal(20, (dict:get("exact")))
      lost = lost or dict:get("sum") < 20
    end
    assert.is_true(lost)
  end)
end)
