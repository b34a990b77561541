-- gateway/src/check-api/peeks.ts: callers that peek leave connections to Redis to everybody else, and have turns.

local cjson = require("cjson")
local support = require("test.gateway.virtual.support")
local ask, fixed, policy = support.ask, support.fixed, support.policy

local limit = fixed("100000/1h")

local function worldAt(roundTripMs)
  local world = support.world({ workers = 1 })
  world.publish({ policy("all", limit, support.denies), policy("mine", limit) }, nil, { support.callerSha256 })
  world.run(50)
  world.redis.upUs, world.redis.downUs = roundTripMs * 500, roundTripMs * 500
  return world
end

local function peekAt(world, count)
  local checks = {}
  for i = 1, count do
    checks[i] = { policy = "mine", key = { "k" .. i }, peek = true }
  end
  return support.check(world, checks)
end

describe("peeks by the check API", function()
  it("do not hold up requests of others", function()
    local world = worldAt(10)
    local isOver = false
    local function again()
      if isOver then
        return
      end
      local request = peekAt(world, 100)
      local function look()
        if request.ended then
          again()
        else
          world.at(5, look)
        end
      end
      world.at(5, look)
    end
    for _ = 1, 40 do
      again()
    end
    local others = {}
    for i = 0, 74 do
      world.at(i * 20, function()
        others[#others + 1] = ask(world, "all", 1, { serviceUs = 0 })[1]
      end)
    end
    world.run(1600)
    isOver = true
    world.run(5000)
    assert.same({ [200] = 75 }, world.statuses(others))
    assert.is_true(support.slowestUs(others) < 60000, ("%d µs"):format(support.slowestUs(others)))
  end)

  it("say what is left, and the turns of callers that leave are free again", function()
    local world = worldAt(10)
    for _ = 1, 60 do
      local request = peekAt(world, 100)
      world.at(15, function()
        request.abort()
      end)
    end
    world.run(1000)
    local asked = peekAt(world, 3)
    world.run(100)
    assert.equal(200, asked.status)
    local results = cjson.decode(asked.body).results
    assert.equal(100000, results[3].remaining)
    support.assertQuiet(world)
  end)
end)
