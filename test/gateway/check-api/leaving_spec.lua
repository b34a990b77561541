-- gateway/src/check-api/ where a caller closes its connection while its checks have some of their replies.

local support = require("test.gateway.virtual.support")
local ask, fixed, policy = support.ask, support.fixed, support.policy

-- Many limits, so that a hundred checks are two batches.
local limits = {}
for _, window in ipairs({ "1h", "1d", "7d" }) do
  limits[#limits + 1] = support.with(fixed("1000/" .. window), { name = "w" .. window })
end

local function leftOf(world, key)
  local answer = support.check(world, { { policy = "a", key = { key }, peek = true } })
  world.run(100)
  return tonumber(answer.body:match('"remaining":(%d+)'))
end

describe("a caller that leaves, of checks that are decided each by itself", function()
  for leavesAtMs = 1, 14 do
    it("has nothing charged, and nothing back twice: after " .. leavesAtMs .. " ms", function()
      local policies = { policy("a", nil, { limits = limits }) }
      local world = support.world({ workers = 1, policies = policies })
      world.publish(policies, nil, { support.callerSha256 })
      world.run(100)
      world.redis.upUs, world.redis.downUs = 2000, 2000
      ask(world, "a", 20, { key = "k1" })
      world.run(300)
      local checks = {}
      for i = 1, 100 do
        checks[i] = { policy = "a", key = { "k" .. i }, cost = 5 }
      end
      local request = support.callerPosts(world, "check", { mode = "each", checks = checks })
      world.run(leavesAtMs)
      local cost = request.status and 5 or 0
      request.abort()
      world.run(3000)
      assert.same({ 980 - cost, 1000 - cost }, { leftOf(world, "k1"), leftOf(world, "k100") })
    end)
  end
end)
