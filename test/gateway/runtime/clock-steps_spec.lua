-- Pauses, deadlines and ages go by a clock that nobody sets: they are the same when the machine's clock steps by an hour.

local support = require("test.gateway.virtual.support")

local hourUs = 3600000000

-- Has a worker run `work` in a turn, where it may wait, and returns what it returned by then.
local function call(world, work, ...)
  local result
  local arguments = { ... }
  world.workers[1].call(function()
    result = work(unpack(arguments))
  end)
  return result
end

local function start(options)
  local world = support.world(support.with({ policies = {}, redis = false }, options or {}))
  return world, function(name)
    return world.workers[1].module("gateway.src." .. name)
  end
end

for _, stepUs in ipairs({ -hourUs, hourUs }) do
  describe(("after a step of the clock by %d s,"):format(stepUs / 1000000), function()
    it("a line that is logged once a second is logged a second later", function()
      local world, module = start()
      local log = module("runtime.sparing-log")
      local function lines()
        local count = 0
        for _, line in ipairs(world.log) do
          count = count + (line.text:find("something failed", 1, true) and 1 or 0)
        end
        return count
      end
      for _ = 1, 5 do
        call(world, log.warnSparingly, "something failed", "it did")
      end
      assert.equal(1, lines())
      world.wallUs = world.wallUs + stepUs
      world.run(1100)
      call(world, log.warnSparingly, "something failed", "it did")
      assert.equal(2, lines())
    end)

    it("a revision that no worker applies is given up after its time", function()
      local world, module = start()
      local ended
      world.workers[1].call(function()
        ended = { module("snapshot.applied-versions").waitUntilApplied(1000, 10, function()
          return true
        end), world.clock.nowUs }
      end)
      local beganUs = world.clock.nowUs
      world.run(5000)
      world.wallUs = world.wallUs + stepUs
      world.run(4900)
      assert.is_nil(ended)
      world.run(200)
      assert.is_false(ended[1])
      assert.is_true(ended[2] - beganUs >= 9990000)
    end)

    it("workers of a reload lock for as long as those before them may live", function()
      local world = start()
      world.generation = 2
      local worker = world.addWorker(1)
      worker.begin()
      world.run(1000)
      world.wallUs = world.wallUs + stepUs
      world.run(50000)
      local mustAgree = worker.module("gateway.src.stores.node.node-counters").mustAgree
      assert.is_true(mustAgree())
      world.run(10000)
      assert.is_false(mustAgree())
    end)

    it("the control plane counts as connected for two seconds, and how long policies are in force does not change", function()
      local world, module = start()
      local gateways, current = module("snapshot.live-gateways"), module("snapshot.current")
      call(world, current.noteChanged)
      call(world, gateways.setConnected, true)
      world.run(1000)
      assert.is_true(call(world, gateways.isConnected))
      world.wallUs = world.wallUs + stepUs
      world.run(1200)
      assert.is_false(call(world, gateways.isConnected))
      local age = support.metric(world, 'sluice_snapshot_age_seconds{worker="0"}')
      assert.is_true(age >= 2 and age < 3, tostring(age))
    end)

    it("what was decided is reported within half a second, and the keys within ten", function()
      local world, module = start({ policies = { support.policy("a", support.fixed("5/1h"), { scope = "node" }) } })
      local takeActivity = module("metrics.activity").takeActivity
      local function reported(ms)
        world.run(ms)
        return table.concat(call(world, takeActivity, 1000000))
      end
      support.ask(world, "a", 3)
      assert.matches('"allowed":3', reported(1200))
      world.wallUs = world.wallUs + stepUs
      support.ask(world, "a", 1)
      assert.matches('"allowed":1', reported(1200))
      world.run(9000)
      assert.matches('"keys":%[{', reported(1200))
    end)
  end)
end

describe("after the clock has stepped back by an hour,", function()
  it("a gateway that has gone counts for 30 seconds more, and not for an hour", function()
    local world, module = start()
    local gateways = module("snapshot.live-gateways")
    local settings = "/nowhere/of-a-virtual-nginx/"
    call(world, gateways.keepLiveGateways, settings, 3)
    call(world, gateways.keepLiveGateways, settings, 2)
    world.run(29000)
    assert.equal(3, call(world, gateways.liveGateways))
    world.wallUs = world.wallUs - hourUs
    world.run(1200)
    assert.equal(2, call(world, gateways.liveGateways))
  end)

  it("a defect counts as recent for five minutes", function()
    local world, module = start()
    local defects = module("runtime.defects")
    call(world, defects.countDefect, "push")
    world.run(299000)
    assert.same({ "push" }, call(world, defects.recentDefects))
    world.wallUs = world.wallUs - hourUs
    world.run(1200)
    assert.same({}, call(world, defects.recentDefects))
  end)
end)
