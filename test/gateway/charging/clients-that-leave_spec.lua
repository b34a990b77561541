-- gateway/src/charging/admit.ts: a client leaves while Redis is asked. Its request is charged by all of its policies, or by none: a limit of
-- its own that charged nothing would never hold, and a limit that all share would be used up.

local redisCluster = require("test.gateway.virtual.redis-cluster")
local support = require("test.gateway.virtual.support")
local fixed, policy, with = support.fixed, support.policy, support.with
local leased, onNode = { consistency = "leased" }, { scope = "node" }
local total, few = fixed("10000/1h"), fixed("5/1h")

-- A request to /shared whose client leaves so many ms later, if it is not decided by then.
local function askAndLeave(world, afterMs)
  local request = support.ask(world, "shared", 1, { serviceUs = 0 })[1]
  world.at(afterMs, function()
    if not request.decidedUs then
      request.abort()
    end
  end)
end

-- Calls `left` if the client leaves so many ms later, because its request has not ended by then.
local function leaveAfter(world, request, afterMs, left)
  world.at(afterMs, function()
    if not request.ended then
      left()
      request.abort()
    end
  end)
end

local function worldWith(shared, own)
  local second = policy("own", few, own)
  second.match = { paths = { "/shared" } }
  local world = support.world({ policies = { policy("shared", total, shared), second } })
  world.redis.upUs, world.redis.downUs = 5000, 5000
  return world
end

local function assertAllOrNone(world, own, most)
  local shared = support.used(world, "shared", total)
  assert.is_true(shared <= most, ("%d of the shared limit"):format(shared))
  if own.scope ~= "node" then
    assert.is_true(shared <= support.used(world, "own", few), ("%d of the shared limit"):format(shared))
  end
  support.assertQuiet(world)
end

describe("a client that leaves while Redis is asked", function()
  local tagged = { onLimit = { action = "tag", header = "x-mark: over" } }
  local kinds = {
    ["exact beside a node policy"] = { {}, onNode },
    ["leased beside a node policy"] = { leased, onNode },
    ["exact beside exact"] = { {}, {} },
    ["exact beside leased"] = { {}, leased },
    ["leased beside exact"] = { leased, {} },
    ["leased beside leased"] = { leased, leased },
    ["tagged beside exact"] = { tagged, {} },
  }
  for name, kind in pairs(kinds) do
    it("uses no more of a shared limit than of its own: " .. name, function()
      local world = worldWith(kind[1], kind[2])
      for i = 0, 99 do
        world.at(i * 5, function()
          askAndLeave(world, 2)
        end)
      end
      world.run(4000)
      assertAllOrNone(world, kind[2], 5)
    end)
  end

  for name, more in pairs({ exact = {}, leased = leased }) do
    it("is charged nothing by the check API: " .. name, function()
      local world = worldWith(more, {})
      local worker = world.workers[1]
      local decide = worker.module("gateway.src.check-api.decide").decideRequestedChecks
      local shared = worker.module("gateway.src.snapshot.current").policiesOf("shop").shared
      for i = 0, 49 do
        world.at(i * 50, function()
          worker.sluice.checked = function()
            local one =
              { policy = shared, applied = shared, values = { "k" }, keyValues = "1:k", cost = 1, isPeek = false, maxWaitUs = 0, holds = false }
            decide({ allowedSeries = "x", refusedSeries = "y" }, { one }, {}, true)
          end
          local request = worker.request({ uri = "/api", content = "checked" })
          world.at(2, function()
            request.abort()
          end)
        end)
      end
      world.run(4000)
      assert.equal(0, support.used(world, "shared", total))
      support.assertQuiet(world)
    end)
  end

  it("uses up no shared limit by a policy in shadow mode, which Redis is asked for", function()
    local own = policy("own", few, with(onNode, { priority = 1, match = { paths = { "/shared" } } }))
    local shadow = policy("shadow", total, { priority = 5, mode = "shadow", match = { paths = { "/shared" } } })
    for _, onLimit in ipairs({ tagged.onLimit, { action = "delay", maxDelay = "1s" } }) do
      local world = support.world({ policies = { policy("shared", total, { priority = 10, onLimit = onLimit }), shadow, own } })
      world.redis.upUs, world.redis.downUs = 2000, 2000
      for i = 0, 99 do
        world.at(i * 50, function()
          askAndLeave(world, 6)
        end)
      end
      world.run(8000)
      assert.equal(0, support.used(world, "shared", total))
    end
  end)

  -- A refusal by the node has a round trip of refunds before Redis is asked for the policy in shadow mode. The five checks that are allowed have been
  -- answered by then.
  for name, case in pairs({
    ["asked in the same call"] = { "cluster", 6, 50 },
    ["that refuses while it is refunded"] = { "node", 6, 50 },
    ["that has refused"] = { "node", 10, 55 },
  }) do
    it("is charged nothing by checks beside a policy in shadow mode: own limit " .. name, function()
      local scope, afterMs, used = case[1], case[2], case[3]
      local world = support.world({})
      local shadow = policy("shadow", total, { mode = "shadow" })
      world.publish({ policy("shared", total), policy("own", few, { scope = scope }), shadow }, nil, { support.callerSha256 })
      world.run(50)
      -- Units of others, which nobody may refund.
      support.ask(world, "shared", 50)
      world.run(200)
      assert.equal(50, support.used(world, "shared", total))
      world.redis.upUs, world.redis.downUs = 2000, 2000
      local left = 0
      for i = 0, 99 do
        world.at(i * 50, function()
          local request = support.check(world, { { policy = "shared", key = { "k" } }, { policy = "own", key = { "k" } }, { policy = "shadow", key = { "k" } } })
          leaveAfter(world, request, afterMs, function() left = left + 1 end)
        end)
      end
      world.run(8000)
      assert.is_true(left > 90)
      assert.equal(used, support.used(world, "shared", total))
    end)
  end
end)

-- There, one call for each slot charges one after the other, and so do refunds.
describe("a client of a Redis Cluster that leaves at any moment", function()
  local tag = { action = "tag", header = "x-mark: over" }
  local response = { action = "degrade", response = { status = 200, body = "cheaper" } }
  local function at(name, priority, limit, more)
    return policy(name, limit, with({ priority = priority, match = { paths = { "/shared" } } }, more or {}))
  end
  local owns = {
    ["by the call that refuses"] = { {}, {} },
    ["by refunds, after a node policy refused"] = { { onLimit = tag }, onNode },
    ["by refunds, after another call refused"] = { { onLimit = tag }, { onLimit = response } },
  }
  for name, case in pairs(owns) do
    it("uses up no shared limit: " .. name, function()
      local shared = { "s1", "s2", "s3" }
      local policies = { at("own", 1, fixed("1/1h"), case[2]) }
      for i, each in ipairs(shared) do policies[#policies + 1] = at(each, 10 - i, total, case[1]) end
      local world = support.world({ deploys = redisCluster.deploys({ nodes = 3 }), policies = policies })
      for _, node in ipairs(world.deployment.nodes) do node.upUs, node.downUs = 1000, 1000 end
      support.ask(world, "shared", 1)
      world.run(500)
      local before = {}
      for _, each in ipairs(shared) do before[each] = support.used(world, each, total) end
      local left = 0
      for i = 1, 60 do
        world.at(i * 50, function()
          local request = support.ask(world, "shared", 1)[1]
          leaveAfter(world, request, i * 0.25, function() left = left + 1 end)
        end)
      end
      world.run(8000)
      assert.is_true(left > 20, left)
      for _, each in ipairs(shared) do assert.equal(before[each], support.used(world, each, total), each) end
    end)
  end
end)
