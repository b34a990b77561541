-- gateway/src/redis/sentinel.ts and discovery.ts: which server is the primary, and what happens when it is not, or no sentinel says so.

local nginx = require("test.gateway.virtual.nginx")
local redisSentinel = require("test.gateway.virtual.redis-sentinel")
local support = require("test.gateway.virtual.support")
local ask, fixed, policy, used = support.ask, support.fixed, support.policy, support.used

local day = fixed("100000/1d")
local deadlineUs = 200000

local function denying(limit)
  return policy("a", limit, support.denies)
end

-- A world whose workers have not begun yet: `how(deployment)` says what is the matter.
local function worldWhere(how, options)
  options = options or {}
  return nginx.world(support.with({
    policies = { denying(options.limit or day) },
    deploys = function(clock)
      local deployment = redisSentinel.new(clock, options.sentinel or {})
      for _, server in ipairs(deployment.servers) do
        server.learnScripts()
      end
      how(deployment)
      return deployment
    end,
  }, options))
end

local slowestUs, openBreakers = support.slowestUs, support.openBreakers

local function evals(server)
  local count = 0
  for _, call in ipairs(server.calls) do
    count = count + (#call.argv > 0 and call.name:find("^charge") and 1 or 0)
  end
  return count
end

describe("with a primary, a replica and three sentinels", function()
  it("two gateways count as one at the primary, and the replica is sent nothing", function()
    local limit = fixed("30/1d")
    local options = { workers = 2, limit = limit, sentinel = { password = "p", sentinelPassword = "q" } }
    local world = worldWhere(function(deployment)
      -- Redis has a password of its own, and the sentinels have one.
      deployment.url = deployment.urlOf(deployment.sentinels, "q"):gsub("://", "://:p@")
    end, options)
    local other = nginx.world({
      beside = world,
      deploys = true,
      policies = { denying(limit) },
      workers = 2,
      environment = { SLUICE_GATEWAY_ID = "g2" },
    })
    world.run(20)
    local requests = {}
    for i = 1, 200 do
      requests[i] = ask(i % 2 == 0 and world or other, "a", 1, { worker = math.floor(i / 2) % 2 + 1 })[1]
    end
    world.run(50)
    assert.same({ [200] = 30, [503] = 170 }, world.statuses(requests))
    assert.equal(30, used(world, "a", limit))
    assert.equal(0, #world.deployment.servers[2].calls)
    support.assertQuiet(world)
    support.assertQuiet(other)
  end)

  it("the log says that the sentinels' own password is wrong, and no password", function()
    local world = worldWhere(function(deployment)
      deployment.url = deployment.urlOf(deployment.sentinels, "s3cret")
    end, { sentinel = { sentinelPassword = "q" } })
    world.run(20)
    local requests = ask(world, "a")
    world.run(50)
    assert.equal(503, requests[1].status)
    assert.equal(1, #world.logged("Redis did not decide: sentinel: 127.0.0.1:2638"))
    assert.is_true(#world.logged("auth: WRONGPASS") > 0)
    assert.equal(0, #world.logged("s3cret"))
  end)

  it("nothing is written to a replica that a sentinel calls the primary, and another sentinel is asked", function()
    for seed = 1, 5 do
      local world = worldWhere(function(deployment)
        deployment.sentinels[1].names = deployment.servers[2]
      end, { seed = seed })
      world.run(20)
      -- The first is misled: the second is asked from 100 ms after the first on.
      ask(world, "a")
      world.run(150)
      local requests = ask(world, "a", 5)
      world.run(20)
      requests[6] = ask(world, "a")[1]
      world.run(20)
      assert.equal(200, requests[6].status, "seed " .. seed)
      assert.equal(0, evals(world.deployment.servers[2]))
    end
  end)

  it("nothing is written to a replica that all sentinels call the primary", function()
    local world = worldWhere(function(deployment)
      for _, sentinel in ipairs(deployment.sentinels) do
        sentinel.names = deployment.servers[2]
      end
    end)
    world.run(20)
    local requests = {}
    for i = 1, 50 do
      requests[i] = ask(world, "a")[1]
      world.run(20)
    end
    assert.same({ [503] = 50 }, world.statuses(requests))
    assert.is_true(#world.logged("role: expected a primary, got a slave") > 0)
    assert.equal(0, evals(world.deployment.servers[2]))
  end)

  it("the log says that no sentinel knows a primary of that name", function()
    local world = worldWhere(function(deployment)
      for _, sentinel in ipairs(deployment.sentinels) do
        sentinel.names = nil
      end
    end)
    world.run(20)
    ask(world, "a")
    world.run(50)
    assert.is_true(#world.logged("knows no primary called fleet") > 0)
  end)

  it("the primary is found though the client whose request first needed the sentinels has left", function()
    local world = worldWhere(function(deployment)
      for _, sentinel in ipairs(deployment.sentinels) do
        sentinel.upUs, sentinel.downUs = 90000, 90000
      end
    end)
    world.run(12)
    local gone = ask(world, "a")[1]
    world.run(60)
    gone.abort()
    world.run(300)
    local request = ask(world, "a")[1]
    world.run(1)
    assert.equal(200, request.status)
    assert.equal(1, used(world, "a", day))
  end)

  it("the next sentinel is asked where the first is dead, refuses or never answers, and requests wait for a deadline at most", function()
    for _, how in ipairs({ "kill", "cutOff", "stop" }) do
      local world = worldWhere(function(deployment)
        deployment.sentinels[1][how]()
      end)
      world.run(12)
      local first = ask(world, "a")
      world.run(500)
      assert.is_true(slowestUs(first) <= deadlineUs, how .. " " .. slowestUs(first))
      local requests = ask(world, "a", 10)
      world.run(10)
      assert.same({ [200] = 10 }, world.statuses(requests), how)
    end
  end)

  it("no request waits while no sentinel answers, and they are asked until one does", function()
    local world = worldWhere(function(deployment)
      for _, sentinel in ipairs(deployment.sentinels) do
        sentinel.cutOff()
      end
    end)
    world.run(12)
    local first = ask(world, "a")
    world.run(900)
    assert.is_true(slowestUs(first) <= deadlineUs, tostring(slowestUs(first)))
    local requests = {}
    for i = 1, 100 do
      requests[i] = ask(world, "a")[1]
      world.run(9)
    end
    assert.equal(0, slowestUs(requests))
    assert.same({ [503] = 100 }, world.statuses(requests))
    for _, sentinel in ipairs(world.deployment.sentinels) do
      sentinel.go()
    end
    -- Each of three sentinels has a deadline, and then comes a pause of 100 ms.
    world.run(720)
    local request = ask(world, "a")[1]
    world.run(10)
    assert.equal(200, request.status)
    -- The sentinels were asked meanwhile, and not for this request.
    assert.is_true(slowestUs({ request }) <= 1000, tostring(slowestUs({ request })))
    support.assertQuiet(world)
  end)

  it("no request waits while neither the primary nor the first sentinel answers, and no other primary is named", function()
    for seed = 1, 5 do
      local world = worldWhere(function() end, { seed = seed })
      world.run(20)
      ask(world, "a", 2)
      world.run(200)
      local primary = world.deployment.primary()
      -- Those that are asked first after the first doubt, and after the second.
      for i = 1, 2 do
        world.deployment.sentinels[i].cutOff()
      end
      primary.stop()
      ask(world, "a")
      world.run(250)
      assert.equal(1, openBreakers(world))
      local requests = {}
      for i = 1, 300 do
        requests[i] = ask(world, "a")[1]
        world.run(5)
      end
      assert.equal(0, slowestUs(requests), "seed " .. seed)
      assert.same({ [503] = 300 }, world.statuses(requests))
      primary.go()
      world.run(1000)
      local request = ask(world, "a")[1]
      world.run(10)
      assert.equal(200, request.status)
      support.assertQuiet(world)
    end
  end)
end)

describe("a failover", function()
  -- Requests of an `onStoreFailure: local` policy all the time, at two workers; the primary dies at 100 ms.
  local function playFailover(seed, how)
    local localLimit = support.bucket("100/1s", 100)
    local world = support.world({
      seed = seed,
      workers = 2,
      policies = {
        policy("b", localLimit, { consistency = "leased", onStoreFailure = "deny" }),
        policy("local", day),
        denying(day),
      },
      deploys = redisSentinel.deploys(),
    })
    local deployment = world.deployment
    local from, to = deployment.servers[1], deployment.servers[2]
    local all, leased = { ["local"] = {}, a = {} }, {}
    for i = 0, 3999 do
      world.at(i, function()
        for name, requests in pairs(all) do
          if i % 4 == (name == "a" and 0 or 2) then
            requests[#requests + 1] = ask(world, name, 1, { worker = i % 8 < 4 and 1 or 2 })[1]
          end
        end
        if i % 5 == 0 then
          leased[#leased + 1] = ask(world, "b", 1, { worker = i % 10 < 5 and 1 or 2 })[1]
        end
      end)
    end
    world.run(300)
    how(world, deployment, from, to)
    return world, all, leased, to
  end

  it("is followed by all workers within 0.2 s of the sentinels' agreement, and no client is shown an error", function()
    for seed = 1, 2 do
      local agreedUs
      local world, all, leased, to = playFailover(seed, function(world, deployment, from, to)
        from.kill()
        world.run(1200)
        -- One sentinel has heard of it first.
        deployment.failOver(to, { deployment.sentinels[seed % 3 + 1] })
        world.run(30)
        for _, sentinel in ipairs(deployment.sentinels) do
          sentinel.names = to
        end
        agreedUs = world.clock.nowUs
        world.run(2470)
      end)
      assert.same({ [200] = #all["local"] }, world.statuses(all["local"]))
      local lastDenied = 0
      for _, request in ipairs(all.a) do
        if request.status ~= 200 then
          lastDenied = math.max(lastDenied, request.beganUs)
        end
      end
      assert.is_true(lastDenied > 0)
      assert.is_true(lastDenied - agreedUs <= 200000, ("seed %d: %d"):format(seed, lastDenied - agreedUs))
      -- The new primary grants leases as well: at most one limit more is admitted than in 4 s.
      local passed, after = 0, 0
      for _, request in ipairs(leased) do
        passed = passed + (request.passed and 1 or 0)
        after = after + (request.passed and request.beganUs - agreedUs >= 1000000 and 1 or 0)
      end
      assert.is_true(passed <= 100 + 4 * 100 + 100, tostring(passed))
      assert.is_true(after >= 0.9 * 147, tostring(after))
      -- The dead one is forgotten, and probed no more.
      for _ = 1, 30 do
        ask(world, "a", 2, { worker = 0 })
        world.run(300)
      end
      assert.same({ 0, 0 }, { openBreakers(world, 1), openBreakers(world, 2) })
      local made = world.deployment.servers[1].made
      world.run(5000)
      assert.equal(made, world.deployment.servers[1].made)
      assert.is_true(evals(to) > 0)
      support.assertQuiet(world)
    end
  end)

  it("that leaves the former primary running, a replica now, has nothing counted there: READONLY is followed at once", function()
    for seed = 1, 2 do
      local movedUs, ranBefore
      local world, all, _, to = playFailover(seed, function(world, deployment, from, to)
        deployment.failOver(to)
        movedUs, ranBefore = world.clock.nowUs, evals(from)
        world.run(3700)
        assert.equal(ranBefore, evals(from))
        assert.is_true(from.refusals("READONLY") >= 2)
        assert.is_true(from.refusals("READONLY") <= 12, tostring(from.refusals("READONLY")))
      end)
      assert.same({ [200] = #all["local"] }, world.statuses(all["local"]))
      for _, request in ipairs(all.a) do
        -- Nothing was lost, so each of them is decided.
        assert.equal(200, request.status, ("seed %d: %d"):format(seed, request.beganUs - movedUs))
      end
      assert.equal(#all["local"], used(world, "local", day))
      assert.equal(#all.a, used(world, "a", day))
      assert.is_true(evals(to) > 0)
      support.assertQuiet(world)
    end
  end)

  it("of which one sentinel does not hear is followed all the same", function()
    for seed = 1, 2 do
      local movedUs
      local world, all = playFailover(seed, function(world, deployment, from, to)
        from.kill()
        -- The one that was asked first says what it always said.
        deployment.failOver(to, { deployment.sentinels[2], deployment.sentinels[3] })
        movedUs = world.clock.nowUs
        world.run(3700)
      end)
      local lastDenied = 0
      for _, request in ipairs(all.a) do
        if request.status ~= 200 then
          lastDenied = math.max(lastDenied, request.beganUs)
        end
      end
      assert.is_true(lastDenied - movedUs <= 500000, ("seed %d: %d"):format(seed, lastDenied - movedUs))
      support.assertQuiet(world)
    end
  end)
end)
