-- gateway/src/stores/redis/debts.ts and stores/share/: what requests take while Redis is away, and what Redis is told of it later.

local support = require("test.gateway.virtual.support")
local redisCluster = require("test.gateway.virtual.redis-cluster")
local ask, fixed, bucket, policy, used = support.ask, support.fixed, support.bucket, support.policy, support.used

local function flushed(world, key)
  return world.dict("sluice_metrics"):get(key) or 0
end

-- Redis refuses connections; the breakers of all workers have found that.
local function takeAway(world, name)
  world.redis.kill()
  for _ = 1, 3 do
    for number = 1, world.workerCount do
      ask(world, name or "probe", 1, { worker = number, key = "x" })
    end
    world.run(5)
  end
end

local function comeBack(world)
  world.redis.begin(true)
  world.run(700)
end

local function worldWith(policies, options)
  policies[#policies + 1] = policy("probe", fixed("1/1s"), { onStoreFailure = "deny" })
  return support.world(support.with({ policies = policies }, options or {}))
end

local function passed(requests)
  local count = 0
  for _, request in ipairs(requests) do
    count = count + (request.passed and 1 or 0)
  end
  return count
end

-- So many requests a second for so many ms, all decided when this returns.
local function offer(world, name, perSecond, ms, key)
  local requests = {}
  for i = 0, math.floor(perSecond * ms / 1000) - 1 do
    world.at(i * 1000 / perSecond, function()
      requests[#requests + 1] = ask(world, name, 1, { key = key, worker = i % world.workerCount + 1, serviceUs = 0 })[1]
    end)
  end
  world.run(ms)
  return requests
end

describe("what passed while Redis was away", function()
  for _, way in ipairs({ "local", "allow" }) do
    it("is charged when Redis is back, once: " .. way, function()
      local limit = fixed("100/1h")
      local world = worldWith({ policy("a", limit, { onStoreFailure = way }) }, { workers = 2 })
      ask(world, "a", 20, { worker = 0 })
      world.run(20)
      takeAway(world)
      local requests = offer(world, "a", 100, 400)
      assert.equal(40, passed(requests))
      assert.equal(0, world.redis.count("charge_up_to"))
      comeBack(world)
      assert.equal(60, used(world, "a", limit))
      assert.equal(40, flushed(world, "redis-late-units"))
      assert.equal(0, flushed(world, "redis-forgotten-units"))
      world.run(3000)
      assert.equal(60, used(world, "a", limit))
      support.assertQuiet(world)
    end)
  end

  it("is charged up to what the limit still has", function()
    local limit = fixed("30/1h")
    local world = worldWith({ policy("a", limit, { onStoreFailure = "allow" }) })
    ask(world, "a", 20)
    world.run(20)
    takeAway(world)
    assert.equal(40, passed(offer(world, "a", 100, 400)))
    comeBack(world)
    assert.equal(30, used(world, "a", limit))
  end)

  it("counts whole for as long as a burst takes to refill, and falls after that by this worker's share of the rate", function()
    local limit = bucket("10/1s", 20)
    local world = worldWith({ policy("a", limit, { onStoreFailure = "allow" }) })
    ask(world, "a", 1)
    world.run(20)
    takeAway(world)
    assert.equal(100, passed(offer(world, "a", 100, 1000)))
    -- 2 s after the first, all of it; then 10 a second.
    world.run(4000)
    local units
    local argv = {}
    comeBack(world)
    for _, call in ipairs(world.redis.calls) do
      if call.name == "charge_up_to" then
        argv = call.argv
      end
    end
    units = tonumber(argv[5])
    assert.is_true(units >= 100 - 32 and units <= 100 - 28, tostring(units))
  end)

  it("in a fixed window that has ended since is owed no more", function()
    local limit = fixed("100/1m")
    local world = worldWith({ policy("a", limit) })
    ask(world, "a", 1)
    world.run(20)
    takeAway(world)
    assert.equal(10, passed(offer(world, "a", 100, 100)))
    world.run(61000)
    comeBack(world)
    assert.equal(0, world.redis.count("charge_up_to"))
    assert.equal(0, used(world, "a", limit))
    assert.equal(0, flushed(world, "redis-forgotten-units"))
  end)

  it("of slots is charged nobody: they come back with their requests", function()
    local world = worldWith({ policy("a", { algorithm = "concurrency", quota = 5, ttl = "1m" }) })
    takeAway(world)
    local requests = ask(world, "a", 8, { serviceUs = 200000 })
    world.run(20)
    assert.equal(5, passed(requests))
    comeBack(world)
    assert.equal(0, world.redis.count("charge_up_to"))
    support.assertQuiet(world)
  end)

  it("is not owed by a request that another policy refused after all", function()
    local limit = fixed("100/1h")
    local other = policy("b", fixed("3/1h"))
    local world = worldWith({ policy("a", limit), other })
    other.match = { paths = { "/a" } }
    world.publish({ policy("a", limit), other, policy("probe", fixed("1/1s"), { onStoreFailure = "deny" }) })
    world.run(20)
    takeAway(world)
    assert.equal(3, passed(offer(world, "a", 100, 200)))
    comeBack(world)
    assert.equal(3, used(world, "a", limit))
    assert.equal(3, used(world, "b", fixed("3/1h")))
  end)

  it("is told again where Redis could certainly not be told, and never where it may have been", function()
    for _, loses in ipairs({ "reply", "refused" }) do
      local limit = fixed("1000/1h")
      local world = worldWith({ policy("a", limit) })
      ask(world, "a", 1)
      world.run(20)
      takeAway(world)
      assert.equal(10, passed(offer(world, "a", 100, 100)))
      local lost = false
      if loses == "reply" then
        world.redis.fate = function(commands)
          if commands[1][1] == "evalsha" and not lost then
            lost = true
            return { loses = "reply" }
          end
        end
      else
        world.redis.error = function(words)
          if words[1] == "evalsha" and not lost then
            lost = true
            return "OOM command not allowed when used memory > 'maxmemory'."
          end
        end
      end
      -- Scripts are known, so that the debt's call is the first.
      for _, script in pairs(dofile("gateway/dist/sluice_redis_scripts.lua")) do
        world.redis.known[script.sha1] = true
      end
      comeBack(world)
      world.run(1000)
      assert.is_true(lost)
      assert.equal(11, used(world, "a", limit), loses)
      assert.equal(loses == "reply" and 10 or 0, flushed(world, "redis-forgotten-units"), loses)
    end
  end)

  it("of an app is owed also when another app owes for as many keys as there may be", function()
    local world = worldWith({ policy("a", fixed("100/1h")) })
    ask(world, "a", 1)
    world.run(20)
    takeAway(world)
    local worker = world.workers[1]
    local debts = worker.module("gateway.src.stores.redis.debts")
    worker.call(function()
      local ofShop = worker.module("gateway.src.snapshot.current").policiesOf("shop").a
      local ofAnother = setmetatable({ app = "another", counterPrefix = "another" }, { __index = ofShop })
      for i = 1, 10000 do
        debts.owe(ofShop, "key " .. i, 1)
      end
      debts.owe(ofShop, "one more", 1)
      debts.owe(ofAnother, "key", 1)
    end)
    world.run(1000)
    assert.equal(1, flushed(world, "redis-forgotten-units"))
  end)

  it("by many keys is charged soon, by all nodes of a Redis Cluster", function()
    local world = support.world({ workers = 1, policies = { policy("a", fixed("100/1h")) }, deploys = redisCluster.deploys({ nodes = 3 }) })
    ask(world, "a", 1)
    world.run(50)
    for _, server in ipairs(world.deployment.servers) do
      server.upUs, server.downUs = 5000, 5000
    end
    local worker = world.workers[1]
    worker.call(function()
      local ofShop = worker.module("gateway.src.snapshot.current").policiesOf("shop").a
      for i = 1, 600 do
        worker.module("gateway.src.stores.redis.debts").owe(ofShop, "1:x" .. i, 2)
      end
    end)
    world.run(300)
    for i = 1, 600 do
      assert.equal(2, used(world, "a", fixed("100/1h"), "x" .. i))
    end
  end)

  it("is forgotten by a worker that ends, which counts how much that is", function()
    local limit = fixed("100/1h")
    local world = worldWith({ policy("a", limit) })
    takeAway(world)
    assert.equal(10, passed(offer(world, "a", 100, 100)))
    world.workers[1].quit()
    world.run(1000)
    assert.equal(10, flushed(world, "redis-forgotten-units"))
    assert.is_true(world.workers[1].gone)
  end)

  it("of an edited policy goes on with the limits that are the same", function()
    local limit = fixed("100/1h")
    local world = worldWith({ policy("a", limit) })
    takeAway(world)
    assert.equal(10, passed(offer(world, "a", 100, 100)))
    world.publish({ policy("a", limit, { cost = 2 }) })
    world.run(20)
    assert.equal(5, passed(offer(world, "a", 50, 100)))
    comeBack(world)
    assert.equal(20, used(world, "a", limit))
  end)
end)

describe("a node's share", function()
  it("is the limit by the number of live gateways, with room for one request", function()
    local world = worldWith({ policy("a", fixed("10/1h")), policy("b", fixed("2/1h")) }, { workers = 2 })
    world.setGateways(4)
    takeAway(world)
    assert.equal(2, passed(offer(world, "a", 100, 200)))
    assert.equal(1, passed(offer(world, "b", 100, 200)))
  end)

  it("is not asked where a policy denies or allows", function()
    local world = worldWith({ policy("a", fixed("10/1h"), support.denies), policy("b", fixed("2/1h"), { onStoreFailure = "allow" }) })
    takeAway(world)
    local denied, allowed = offer(world, "a", 100, 200), offer(world, "b", 100, 200)
    assert.same({ [503] = 20 }, world.statuses(denied))
    assert.same({ [200] = 20 }, world.statuses(allowed))
  end)

  it("begins with nothing where the key was used up, and refills at the limit's rate", function()
    local limit = bucket("10/1s", 10)
    local world = worldWith({ policy("a", limit), policy("b", limit) }, { workers = 2 })
    local before = passed(offer(world, "a", 100, 2000))
    assert.is_true(before >= 28 and before <= 30, tostring(before))
    takeAway(world)
    local during = passed(offer(world, "a", 100, 3000))
    assert.is_true(during >= 28 and during <= 31, tostring(during))
    -- Of a key that was not refused, a whole burst besides.
    local other = passed(offer(world, "b", 100, 1000))
    assert.is_true(other >= 18 and other <= 20, tostring(other))
  end)

  it("has nothing in a fixed window that is used up, and refills as of its end", function()
    local limit = fixed("20/10s")
    local world = worldWith({ policy("a", limit) })
    -- The world begins with a window: 1,700,000,000 s.
    assert.equal(20, passed(offer(world, "a", 100, 500)))
    takeAway(world)
    local leftMs = 10000 - world.clock.nowUs / 1000
    assert.equal(0, passed(offer(world, "a", 20, leftMs - 100)))
    world.run(100)
    local after = passed(offer(world, "a", 20, 5000))
    assert.is_true(after >= 9 and after <= 11, tostring(after))
  end)

  it("of ten short outages is like that of one long", function()
    local limit = bucket("10/1s", 10)
    local total = {}
    for seed = 1, 5 do
      local world = worldWith({ policy("a", limit) }, { seed = seed, workers = 2 })
      local beganUs = world.clock.nowUs
      local count = passed(offer(world, "a", 100, 1000))
      local away = 0
      for _ = 1, 10 do
        world.redis.kill()
        count = count + passed(offer(world, "a", 100, 300))
        world.redis.begin(true)
        count = count + passed(offer(world, "a", 100, 400))
        away = away + 0.3 + 0.4
      end
      local seconds = (world.clock.nowUs - beganUs) / 1e6
      -- B + rτ + rt; breakers find that Redis is back up to 0.4 s later.
      assert.is_true(count <= 10 + 10 * seconds + 10 * away + 1, count .. " in " .. seconds)
      total[seed] = count
    end
  end)
end)
