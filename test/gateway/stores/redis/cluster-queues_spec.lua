-- gateway/src/stores/redis/batcher.ts with a Redis Cluster: requests of many slots share the round trips to each node.

local redisCluster = require("test.gateway.virtual.redis-cluster")
local support = require("test.gateway.virtual.support")
local ask, fixed, policy, slowestUs, used = support.ask, support.fixed, support.policy, support.slowestUs, support.used

local day = fixed("100/1d")
local policies = { policy("a", day, { onStoreFailure = "deny" }), policy("b", day, { onStoreFailure = "deny" }) }

-- One worker, and three nodes; a reply comes after so many µs.
local function clusterWorld(roundTripUs)
  local world = support.world({ workers = 1, policies = policies, deploys = redisCluster.deploys({ nodes = 3 }) })
  ask(world, "b")
  world.run(100)
  for _, node in ipairs(world.deployment.nodes) do
    node.upUs, node.downUs = roundTripUs / 2, roundTripUs / 2
  end
  return world
end

-- So many requests in each of so many ms, each of another key.
local function flood(world, inMs, ms, meanwhile)
  local requests = {}
  for at = 1, ms do
    for _ = 1, inMs do
      requests[#requests + 1] = ask(world, "a", 1, { key = "k" .. #requests })[1]
    end
    if meanwhile then
      meanwhile(at)
    end
    world.run(1)
  end
  return requests
end

local function connections(world)
  local made = 0
  for _, node in ipairs(world.deployment.nodes) do
    made = made + (node.made or 0)
  end
  return made
end

describe("requests with ever new keys on a Redis Cluster", function()
  it("wait for a round trip and a half, and so do others", function()
    local world = clusterWorld(10000)
    local before, others = connections(world), {}
    local requests = flood(world, 20, 300, function(at)
      if at % 5 == 0 then
        others[#others + 1] = ask(world, "b", 1, { key = "o" .. at % 50 })[1]
      end
    end)
    world.run(100)
    assert.same({ [200] = 6000 }, world.statuses(requests))
    assert.is_true(slowestUs(requests) <= 16000, tostring(slowestUs(requests)))
    assert.is_true(slowestUs(others) <= 16000, tostring(slowestUs(others)))
    -- Four batches of each node are under way at a time, and a request that comes first calls by itself.
    assert.is_true(connections(world) - before <= 3 * 5, tostring(connections(world) - before))
    support.assertQuiet(world)
  end)

  it("are decided, each once, while all slots of a node move", function()
    local world = clusterWorld(2000)
    local from, to = world.deployment.nodes[1], world.deployment.nodes[2]
    local requests = flood(world, 20, 100, function(at)
      if at ~= 50 then
        return
      end
      for slot, owner in pairs(world.deployment.owners) do
        if owner == from then
          world.deployment.owners[slot] = to
        end
      end
    end)
    world.run(500)
    assert.same({ [200] = 2000 }, world.statuses(requests))
    for i = 1000, 1999 do
      assert.equal(1, used(world, "a", day, "k" .. i))
    end
    -- A batch learns from one reply where all of its slots are: none follows its slots one by one.
    assert.is_true(slowestUs(requests) <= 25000, tostring(slowestUs(requests)))
    support.assertQuiet(world)
  end)

  it("wait for no slot that is moving, whose requests wait for themselves", function()
    local hour = support.with(fixed("100000/1h"), { name = "hour" })
    local day = fixed("100000/1d")
    local world = support.world({
      workers = 1,
      policies = { policy("b", day, { onStoreFailure = "deny" }), policy("m", nil, { onStoreFailure = "deny", limits = { day, hour } }) },
      deploys = redisCluster.deploys({ nodes = 3, upUs = 200, downUs = 200 }),
    })
    local cluster = world.deployment
    local slot = redisCluster.slotOf(support.counterKey("m", day, "hot"))
    local from, keys = cluster.owners[slot], {}
    local to = cluster.nodes[from == cluster.nodes[1] and 2 or 1]
    for i = 1, 1000 do
      if cluster.owners[redisCluster.slotOf(support.counterKey("b", day, "o" .. i))] == from then
        keys[#keys + 1] = "o" .. i
      end
    end
    ask(world, "m", 1, { key = "hot" })
    world.run(20)
    -- One of its two counters is on the other node: TRYAGAIN.
    cluster.beginMove(slot, to)
    cluster.moveKeys(slot, to, 1)
    local hot, others = {}, {}
    for at = 1, 1000 do
      hot[at] = ask(world, "m", 1, { key = "hot" })[1]
      for turn = 1, 2 do
        others[#others + 1] = ask(world, "b", 1, { key = keys[(2 * at + turn) % #keys + 1] })[1]
      end
      world.run(1)
    end
    world.run(1500)
    assert.same({ [200] = 2000 }, world.statuses(others))
    assert.is_true(slowestUs(others) <= 8000, tostring(slowestUs(others)))
    assert.is_nil(world.statuses(hot)[200])
    -- The slot has moved.
    cluster.moveKeys(slot, to)
    cluster.endMove(slot, to)
    cluster.agree()
    local again = ask(world, "m", 20, { key = "hot" })
    world.run(200)
    assert.same({ [200] = 20 }, world.statuses(again))
  end)

  it("that are given up together, because a node is silent, are refunded there if they were charged", function()
    local world = clusterWorld(400)
    local node = world.deployment.nodes[1]
    flood(world, 10, 20)
    world.run(10)
    -- The node executes all calls, and replies after the deadline.
    node.downUs = 1000000
    local requests = flood(world, 10, 20)
    world.run(3000)
    local denied = {}
    for i, request in ipairs(requests) do
      if request.status ~= 200 then
        denied[#denied + 1] = "k" .. i - 1
      end
    end
    assert.is_true(#denied > 20, tostring(#denied))
    node.downUs = 200
    world.run(3000)
    -- The same keys were charged once before.
    for _, key in ipairs(denied) do
      assert.equal(1, used(world, "a", day, key), key)
    end
    assert.same({}, world.logged("a refund failed"))
  end)
end)

describe("requests that were charged on one node of a Redis Cluster, while another is away", function()
  it("have it back soon, however many they are, by few timers", function()
    local at = { match = { paths = { "/ab" } }, onStoreFailure = "deny" }
    local world = support.world({ workers = 1, policies = { policy("a", fixed("100000/1d"), at), policy("b", fixed("100000/1d"), at) }, deploys = redisCluster.deploys({ nodes = 3 }) })
    local cluster = world.deployment
    local function owner(name, key)
      return cluster.owners[redisCluster.slotOf(support.counterKey(name, fixed("100000/1d"), key))]
    end
    local key
    for i = 1, 1000 do
      if owner("a", "k" .. i) == cluster.nodes[1] and owner("b", "k" .. i) == cluster.nodes[2] then
        key = key or "k" .. i
      end
    end
    ask(world, "ab", 1, { key = key })
    world.run(50)
    cluster.nodes[2].kill()
    world.run(600)
    local requests = {}
    for _ = 1, 1000 do
      for _ = 1, 8 do
        requests[#requests + 1] = ask(world, "ab", 1, { key = key })[1]
      end
      world.run(1)
    end
    -- A decision takes 50 ms at most, and a round of refunds as long again.
    local charged = used(world, "a", fixed("100000/1d"), key)
    assert.is_true(charged <= 1 + 8 * 150, tostring(charged))
    world.run(300)
    assert.equal(1, used(world, "a", fixed("100000/1d"), key))
    assert.is_nil(world.statuses(requests)[200])
    assert.same({}, world.logged("lua_max_running_timers"))
  end)
end)
