-- gateway/src/redis/connection-age.ts: what happens when the name of Redis leads to another server, while the old one still answers.

local nginx = require("test.gateway.virtual.nginx")
local newRedisServer = require("test.gateway.virtual.redis-server").new
local redisCluster = require("test.gateway.virtual.redis-cluster")
local redisSentinel = require("test.gateway.virtual.redis-sentinel")
local support = require("test.gateway.virtual.support")
local ask, fixed, policy = support.ask, support.fixed, support.policy

local name = "redis.test:6379"
-- The greatest age, and the second in which a worker notices it.
local ageMs = 31000

local function denying(limit, more)
  return policy("a", limit, support.with(support.denies, more or {}))
end

-- A world whose Redis has a name, and two servers that it may lead to; `to(i)` moves it.
local function worldOfTwo(options)
  local world = nginx.world(support.with({
    deploys = function(clock)
      local deployment = { url = "redis://" .. name, servers = {}, listeners = {} }
      for i = 1, 2 do
        deployment.servers[i] = newRedisServer(clock, {})
        deployment.servers[i].learnScripts()
      end
      function deployment.to(i)
        deployment.listeners[name] = deployment.servers[i]
      end
      deployment.to(1)
      return deployment
    end,
  }, options))
  world.run(20)
  return world, world.deployment.servers[1], world.deployment.servers[2], world.deployment.to
end

-- So many requests, one every so many ms, at all workers in turn.
local function load(world, everyMs, forMs)
  local requests = {}
  for i = 1, math.floor(forMs / everyMs) do
    requests[i] = ask(world, "a", 1, { worker = (i - 1) % world.workerCount + 1 })[1]
    world.run(everyMs)
  end
  return requests
end

