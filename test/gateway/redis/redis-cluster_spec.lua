-- gateway/src/redis/slot-map.ts, discovery.ts and script-call.ts with a Redis Cluster: where a script is sent while slots move, nodes die
-- and replicas take their places.

local nginx = require("test.gateway.virtual.nginx")
local product = require("test.gateway.product")
local redisCluster = require("test.gateway.virtual.redis-cluster")
local support = require("test.gateway.virtual.support")
local ask, fixed, policy, used = support.ask, support.fixed, support.policy, support.used

local day = fixed("100000/1d")
local allows = { onStoreFailure = "allow" }
local deadlineUs = 200000

local function clusterWorld(options)
  return support.world(support.with({ deploys = redisCluster.deploys(options.cluster) }, options))
end

-- Two gateways of two workers each; requests come to each of the four workers in turn.
local function fleetWorld(options)
  local world = clusterWorld(support.with({ workers = 2 }, options))
  local other = nginx.world({
    beside = world,
    deploys = true,
    policies = options.policies,
    workers = 2,
    environment = { SLUICE_GATEWAY_ID = "g2" },
  })
  world.run(20)
  local turn = 0
  local function askFleet(name, count, more)
    local requests = {}
    for i = 1, count do
      turn = turn + 1
      local at = turn % 2 == 0 and world or other
      requests[i] = ask(at, name, 1, support.with({ worker = math.floor(turn / 2) % 2 + 1 }, more or {}))[1]
    end
    return requests
  end
  return world, askFleet, other
end

local function slotOf(name, limit, key)
  return redisCluster.slotOf(support.counterKey(name, limit, key))
end

local function ownerOf(world, name, limit, key)
  return world.deployment.owners[slotOf(name, limit, key)]
end

-- A node that does not have this slot.
local function anotherNode(world, owner)
  for _, node in ipairs(world.deployment.nodes) do
    if node ~= owner and node.role == "master" then
      return node
    end
  end
end

-- A key of this policy whose counter is at the node.
local function keyAt(world, name, limit, node)
  for i = 1, 1000 do
    if ownerOf(world, name, limit, "k" .. i) == node then
      return "k" .. i
    end
  end
end

local function refusals(world, code)
  local sum = 0
  for _, node in ipairs(world.deployment.nodes) do
    sum = sum + node.refusals(code)
  end
  return sum
end

local slowestUs, openBreakers = support.slowestUs, support.openBreakers

-- Whether Redis has decided: who passed without it is told no remaining units.
local function decided(requests)
  local count = 0
  for _, request in ipairs(requests) do
    count = count + (request.headers["X-RateLimit-Remaining"] and 1 or 0)
  end
  return count
end

describe("a virtual Redis Cluster", function()
  it("has the slots of a real one, and the gateway finds the same", function()
    local world = clusterWorld({ policies = {} })
    local gateways = world.workers[1].module("gateway.src.redis.hash-slot").slotOf
    -- From the specification of Redis Cluster, and from CLUSTER KEYSLOT.
    assert.equal(12739, redisCluster.slotOf("123456789"))
    assert.equal(redisCluster.slotOf("user1000"), redisCluster.slotOf("{user1000}.following"))
    for _, key in ipairs({ "", "a", "{}b", "a{b}c", "a{b", "{a}{b}", "{{a}}", "sluice:s3:{shop:a:1:k}:default:x" }) do
      assert.equal(redisCluster.slotOf(key), gateways(key), key)
    end
  end)
end)

