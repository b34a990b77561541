-- gateway/src/push/receive.ts and snapshot/distribution.ts: when the owner of the push socket says that a snapshot is applied.

local nginx = require("test.gateway.virtual.nginx")
local support = require("test.gateway.virtual.support")

local limit = support.fixed("3/1h")

local function snapshotOf(revision)
  local text = ('{"type":"snapshot","format":1,"epoch":"e1","revision":%d,\n"bans":[\n],\n"callers":[\n],\n"policies":[\n%s\n]}\n'):format(
    revision,
    '{"app":"shop","document":{"name":"a","match":{"paths":["/a"]},"limits":[{"algorithm":"fixed-window","quota":3,"window":"1h"}]}}'
  )
  return { text }
end

-- A world of two workers, of which the first receives a snapshot of revision 7 in this moment.
local function receiving(seed, before)
  local world = nginx.world({ seed = seed, workers = 2, redis = false, policies = { support.policy("b", limit) } })
  world.run(50)
  local receive = world.workers[1].module("gateway.src.push.receive")
  local settings = { gatewayDir = "/nowhere/of-a-virtual-nginx" }
  local said = {}
  if before then
    before(world)
  end
  world.workers[1].call(function()
    said.answer = receive.receive(settings, snapshotOf(7), function()
      return true
    end)
    said.atUs = world.clock.nowUs
  end)
  local function lateAnswer()
    local late
    world.workers[1].call(function()
      late = receive.lateAnswer()
    end)
    world.run(1)
    return late
  end
  return world, said, lateAnswer
end

describe("the owner of the push socket", function()
  it("says that a snapshot is applied when the last worker has it", function()
    for seed = 1, 10 do
      local world, said, lateAnswer = receiving(seed, function(world)
        world.workers[2].block(300000)
      end)
      local beganUs = world.clock.nowUs
      world.run(290)
      assert.is_nil(said.atUs, "seed " .. seed)
      world.run(30)
      assert.same({ type = "applied", epoch = "e1", revision = 7 }, said.answer)
      assert.is_true(said.atUs - beganUs >= 300000, tostring(said.atUs - beganUs))
      assert.is_nil(lateAnswer())
      -- Both serve by it.
      for number = 1, 2 do
        local request = support.ask(world, "a", 1, { worker = number })[1]
        world.run(5)
        assert.equal("3", request.headers["X-RateLimit-Limit"])
      end
      support.assertQuiet(world)
    end
  end)

  it("says that a snapshot is held where a worker hangs for longer than ten seconds, and that it is applied when that one goes on", function()
    for seed = 1, 10 do
      local world, said, lateAnswer = receiving(seed, function(world)
        world.workers[2].block(12000000)
      end)
      local beganUs = world.clock.nowUs
      world.run(10500)
      assert.same({ type = "held", epoch = "e1", revision = 7 }, said.answer)
      assert.is_true(said.atUs - beganUs >= 10000000 and said.atUs - beganUs <= 10100000, tostring(said.atUs - beganUs))
      assert.equal(1, #world.logged("not every worker has applied revision 7 yet"))
      assert.is_nil(lateAnswer(), "seed " .. seed)
      -- The others serve by the new one meanwhile.
      local request = support.ask(world, "a", 1, { worker = 1 })[1]
      world.run(5)
      assert.equal("3", request.headers["X-RateLimit-Limit"])
      world.run(1550)
      assert.same({ type = "applied", epoch = "e1", revision = 7 }, lateAnswer())
      assert.is_nil(lateAnswer(), "it is said once")
      support.assertQuiet(world)
    end
  end)
end)