local function charges(server)
  local count = 0
  for _, call in ipairs(server.calls) do
    count = count + (call.name:find("^charge") and #call.keys or 0)
  end
  return count
end

local function healthOf(world)
  local worker = world.workers[1]
  local request
  worker.call(function()
    request = worker.task.request
    request.headers = {}
    worker.module("gateway.src.private.healthz").healthz({ requireSnapshot = false }, "begun")
  end)
  world.run(1)
  return request.body
end

describe("when the name of Redis moves", function()
  it("workers go to the new server under load: each request is charged once, and none waits for a connection", function()
    local world, old, new, to = worldOfTwo({ workers = 2, policies = { denying(fixed("100000/1d")) } })
    local requests = load(world, 5, 1000)
    -- Slow to connect to, which requests would notice.
    old.connectUs, new.connectUs = 50000, 50000
    to(2)
    for _, request in ipairs(load(world, 5, ageMs)) do
      requests[#requests + 1] = request
    end
    local before = charges(old)
    for _, request in ipairs(load(world, 5, 1000)) do
      requests[#requests + 1] = request
    end
    assert.equal(before, charges(old))
    assert.same({ [200] = #requests }, world.statuses(requests))
    assert.equal(#requests, charges(old) + charges(new))
    assert.is_true(charges(new) > 200)
    assert.is_true(support.slowestUs(requests) < 20000, tostring(support.slowestUs(requests)))
    assert.equal(1, #world.logged("Redis is another one now"))
    world.run(70000)
    for connection in pairs(old.connections) do
      error("a connection is left: " .. connection.number)
    end
    support.assertQuiet(world)
  end)

  it("a worker goes over within seconds when a connection that a request needed leads to the new one already", function()
    local world, old, new, to = worldOfTwo({ policies = { denying(fixed("100000/1d")) } })
    world.run(5000)
    -- It is made while the two that are kept are in use; and what is kept last is used first.
    old.downUs, new.downUs = 20000, 40000
    local requests = {}
    for i = 1, 3 do
      requests[i] = ask(world, "a", 1)[1]
      world.run(1)
      to(2)
    end
    world.run(100)
    old.downUs, new.downUs = 100, 100
    for _, request in ipairs(load(world, 10, 12000)) do
      requests[#requests + 1] = request
    end
    local before = charges(old)
    -- At the same moment they need all connections that there are.
    ask(world, "a", 1)
    world.run(0.05)
    ask(world, "a", 5)
    world.run(100)
    assert.equal(before, charges(old))
    assert.same({ [200] = #requests }, world.statuses(requests))
    assert.is_true(charges(new) > 0)
    assert.equal(1, #world.logged("Redis is another one now"))
    support.assertQuiet(world)
  end)

  it("a name that stays costs a worker with few requests two connections in 20 s at most, and forgets nothing", function()
    local world, old = worldOfTwo({ policies = { denying(fixed("3/1h")) } })
    load(world, 100, 1000)
    local made = old.made
    local requests = load(world, 100, 60000)
    assert.same({ [503] = 600 }, world.statuses(requests))
    assert.is_true(old.made > made and old.made <= made + 6, old.made - made .. " connections")
    assert.same({}, world.logged("Redis is another one now"))
    -- A refusal is remembered for ten seconds.
    assert.is_true(charges(old) < 15, "refusals were forgotten")
    support.assertQuiet(world)
  end)

  for what, spoil in pairs({
    ["refuses connections"] = function(server)
      server.state = "refusing"
      return function()
        server.go()
      end
    end,
    ["does not answer"] = function(server)
      server.cutOff()
      return server.go
    end,
    ["still is a replica"] = function(server)
      function server.refusal(words)
        return words[1]:lower() ~= "get" and "READONLY You can't write against a read only replica." or nil
      end
      return function()
        server.refusal = nil
      end
    end,
    ["loads its data"] = function(server)
      server.error = "LOADING Redis is loading the dataset in memory"
      return function()
        server.error = nil
      end
    end,
  }) do
    it("requests stay with the old server while the new one " .. what .. ", and go over when it can decide", function()
      local world, old, new, to = worldOfTwo({ policies = { denying(fixed("100000/1d")) } })
      local mend = spoil(new)
      local requests = load(world, 10, 100)
      to(2)
      for _, request in ipairs(load(world, 10, 2 * ageMs)) do
        requests[#requests + 1] = request
      end
      assert.same({ [200] = #requests }, world.statuses(requests))
      assert.equal(0, charges(new))
      assert.is_true(#world.logged("were not renewed, and stay in use") > 0)
      mend()
      load(world, 10, 8000)
      local before = charges(old)
      load(world, 10, 100)
      assert.equal(before, charges(old))
      assert.same({}, world.errors)
    end)
  end

  it("workers that use different servers are reported, and unite within seconds", function()
    local world, old, new, to = worldOfTwo({ workers = 2, policies = { denying(fixed("100000/1d")) } })
    load(world, 10, 100)
    to(2)
    local moved = 0
    for _ = 1, ageMs / 100 do
      load(world, 10, 100)
      moved = new.keys["sluice:epoch"] and moved + 1 or 0
      if moved > 0 then
        break
      end
    end
    world.run(20)
    local ids = { old.keys["sluice:epoch"], new.keys["sluice:epoch"] }
    local health = healthOf(world)
    assert.is_truthy(health:find("workers use different Redis servers", 1, true))
    for _, id in ipairs(ids) do
      assert.is_truthy(health:find(id, 1, true))
      assert.equal(1, support.metric(world, 'sluice_redis_workers{redis="' .. id:gsub("[-.]", "%%%0") .. '"}'))
    end
    local report
    world.workers[1].call(function()
      report = world.workers[1].module("gateway.src.metrics.redis-health").redisReport()
    end)
    world.run(1)
    assert.equal(1, report.strayWorkers)
    load(world, 10, 7000)
    assert.is_truthy(healthOf(world):find('"ok"', 1, true))
    assert.is_falsy(healthOf(world):find(ids[1], 1, true))
    support.assertQuiet(world)
  end)
end)

describe("what a request took from the old server", function()
  local function slots(quota)
    return { algorithm = "concurrency", quota = quota, ttl = "30s" }
  end

  it("is not refunded in the new one: its slots are those of other requests", function()
    local world, old, new, to = worldOfTwo({ policies = { denying(slots(1)) } })
    local first = ask(world, "a", 1, { serviceUs = -1 })[1]
    world.run(10)
    to(2)
    -- The slots are not renewed in between, which would take one of the new server.
    for _ = 1, ageMs do
      world.run(1)
      if new.keys["sluice:epoch"] then
        break
      end
    end
    local second = ask(world, "a", 1, { serviceUs = -1 })[1]
    world.run(10)
    assert.same({ [200] = 2 }, world.statuses({ first, second }))
    first.finish()
    world.run(200)
    assert.equal(0, new.count("refund"))
    -- The second request still holds the only slot.
    assert.same({ [503] = 1 }, world.statuses(load(world, 10, 10)))
    second.finish()
    world.run(200)
    assert.same({ [200] = 1 }, world.statuses(load(world, 10, 10)))
    support.assertQuiet(world)
  end)

  it("is taken anew where it is renewed: a request goes on holding a slot at the new server", function()
    local world, _, new, to = worldOfTwo({ policies = { denying(slots(1)) } })
    local first = ask(world, "a", 1, { serviceUs = -1 })[1]
    world.run(10)
    to(2)
    world.run(ageMs + 11000)
    assert.same({ [503] = 1 }, world.statuses(load(world, 10, 10)))
    first.finish()
    world.run(200)
    assert.equal(1, new.count("refund"))
    assert.same({ [200] = 1 }, world.statuses(load(world, 10, 10)))
    support.assertQuiet(world)
  end)

  it("counts once more at most, with leases too", function()
    local limit = fixed("2000/1h")
    local world, _, _, to = worldOfTwo({ workers = 2, policies = { denying(limit, { consistency = "leased" }) } })
    local requests = load(world, 1, 1000)
    to(2)
    for _, request in ipairs(load(world, 5, ageMs)) do
      requests[#requests + 1] = request
    end
    local passed = world.statuses(requests)[200]
    assert.is_true(passed > 2000 and passed <= 4000, tostring(passed))
    support.assertQuiet(world)
  end)
end)

describe("names of sentinels and nodes", function()
  -- The sentinels' names lead to others, which name another primary.
  it("that move take the workers along to another primary", function()
    local other
    local world = nginx.world({
      policies = { denying(fixed("100000/1d")) },
      deploys = function(clock)
        local deployment = redisSentinel.new(clock, {})
        other = newRedisServer(clock, {})
        other.host, other.port = "127.0.0.9", 6409
        deployment.listeners["127.0.0.9:6409"] = other
        other.learnScripts()
        deployment.servers[1].learnScripts()
        return deployment
      end,
    })
    world.run(20)
    local former = world.deployment.servers[1]
    local requests = load(world, 10, 100)
    for _, sentinel in ipairs(world.deployment.sentinels) do
      sentinel.names = other
    end
    for _, request in ipairs(load(world, 10, ageMs)) do
      requests[#requests + 1] = request
    end
    local before = charges(former)
    for _, request in ipairs(load(world, 10, 100)) do
      requests[#requests + 1] = request
    end
    assert.equal(before, charges(former))
    assert.same({ [200] = #requests }, world.statuses(requests))
    assert.equal(#requests, charges(former) + charges(other))
    support.assertQuiet(world)
  end)

  it("that move take the workers along to another cluster", function()
    local others
    local world = nginx.world({
      policies = { denying(fixed("100000/1d")) },
      deploys = function(clock)
        local deployment = redisCluster.new(clock, { nodes = 3 })
        others = redisCluster.new(clock, { nodes = 3 })
        for i, node in ipairs(others.nodes) do
          node.port = 7100 + i
          node.address = "127.0.0.1:" .. node.port
          deployment.listeners[node.address] = node
          node.learnScripts()
          deployment.nodes[i].learnScripts()
        end
        deployment.listeners["redis.test:7001"] = deployment.nodes[1]
        deployment.url = "redis+cluster://redis.test:7001"
        return deployment
      end,
    })
    world.run(20)
    local function chargesOf(cluster)
      local count = 0
      for _, node in ipairs(cluster.nodes) do
        count = count + charges(node)
      end
      return count
    end
    local requests = load(world, 10, 100)
    assert.equal(#requests, chargesOf(world.deployment))
    world.deployment.listeners["redis.test:7001"] = others.nodes[1]
    for _, request in ipairs(load(world, 10, ageMs)) do
      requests[#requests + 1] = request
    end
    local before = chargesOf(world.deployment)
    for _, request in ipairs(load(world, 10, 100)) do
      requests[#requests + 1] = request
    end
    assert.equal(before, chargesOf(world.deployment))
    assert.same({ [200] = #requests }, world.statuses(requests))
    assert.equal(#requests, chargesOf(world.deployment) + chargesOf(others))
    support.assertQuiet(world)
  end)
end)