describe("policies in a Redis Cluster", function()
  for _, cold in ipairs({ false, true }) do
    it("are counted exactly on all nodes" .. (cold and ", which know no scripts" or ""), function()
      local limit, policies = fixed("10/1d"), {}
      for i = 1, 12 do
        policies[i] = policy("a" .. i, limit, allows)
      end
      local world, askFleet = fleetWorld({ policies = policies, cold = cold })
      local requests = {}
      for i = 1, 12 do
        requests[i] = askFleet("a" .. i, 60)
      end
      world.run(100)
      local onNodes = {}
      for i = 1, 12 do
        assert.same({ [200] = 10, [429] = 50 }, world.statuses(requests[i]))
        assert.equal(10, used(world, "a" .. i, limit))
        onNodes[ownerOf(world, "a" .. i, limit).port] = true
      end
      assert.same({ [7001] = true, [7002] = true, [7003] = true }, onNodes)
      for _, node in ipairs(world.deployment.nodes) do
        for key in pairs(node.keys) do
          assert.equal(node, world.deployment.ownerOf(key))
        end
      end
      assert.equal(0, refusals(world, "MOVED"))
      support.assertQuiet(world)
    end)
  end

  it("that meet one request are charged all or none: slots before that of the one which refuses are refunded", function()
    local wide, narrow, last = fixed("5/1d"), fixed("1/1d"), fixed("4/1d")
    local at = { match = { paths = { "/both" } } }
    local policies = {
      policy("wide", wide, { match = { paths = { "/both", "/wide" } } }),
      policy("narrow", narrow, at),
      policy("last", last, { match = { paths = { "/both", "/last" } } }),
    }
    for seed = 1, 8 do
      local world, askFleet = fleetWorld({ seed = seed, policies = policies })
      -- Keys, so that each seed has other nodes; one request at a time.
      local key = "k" .. seed
      local slots = { slotOf("wide", wide, key), slotOf("narrow", narrow, key), slotOf("last", last, key) }
      assert.is_true(slots[1] ~= slots[2] and slots[2] ~= slots[3] and slots[1] ~= slots[3])
      local requests = {}
      for i = 1, 10 do
        requests[i] = askFleet("both", 1, { key = key })[1]
        world.run(30)
      end
      assert.same({ [200] = 1, [429] = 9 }, world.statuses(requests))
      requests = askFleet("wide", 10, { key = key })
      world.run(30)
      assert.same({ [200] = 4, [429] = 6 }, world.statuses(requests))
      assert.equal(1, used(world, "last", last, key))
      assert.equal(1, used(world, "narrow", narrow, key))
      support.assertQuiet(world)
    end
  end)

  it("that refuse in many requests at once leave nothing charged of those", function()
    local wide, narrow = fixed("100/1d"), fixed("3/1d")
    local policies = {
      policy("wide", wide, { match = { paths = { "/both" } } }),
      policy("narrow", narrow, { match = { paths = { "/both" } } }),
    }
    for seed = 1, 5 do
      local world, askFleet = fleetWorld({ seed = seed, policies = policies })
      local requests = askFleet("both", 40)
      world.run(300)
      assert.same({ [200] = 3, [429] = 37 }, world.statuses(requests))
      assert.equal(3, used(world, "wide", wide), "seed " .. seed)
      assert.equal(3, used(world, "narrow", narrow), "seed " .. seed)
    end
  end)
end)

describe("slots that a request holds on several nodes", function()
  local slots = { algorithm = "concurrency", quota = 9, ttl = "1m" }
  local function policies()
    local all = {}
    for i, name in ipairs({ "first", "last" }) do
      all[i] = policy(name, slots, { priority = -i, match = { paths = { "/held" } } })
    end
    return all
  end

  local function heldOf(world, name, key)
    local _, said = world.deployment.peek(support.counterKey(name, slots, key), product.limitOf(slots), 1)
    return 9 - said[2]
  end

  -- A key whose two counters are on different nodes.
  local function keyOfTwoNodes(world)
    for i = 1, 1000 do
      if ownerOf(world, "first", slots, "k" .. i) ~= ownerOf(world, "last", slots, "k" .. i) then
        return "k" .. i
      end
    end
  end

  it("are freed when its client leaves while another slot is called", function()
    for seed = 1, 8 do
      local world = clusterWorld({ seed = seed, policies = policies() })
      local key = keyOfTwoNodes(world)
      local request = ask(world, "held", 1, { key = key, serviceUs = 5000 })[1]
      world.run(3)
      assert.equal(200, request.status)
      assert.same({ 1, 1 }, { heldOf(world, "first", key), heldOf(world, "last", key) })
      world.run(100)
      assert.same({ 0, 0 }, { heldOf(world, "first", key), heldOf(world, "last", key) })
      local hanging = ownerOf(world, "last", slots, key)
      hanging.stop()
      request = ask(world, "held", 1, { key = key })[1]
      world.run(10)
      assert.equal(1, heldOf(world, "first", key))
      request.abort()
      world.run(60)
      assert.equal(0, heldOf(world, "first", key), "seed " .. seed)
      hanging.go()
      world.run(1000)
      assert.equal(0, heldOf(world, "last", key), "seed " .. seed)
      support.assertQuiet(world)
    end
  end)

  it("are renewed on all nodes, also where one has moved, and freed", function()
    local renewed = { algorithm = "concurrency", quota = 1, ttl = "1s" }
    local world = clusterWorld({ policies = { policy("renewed", renewed, allows) } })
    local function askEach(serviceUs)
      local requests = {}
      for i = 1, 30 do
        requests[i] = ask(world, "renewed", 1, { key = "k" .. i, serviceUs = serviceUs })[1]
      end
      return requests
    end
    local running = askEach(-1)
    world.run(20)
    assert.same({ [200] = 30 }, world.statuses(running))
    for _, from in ipairs(world.deployment.nodes) do
      local key
      for i = 1, 30 do
        if ownerOf(world, "renewed", renewed, "k" .. i) == from then
          key = "k" .. i
        end
      end
      world.deployment.move(slotOf("renewed", renewed, key), anotherNode(world, from))
      -- This is longer than a slot lives without renewal.
      world.run(1200)
      local requests = askEach(0)
      world.run(50)
      assert.same({ [429] = 30 }, world.statuses(requests))
    end
    assert.equal(0, world.dict("sluice_metrics"):get("late-renewals") or 0)
    for _, request in ipairs(running) do
      request.finish()
    end
    world.run(100)
    local requests = askEach(0)
    world.run(50)
    assert.same({ [200] = 30 }, world.statuses(requests))
    support.assertQuiet(world)
  end)
end)

