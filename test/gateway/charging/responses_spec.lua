-- gateway/src/charging/deferred-charges.ts: responses (cost: response-bytes) are charged soon after they were sent, whatever others download.

local support = require("test.gateway.virtual.support")
local redisCluster = require("test.gateway.virtual.redis-cluster")
local ask, policy, with = support.ask, support.policy, support.with

local bytes = { cost = { from = "response-bytes" } }
local limit = support.bucket("10000/1s", 10000)

local function clusterWith(policies, workers)
  local world = support.world({ workers = workers, policies = policies, deploys = redisCluster.deploys({ nodes = 3 }) })
  for _, server in ipairs(world.deployment.servers) do
    server.upUs, server.downUs = 1000, 1000
  end
  return world
end

-- From now on, so many responses a second of /other, each of a new key, at the first worker.
local function flood(world, perSecond, seconds)
  for i = 1, perSecond * seconds do
    world.at(i * 1000 / perSecond, function()
      ask(world, "other", 1, { key = "x" .. i, serviceUs = 0, variables = { body_bytes_sent = "100" } })
    end)
  end
end

-- Asks for 50 KB a second. Returns how many KB passed.
local function download(world, seconds)
  local requests = {}
  for i = 0, seconds * 50 - 1 do
    world.at(i * 20, function()
      requests[#requests + 1] = ask(world, "own", 1, { serviceUs = 1000, variables = { body_bytes_sent = "1000" } })[1]
    end)
  end
  world.run(seconds * 1000)
  return world.statuses(requests)[200]
end

describe("on a Redis Cluster, beside responses of four thousand new keys a second,", function()
  for _, scope in ipairs({ "cluster", "node" }) do
    it("a download is held to its limit, of scope " .. scope, function()
      local own = policy("own", limit, with(bytes, { scope = scope }))
      local world = clusterWith({ own, policy("other", limit, bytes) }, 2)
      flood(world, 4000, 4)
      world.run(2000)
      local passed = download(world, 2)
      assert.is_true(passed >= 29 and passed <= 31, passed)
      world.run(2000)
      assert.is_nil(world.dict("sluice_metrics"):get("unsettled-responses"))
      support.assertQuiet(world)
    end)
  end
end)

describe("of responses that end at once,", function()
  it("those of an app are charged although another app's take all places", function()
    local own = policy("own", limit, with(bytes, { ofApp = "small" }))
    local world = support.world({ workers = 1, policies = { own, policy("other", limit, bytes) } })
    local requests = {}
    for i = 1, 5100 do
      world.at(i / 2, function()
        for _, name in ipairs({ "x", "y" }) do
          requests[#requests + 1] = ask(world, "other", 1, { key = name .. i, serviceUs = -1, variables = { body_bytes_sent = "100" } })[1]
        end
      end)
    end
    local mine = ask(world, "own", 1, { serviceUs = -1, variables = { body_bytes_sent = "90000" } })[1]
    world.run(3000)
    for _, request in ipairs(requests) do
      request.finish()
    end
    mine.finish()
    world.run(500)
    assert.equal(200, world.dict("sluice_metrics"):get("unsettled-responses"))
    local again = ask(world, "own", 1, { serviceUs = 0 })
    world.run(20)
    assert.same({ [429] = 1 }, world.statuses(again))
  end)
end)

describe("requests whose responses will be charged", function()
  it("do not hold up others, when two thousand at a time ask Redis at 10 ms", function()
    local world = support.world({ workers = 1, policies = { policy("all", limit, support.denies), policy("other", limit, bytes) } })
    world.redis.upUs, world.redis.downUs = 5000, 5000
    local others = {}
    for round = 0, 2 do
      world.at(round * 100, function()
        for i = 1, 2000 do
          ask(world, "other", 1, { key = round .. "x" .. i, serviceUs = 0 })
        end
      end)
    end
    for i = 0, 29 do
      world.at(i * 10 + 3, function()
        others[#others + 1] = ask(world, "all", 1, { serviceUs = 0 })[1]
      end)
    end
    world.run(1000)
    assert.same({ [200] = 30 }, world.statuses(others))
    assert.is_true(support.slowestUs(others) < 80000, support.slowestUs(others))
    support.assertQuiet(world)
  end)
end)

describe("a debt of responses, after a step of the clock back by an hour,", function()
  for _, scope in ipairs({ "node", "cluster" }) do
    for _, algorithm in ipairs({ "token-bucket", "fixed-window", "sliding-window", "sliding-log" }) do
      it(("takes no longer than a window and itself: %s, %s"):format(scope, algorithm), function()
        local own = policy("own", { algorithm = algorithm, quota = 50, window = "1s" }, with(bytes, { scope = scope }))
        local world = support.world({ workers = 2, policies = { own } })
        local function answered(count)
          local requests = ask(world, "own", count, { worker = 0, serviceUs = 0, variables = { body_bytes_sent = "10" } })
          world.run(50)
          return world.statuses(requests)
        end
        assert.same({ [200] = 8 }, answered(8))
        assert.same({ [429] = 1 }, answered(1))
        local stepped = scope == "node" and world or world.redis
        local field = scope == "node" and "wallUs" or "clockUs"
        stepped[field] = stepped[field] - 3600000000
        local waited = 0
        while not answered(1)[200] do
          waited = waited + 50
          assert.is_true(waited <= 2600, waited)
        end
        support.assertQuiet(world)
      end)
    end
  end
end)

describe("responses of one key under two plans that end at the same moment", function()
  for _, scope in ipairs({ "node", "cluster" }) do
    it("are charged to the limits of their own plans, of scope " .. scope, function()
      local month, rate = support.fixed("1000000000/1d"), support.bucket("10000/1s", 10000)
      month.name, rate.name = "daily", "rate"
      local own = policy("own", nil, with(bytes, { scope = scope, planBy = "header:x-plan", defaultPlan = "free", plans = { free = { month }, pro = { month, rate } } }))
      local world = support.world({ workers = 2, policies = { own } })
      local function get(plan, count)
        local variables = { http_x_plan = plan, body_bytes_sent = plan == "pro" and "4000" or "1" }
        return ask(world, "own", count, { serviceUs = -1, variables = variables })
      end
      local requests = { get("free", 1)[1], get("pro", 1)[1], get("free", 1)[1], get("pro", 1)[1], get("pro", 1)[1] }
      world.run(50)
      for _, request in ipairs(requests) do
        request.finish()
      end
      world.run(50)
      local after = { get("pro", 1)[1], get("free", 1)[1] }
      world.run(50)
      assert.same({ 429, 200 }, { after[1].status, after[2].status })
      after[2].finish()
      world.run(50)
      support.assertQuiet(world)
    end)
  end
end)
