-- The lines of two workers for one counter are one line, and go on as fast as one, however many other lines wait beside them.

local support = require("test.gateway.virtual.support")
local ask, bucket, fixed, policy = support.ask, support.bucket, support.fixed, support.policy

local seconds = 2

local function delays(maxDelay, maxWaiting)
  return { action = "delay", maxDelay = maxDelay, maxWaiting = maxWaiting }
end

local function worldWith(limit)
  local other = policy("other", fixed("1/5m"), { onLimit = delays("5m", 100000) })
  local own = policy("own", limit, { onLimit = delays("5s", 100) })
  return support.world({ workers = 2, policies = { other, own } })
end

--- Two requests that wait at each worker for each key.
local function addLines(world, keys)
  for i = 1, keys do
    for _, key in ipairs({ { "both", "both" }, { "first", "second" } }) do
      for worker = 1, 2 do
        ask(world, "other", 2, { key = key[worker] .. i, worker = worker })
      end
    end
    if i % 25 == 0 then world.run(5) end
  end
  world.run(500)
end

--- @return the requests of some seconds, which alternate between the workers
local function steady(world, perSecond, serviceUs)
  local requests = {}
  for i = 1, perSecond * seconds do
    world.at(i * 1000 / perSecond, function()
      requests[i] = ask(world, "own", 1, { worker = i % 2 + 1, serviceUs = serviceUs })[1]
    end)
  end
  return requests
end

describe("a line over two workers, beside", function()
  for _, keys in ipairs({ 0, 100, 500 }) do
    it(keys .. " keys with lines of another policy at each, admits what its bucket allows", function()
      local world = worldWith(bucket("1000/1s", 10))
      addLines(world, keys)
      local begunUs = world.clock.nowUs
      local requests = steady(world, 1200, 0)
      world.run(seconds * 1000 + 7000)
      local inTime = 0
      for _, request in ipairs(requests) do
        if request.status == 200 and request.decidedUs - begunUs < seconds * 1e6 then inTime = inTime + 1 end
      end
      assert.is_true(inTime >= 990 * seconds, inTime)
    end)

    it(keys .. " keys with lines of another policy at each, takes slots as they are freed", function()
      local world = worldWith({ algorithm = "concurrency", quota = 4, ttl = "10s" })
      addLines(world, keys)
      local requests = steady(world, 40, 80000)
      world.run(seconds * 1000 + 7000)
      assert.same({ [200] = 40 * seconds }, world.statuses(requests))
      assert.is_true(support.slowestUs(requests) < 300000, support.slowestUs(requests))
    end)
  end
end)