describe("the map of slots", function()
  -- Nodes that do to whoever connects what `how` says, before any worker has begun.
  local function worldOf(policies, how)
    return nginx.world({
      policies = policies,
      redis = false,
      deploys = function(clock)
        local cluster = redisCluster.new(clock, {})
        for _, node in ipairs(cluster.nodes) do
          node.learnScripts()
          how(node)
        end
        return cluster
      end,
    })
  end

  it("is had though the client whose request first needed it has left", function()
    local limit = fixed("60/1d")
    local world = worldOf({ policy("a", limit, allows) }, function(node)
      node.upUs, node.downUs = 90000, 90000
    end)
    world.run(12)
    local gone = ask(world, "a")[1]
    world.run(60)
    gone.abort()
    for _, node in ipairs(world.deployment.nodes) do
      node.upUs, node.downUs = 100, 100
    end
    world.run(300)
    local request = ask(world, "a")[1]
    world.run(1)
    assert.equal("59", request.headers["X-RateLimit-Remaining"])
    assert.equal(1, used(world, "a", limit))
  end)

  it("that no node reports is waited for once, asked for until one does, and what passed meanwhile is charged", function()
    local world = worldOf({ policy("a", day, allows) }, function(node)
      node.cutOff()
    end)
    world.run(12)
    local first = ask(world, "a")
    world.run(1000)
    assert.equal(200, first[1].status)
    assert.is_true(slowestUs(first) <= deadlineUs, tostring(slowestUs(first)))
    local requests = {}
    for i = 1, 20 do
      requests[i] = ask(world, "a")[1]
      world.run(7)
    end
    assert.equal(0, slowestUs(requests))
    assert.equal(0, decided(requests))
    for _, node in ipairs(world.deployment.nodes) do
      node.go()
    end
    -- Each of three nodes has a deadline, and then comes a pause of 100 ms; debts are told within 250 ms.
    world.run(1000)
    assert.equal(21, used(world, "a", day))
    local request = ask(world, "a")[1]
    world.run(1)
    assert.equal("99978", request.headers["X-RateLimit-Remaining"])
    world.run(10)
    support.assertQuiet(world)
  end)

  it("is asked for in the background until a node reports it, though nobody asks the gateway", function()
    local world = worldOf({ policy("a", day, support.denies) }, function(node)
      node.upUs, node.downUs = 20000, 20000
      node.cutOff()
    end)
    -- The first round has ended: each of three nodes had a second.
    world.run(3500)
    for _, node in ipairs(world.deployment.nodes) do
      node.go()
    end
    world.run(800)
    local request = ask(world, "a")[1]
    world.run(200)
    assert.equal(200, request.status)
    -- Its own call takes 40 ms, and a map would take as long.
    assert.is_true(slowestUs({ request }) <= 45000, tostring(slowestUs({ request })))
  end)

  it("is had of the next node where the first is dead, refuses or never answers", function()
    for _, how in ipairs({ "kill", "cutOff", "stop" }) do
      local world = worldOf({ policy("a", day, support.denies) }, function(node)
        if node.port == 7001 then
          node[how]()
        end
      end)
      world.run(1500)
      local requests, count = {}, 0
      for i = 1, 30 do
        if ownerOf(world, "a", day, "k" .. i).port ~= 7001 then
          count = count + 1
          requests[count] = ask(world, "a", 1, { key = "k" .. i })[1]
        end
      end
      world.run(10)
      assert.same({ [200] = count }, world.statuses(requests), how)
    end
  end)

  it("names the node that replies where that one does not know its own address", function()
    local limit = fixed("10/1d")
    local world = worldOf({ policy("a", limit, support.denies) }, function(node)
      if node.port == 7001 then
        node.endpoint = false
      end
    end)
    world.run(20)
    local key = keyAt(world, "a", limit, world.deployment.nodes[1])
    local requests = ask(world, "a", 20, { key = key })
    world.run(20)
    assert.same({ [200] = 10, [503] = 10 }, world.statuses(requests))
    assert.equal(10, used(world, "a", limit, key))
  end)
end)

