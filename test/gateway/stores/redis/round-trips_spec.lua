-- gateway/src/stores/redis/slot-renewals.ts: the round trips that renewals, refunds and charges of responses share.

local redisCluster = require("test.gateway.virtual.redis-cluster")
local storeWorld = require("test.gateway.stores.redis.store-world")

local function clusterWorld()
  return storeWorld({ world = { workers = 1, deploys = redisCluster.deploys({ nodes = 3 }) } })
end

-- So many charges of a policy of one limit. Returns their round trips, and how many thousand instructions it took to group them.
local function grouped(self, count)
  local charges, trips, thousands = {}, nil, 0
  for i = 1, count do
    charges[i] = { policy = self.policy(), limits = self.policy().limits, keyValues = "1:k" .. i }
  end
  jit.off()
  jit.flush()
  debug.sethook(function()
    thousands = thousands + 1
  end, "", 1000)
  local result = self.call(function()
    trips = self.load("slot-renewals").roundTrips(charges)
  end)
  self.world.run(50)
  debug.sethook()
  jit.on()
  assert.is_true(result.done)
  return trips, thousands
end

describe("round trips", function()
  it("have a hundred counters of one node each", function()
    local trips = grouped(clusterWorld(), 3000)
    local sizes = {}
    for _, trip in ipairs(trips) do
      sizes[#trip] = (sizes[#trip] or 0) + 1
    end
    assert.is_true(sizes[100] >= 27, sizes[100])
    assert.is_true(#trips <= 33, #trips)
  end)

  it("of four times as many slots take four times as long to find", function()
    local self = clusterWorld()
    grouped(self, 100)
    local _, few = grouped(self, 5000)
    local _, many = grouped(self, 20000)
    assert.is_true(many < 5 * few, ("%d and %d thousand instructions"):format(few, many))
  end)
end)
