-- gateway/src/stores/redis/holds.ts: callers that renew and release what they hold share calls to Redis with everybody else.

local cjson = require("cjson")
local support = require("test.gateway.virtual.support")
local ask, policy = support.ask, support.policy

local function worldAt(roundTripMs)
  local world = support.world({ workers = 1 })
  local slots = { algorithm = "concurrency", quota = 100000, ttl = "60s" }
  world.publish({ policy("all", support.fixed("100000/1h"), support.denies), policy("slots", slots) }, nil, { support.callerSha256 })
  world.run(50)
  world.redis.upUs, world.redis.downUs = roundTripMs * 500, roundTripMs * 500
  return world
end

local function hold(world, count)
  local asked, holds = {}, {}
  for i = 1, count do
    asked[i] = support.callerPosts(world, "hold", { policy = "slots", key = { "k" .. i % 50 } })
    if i % 200 == 0 then
      world.run(30)
    end
  end
  world.run(100)
  for i, request in ipairs(asked) do
    holds[i] = cjson.decode(request.body).hold
  end
  return holds
end

describe("holds by the check API", function()
  for _, content in ipairs({ "renew", "release" }) do
    it("do not hold up others: two thousand at once " .. content, function()
      local world = worldAt(10)
      local holds = hold(world, 2000)
      local asked, others = {}, {}
      world.at(10, function()
        for i, each in ipairs(holds) do
          asked[i] = support.callerPosts(world, content, { hold = each })
        end
      end)
      for i = 0, 19 do
        world.at(i * 10 + 3, function()
          others[#others + 1] = ask(world, "all", 1, { serviceUs = 0 })[1]
        end)
      end
      world.run(1000)
      assert.same({ [200] = 20 }, world.statuses(others))
      assert.is_true(support.slowestUs(others) < 70000, support.slowestUs(others))
      assert.same({ [200] = 2000 }, world.statuses(asked))
      assert.equal(content == "renew" and '{"renewed":true,"ttl":60}\n' or '{"released":true}\n', asked[2000].body)
      support.assertQuiet(world)
    end)
  end

  it("are not known to be held while Redis is away", function()
    local world = worldAt(2)
    local held = hold(world, 1)[1]
    world.redis.kill()
    local renewal = support.callerPosts(world, "renew", { hold = held })
    world.run(1000)
    assert.equal(503, renewal.status)
    world.redis.begin(true)
    world.run(1000)
    local again = support.callerPosts(world, "renew", { hold = held })
    world.run(50)
    assert.equal(200, again.status)
  end)
end)