describe("a slot that has moved", function()
  it("is followed by MOVED, and the map is asked for again: its count goes on", function()
    local limit = fixed("60/1d")
    local world, askFleet = fleetWorld({ policies = { policy("a", limit, allows) } })
    local before = askFleet("a", 20)
    world.run(50)
    assert.same({ [200] = 20 }, world.statuses(before))
    local from = ownerOf(world, "a", limit)
    local to = anotherNode(world, from)
    world.deployment.move(slotOf("a", limit), to)
    local after = askFleet("a", 100)
    world.run(100)
    assert.same({ [200] = 40, [429] = 60 }, world.statuses(after))
    assert.is_true(from.refusals("MOVED") >= 4, "each of four workers was told")
    -- From now on nobody asks the former node.
    local told = #from.refused
    world.run(500)
    local later = askFleet("a", 20, { key = "k" })
    world.run(50)
    assert.same({ [429] = 20 }, world.statuses(later))
    assert.equal(told, #from.refused)
    support.assertQuiet(world)
  end)

  it("has the map asked for again, so that others which have moved are found without a detour", function()
    local world = clusterWorld({ policies = { policy("a", day, support.denies) } })
    local cluster = world.deployment
    local from = cluster.nodes[1]
    local to, keys = cluster.nodes[2], {}
    for i = 1, 30 do
      if ownerOf(world, "a", day, "k" .. i) == from then
        keys[#keys + 1] = "k" .. i
        ask(world, "a", 1, { key = "k" .. i })
      end
    end
    world.run(150)
    for slot, owner in pairs(cluster.owners) do
      if owner == from then
        cluster.owners[slot] = to
      end
    end
    local one = ask(world, "a", 1, { key = keys[1] })
    world.run(20)
    assert.equal(200, one[1].status)
    assert.equal(1, from.refusals("MOVED"))
    -- The next call finds the map in doubt, and is sent where its own slot was.
    ask(world, "a", 1, { key = keys[2] })
    world.run(20)
    local others = {}
    for _, key in ipairs(keys) do
      others[#others + 1] = ask(world, "a", 1, { key = key })[1]
    end
    world.run(20)
    assert.same({ [200] = #keys }, world.statuses(others))
    assert.is_true(from.refusals("MOVED") <= 2, tostring(from.refusals("MOVED")))
    support.assertQuiet(world)
  end)

  it("and moves on and on is followed five times by one call, and others go on", function()
    local limit = fixed("1000/1d")
    local world = clusterWorld({ policies = { policy("a", limit, support.denies) }, cluster = { nodes = 8 } })
    ask(world, "a", 2)
    world.run(20)
    local slot, hops = slotOf("a", limit), 0
    -- Whenever a node has redirected, the slot is elsewhere already.
    for _, node in ipairs(world.deployment.nodes) do
      local refusal = node.refusal
      function node.refusal(words, connection)
        local error = refusal(words, connection)
        if error and error:find("^MOVED") and hops < 4 then
          hops = hops + 1
          local owner = world.deployment.owners[slot]
          world.deployment.move(slot, world.deployment.nodes[owner.port - 7000 + 1])
        end
        return error
      end
    end
    world.deployment.move(slot, world.deployment.nodes[(ownerOf(world, "a", limit).port - 7000) % 3 + 1])
    local request = ask(world, "a")[1]
    world.run(30)
    assert.equal(4, hops)
    assert.equal(200, request.status)
    assert.equal(3, used(world, "a", limit))
  end)
end)

describe("a slot that moves under load", function()
  -- Requests all the time; the slot begins to move, its key moves, and the move ends, at moments that the seed chooses.
  local function playMove(seed, limit)
    local world, askFleet, other = fleetWorld({
      seed = seed,
      policies = { policy("a", limit, allows) },
      cluster = { upUs = 300, downUs = 300 },
      -- A node may know no script when a counter moves to it.
      cold = seed % 2 == 0,
    })
    local random = world.clock.random
    local all = {}
    for i = 0, 399 do
      world.at(i, function()
        for _, request in ipairs(askFleet("a", 2)) do
          all[#all + 1] = request
        end
      end)
    end
    local slot, cluster = slotOf("a", limit), world.deployment
    local from = cluster.owners[slot]
    local to = anotherNode(world, from)
    local begins = random(20, 100)
    local moves = begins + random(1, 100)
    local ends = moves + random(1, 100)
    world.at(begins, function()
      cluster.beginMove(slot, to)
    end)
    world.at(moves, function()
      cluster.moveKeys(slot, to)
    end)
    world.at(ends, function()
      -- The other nodes hear of it later.
      cluster.endMove(slot, to, { to, from })
      world.at(random(1, 50), cluster.agree)
    end)
    world.run(1200)
    return world, all, from, to, other
  end

  it("is counted exactly (ASK, then MOVED)", function()
    local asked, moved = 0, 0
    for seed = 1, 8 do
      local limit = fixed("500/1d")
      local world, all, from, to, other = playMove(seed, limit)
      assert.same({ [200] = 500, [429] = 300 }, world.statuses(all), "seed " .. seed)
      assert.equal(500, used(world, "a", limit))
      assert.is_nil(next(from.keys))
      assert.is_not_nil(next(to.keys))
      asked, moved = asked + from.refusals("ASK"), moved + refusals(world, "MOVED")
      support.assertQuiet(world)
      support.assertQuiet(other)
    end
    assert.is_true(asked > 100 and moved > 20, asked .. " " .. moved)
  end)

  it("is counted exactly by each algorithm", function()
    for _, algorithm in ipairs({ "token-bucket", "sliding-window", "sliding-log" }) do
      local limit = { algorithm = algorithm, quota = 300, window = "31d" }
      for seed = 1, 2 do
        local world, all = playMove(seed, limit)
        local passed = 0
        for _, request in ipairs(all) do
          passed = passed + (request.passed and 1 or 0)
        end
        assert.equal(300, passed, algorithm .. ", seed " .. seed)
        support.assertQuiet(world)
      end
    end
  end)
end)

describe("a slot some of whose counters have moved", function()
  local function twoLimits(quota)
    local both = policy("a", fixed(quota .. "/1d"), allows)
    both.limits[2] = fixed(quota .. "/1d")
    both.limits[1].name, both.limits[2].name = "a", "b"
    return both
  end

  it("is waited for (TRYAGAIN), and nothing is charged twice", function()
    for seed = 1, 8 do
      local world, askFleet = fleetWorld({ seed = seed, policies = { twoLimits(40) } })
      local before = askFleet("a", 10)
      world.run(50)
      assert.same({ [200] = 10 }, world.statuses(before))
      local slot = redisCluster.slotOf("sluice:s3:{shop:a:1:k}:a:x")
      local cluster = world.deployment
      local from = cluster.owners[slot]
      local to = anotherNode(world, from)
      cluster.beginMove(slot, to)
      cluster.moveKeys(slot, to, 1)
      local request = askFleet("a", 1)[1]
      world.run(100)
      assert.is_nil(request.decidedUs)
      -- The pause between two tries is 10 ms.
      local tries = from.refusals("TRYAGAIN")
      assert.is_true(tries >= 8 and tries <= 11, tostring(tries))
      cluster.moveKeys(slot, to)
      world.run(20)
      assert.equal(200, request.status)
      assert.equal("29", request.headers["X-RateLimit-Remaining"])
      cluster.endMove(slot, to)
      local after = askFleet("a", 60)
      world.run(100)
      assert.same({ [200] = 29, [429] = 31 }, world.statuses(after), "seed " .. seed)
      support.assertQuiet(world)
    end
  end)

  it("for longer than a deadline is not waited for any longer, and what passed is charged when the move has ended", function()
    local world, askFleet = fleetWorld({ policies = { twoLimits(40) } })
    askFleet("a", 10)
    world.run(50)
    local slot = redisCluster.slotOf("sluice:s3:{shop:a:1:k}:a:x")
    local cluster = world.deployment
    local to = anotherNode(world, cluster.owners[slot])
    cluster.beginMove(slot, to)
    cluster.moveKeys(slot, to, 1)
    local requests = askFleet("a", 4)
    world.run(1500)
    assert.same({ [200] = 4 }, world.statuses(requests))
    assert.is_true(slowestUs(requests) <= 2 * deadlineUs + 30000, tostring(slowestUs(requests)))
    cluster.moveKeys(slot, to)
    cluster.endMove(slot, to)
    world.run(1500)
    local after = askFleet("a", 60)
    world.run(100)
    assert.same({ [200] = 26, [429] = 34 }, world.statuses(after))
  end)
end)

describe("leases in a Redis Cluster", function()
  it("are had in the slot of their counter, and go on when the slot has moved", function()
    local limit = support.bucket("200/1s", 200)
    for seed = 1, 2 do
      local leased = policy("a", limit, { consistency = "leased", onStoreFailure = "deny" })
      local world, askFleet, other = fleetWorld({ seed = seed, policies = { leased } })
      local beganUs, all = world.clock.nowUs, {}
      for i = 0, 1499 do
        world.at(i * 10 / 3, function()
          all[#all + 1] = askFleet("a", 1)[1]
        end)
      end
      local cluster, slot = world.deployment, slotOf("a", limit)
      local from = cluster.owners[slot]
      local to = anotherNode(world, from)
      world.run(1500)
      cluster.beginMove(slot, to)
      world.run(world.clock.random(0, 30))
      cluster.moveKeys(slot, to, 1)
      world.run(world.clock.random(0, 30))
      cluster.moveKeys(slot, to)
      world.run(world.clock.random(0, 30))
      cluster.endMove(slot, to)
      world.run(5000 - (world.clock.nowUs - beganUs) / 1000)
      local passed, after = 0, 0
      for _, request in ipairs(all) do
        if request.passed then
          passed = passed + 1
          after = after + (request.beganUs - beganUs >= 3000000 and 1 or 0)
        end
      end
      assert.is_true(passed <= 200 + 5 * 200, "seed " .. seed .. ": " .. passed)
      assert.is_true(after >= 0.95 * 2 * 200, "seed " .. seed .. ": " .. after)
      assert.is_nil(next(from.keys))
      local ledger = false
      for key in pairs(to.keys) do
        ledger = ledger or key:find("::leases$") ~= nil
      end
      assert.is_true(ledger)
      for _, each in ipairs({ world, other }) do
        assert.equal(0, each.dict("sluice_metrics"):get("lease-excess-units") or 0)
      end
    end
  end)
end)

describe("a node that never answers", function()
  -- For each of these nodes, the gateway requests the map from another one.
  for number = 1, 3 do
    it("is waited for by no request, nor is the map that it might send: node " .. number, function()
      for seed = 1, 5 do
        local world = clusterWorld({ seed = seed, policies = { policy("a", day, allows) } })
        local node = world.deployment.nodes[number]
        local key = keyAt(world, "a", day, node)
        ask(world, "a", 2, { key = key })
        world.run(20)
        node.stop()
        local first = ask(world, "a", 1, { key = key })
        world.run(250)
        assert.equal(1, openBreakers(world))
        assert.is_true(slowestUs(first) <= deadlineUs + 26000, tostring(slowestUs(first)))
        local requests = {}
        for i = 1, 300 do
          requests[i] = ask(world, "a", 1, { key = key })[1]
          world.run(5)
        end
        assert.equal(0, slowestUs(requests))
        -- Others decide.
        local others = {}
        for other = 1, 3 do
          if other ~= number then
            others[#others + 1] = ask(world, "a", 1, { key = keyAt(world, "a", day, world.deployment.nodes[other]) })[1]
          end
        end
        world.run(2)
        assert.equal(2, decided(others))
        node.go()
        world.run(1000)
        assert.equal(0, openBreakers(world))
        assert.equal(303, used(world, "a", day, key), "seed " .. seed)
        support.assertQuiet(world)
      end
    end)
  end
end)

describe("a node that is down", function()
  it("shows no client an error, others count, and it counts again when it is back", function()
    local limit = fixed("10/1d")
    local policies = { policy("outage", day, allows) }
    for i = 1, 12 do
      policies[i + 1] = policy("a" .. i, limit, allows)
    end
    local world = clusterWorld({ policies = policies, workers = 2 })
    local node = ownerOf(world, "outage", day)
    local reported = ask(world, "outage")
    world.run(10)
    assert.equal(1, decided(reported))
    node.kill()
    local requests = ask(world, "outage", 50, { worker = 0 })
    world.run(1000)
    assert.same({ [200] = 50 }, world.statuses(requests))
    requests = ask(world, "outage")
    world.run(10)
    assert.equal(0, decided(requests))
    local elsewhere = 0
    for i = 1, 12 do
      if ownerOf(world, "a" .. i, limit) ~= node then
        elsewhere = elsewhere + 1
        requests = ask(world, "a" .. i, 20, { worker = 0 })
        world.run(20)
        assert.same({ [200] = 10, [429] = 10 }, world.statuses(requests))
      end
    end
    assert.is_true(elsewhere > 0)
    -- Without persistence the node has forgotten the counter, but not its slots.
    node.begin(false)
    world.run(400)
    requests = ask(world, "outage")
    world.run(10)
    assert.equal(1, decided(requests))
  end)

  it("has the cluster say CLUSTERDOWN: nobody waits, and Redis decides when it is whole again", function()
    for seed = 1, 5 do
      local world, askFleet = fleetWorld({ seed = seed, policies = { policy("a", day, allows) } })
      askFleet("a", 8)
      world.run(50)
      for _, node in ipairs(world.deployment.nodes) do
        node.down = true
      end
      local requests = {}
      for i = 1, 200 do
        requests[i] = askFleet("a", 1)[1]
        world.run(2)
      end
      world.run(100)
      assert.equal(0, decided(requests))
      assert.is_true(slowestUs(requests) <= 110000, tostring(slowestUs(requests)))
      for _, node in ipairs(world.deployment.nodes) do
        node.down = nil
      end
      world.run(1000)
      requests = askFleet("a", 8)
      world.run(20)
      assert.equal(8, decided(requests))
      -- 8 and 200 before, 8 now.
      assert.equal(216, used(world, "a", day), "seed " .. seed)
    end
  end)
end)

describe("a node that has forgotten where a slot is", function()
  it("says CLUSTERDOWN, and another one is asked for the map", function()
    for seed = 1, 5 do
      local world = clusterWorld({ seed = seed, policies = { policy("a", day, allows) } })
      -- The node that was asked for the map, and would be the first to be asked again.
      local from = world.deployment.nodes[1]
      local key = keyAt(world, "a", day, from)
      ask(world, "a", 2, { key = key })
      world.run(150)
      local slot = slotOf("a", day, key)
      world.deployment.move(slot, anotherNode(world, from))
      from.beliefs[slot] = false
      ask(world, "a", 2, { key = key })
      world.run(150)
      local requests = ask(world, "a", 10, { key = key })
      world.run(20)
      assert.equal(10, decided(requests), "seed " .. seed)
      world.run(500)
      assert.equal(14, used(world, "a", day, key))
      support.assertQuiet(world)
    end
  end)
end)

describe("a replica that takes a dead node's place", function()
  local function worldWithReplica(seed, limit)
    local world = clusterWorld({ seed = seed, policies = { policy("a", limit, allows) }, workers = 2 })
    local replica = world.deployment.addReplica()
    return world, world.deployment, ownerOf(world, "a", limit), replica
  end

  it("is found by all workers within half a second, and counts go on", function()
    local limit = fixed("60/1d")
    for seed = 1, 8 do
      local world, cluster, node, replica = worldWithReplica(seed, limit)
      replica.learnScripts()
      local before = ask(world, "a", 20, { worker = 0 })
      world.run(20)
      assert.same({ [200] = 20 }, world.statuses(before))
      node.kill()
      local meanwhile = {}
      for i = 1, 10 do
        meanwhile[i] = ask(world, "a", 1, { worker = i % 2 + 1 })[1]
        world.run(100)
      end
      assert.same({ [200] = 10 }, world.statuses(meanwhile))
      cluster.failOver(node, replica)
      -- A client that still asks for the dead node learns of the replica.
      local since = 0
      while true do
        local both = { ask(world, "a", 1, { worker = 1 })[1], ask(world, "a", 1, { worker = 2 })[1] }
        world.run(20)
        since = since + 20
        if decided(both) == 2 then
          break
        end
        assert.is_true(since < 500, "seed " .. seed)
      end
      -- The replica is charged for the requests that passed meanwhile.
      world.run(500)
      local count = used(world, "a", limit)
      assert.is_true(count >= 32, tostring(count))
      local requests = ask(world, "a", 100, { worker = 0 })
      world.run(50)
      assert.same({ [200] = 60 - count, [429] = 40 + count }, world.statuses(requests))
      -- The dead one is forgotten: nobody probes it for ever.
      world.run(10000)
      assert.same({ 0, 0 }, { openBreakers(world, 1), openBreakers(world, 2) })
      local made = node.made
      world.run(5000)
      assert.equal(made, node.made)
      support.assertQuiet(world)
    end
  end)

  it("decides all requests that come at once while the gateway finds that out", function()
    for seed = 1, 8 do
      local world, cluster, node, replica = worldWithReplica(seed, day)
      ask(world, "a", 4, { worker = 0 })
      -- The map is asked for again 100 ms after the last time at the earliest.
      world.run(150)
      node.kill()
      cluster.failOver(node, replica)
      -- A connection may have ended without the worker knowing it yet: what it sends there is lost.
      world.run(1)
      local requests = ask(world, "a", 40, { worker = 0 })
      world.run(200)
      assert.equal(40, decided(requests), "seed " .. seed)
      assert.equal(44, used(world, "a", day))
    end
  end)

  it("is sent no script again whose reply was lost with the dead one", function()
    local lost = 0
    for seed = 1, 8 do
      local world, cluster, node, replica = worldWithReplica(seed, day)
      ask(world, "a", 2)
      world.run(150)
      -- The script is run, and copied to the replica; then the node dies.
      node.fate = function(commands)
        if commands[1][1] == "evalsha" then
          lost = lost + 1
          world.at(0.3, function()
            cluster.failOver(node, replica)
            node.kill()
          end)
          return { loses = "reply" }
        end
      end
      local requests = ask(world, "a")
      world.run(1500)
      assert.equal(200, requests[1].status)
      assert.equal(3, used(world, "a", day), "seed " .. seed)
      support.assertQuiet(world)
    end
    assert.equal(8, lost)
  end)

  it("and of which only some nodes have heard is found all the same", function()
    for seed = 1, 8 do
      local world, cluster, node, replica = worldWithReplica(seed, day)
      replica.learnScripts()
      ask(world, "a", 4, { worker = 0 })
      world.run(50)
      node.kill()
      cluster.failOver(node, replica)
      world.run(1)
      -- One of the others still names the dead one.
      local late = anotherNode(world, node)
      for slot, owner in pairs(cluster.owners) do
        if owner == replica then
          late.beliefs[slot] = node
        end
      end
      for _ = 1, 20 do
        ask(world, "a", 2, { worker = 0 })
        world.run(50)
      end
      cluster.agree()
      world.run(500)
      local requests = ask(world, "a", 10, { worker = 0 })
      world.run(20)
      assert.equal(10, decided(requests), "seed " .. seed)
      world.run(500)
      assert.equal(54, used(world, "a", day), "seed " .. seed)
    end
  end)
end)
