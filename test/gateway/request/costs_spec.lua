-- gateway/src/request/costs.ts: the costs that requests state, and the policies that are remembered for them.

local support = require("test.gateway.virtual.support")

local function countOf(table)
  local count = 0
  for _ in pairs(table) do
    count = count + 1
  end
  return count
end

describe("a policy at the costs that requests state", function()
  local world, worker, pricedPolicy, policy

  before_each(function()
    local limit = support.fixed("100000/1d")
    world = support.world({ workers = 1, policies = { support.policy("books", limit, { cost = { from = "header:c", default = 2 } }) } })
    worker = world.workers[1]
    pricedPolicy = worker.module("gateway.src.request.costs").pricedPolicy
    policy = worker.module("gateway.src.snapshot.current").policiesOf("shop").books
  end)

  it("is the policy itself at its own cost, and the same object whenever a cost is stated again", function()
    assert.equal(2, policy.policy.cost)
    assert.equal(policy, pricedPolicy(policy, 2))
    local priced = pricedPolicy(policy, 3)
    assert.equal(3, priced.policy.cost)
    assert.equal(policy.limits, priced.limits)
    assert.equal(priced, pricedPolicy(policy, 3))
    assert.not_equal(priced, pricedPolicy(policy, 4))
  end)

  it("is remembered at few costs for all policies together, however many are stated, and each is right", function()
    local policies = {}
    for i = 1, 100 do
      policies[i] = setmetatable({}, { __index = policy })
    end
    for cost = 3, 300 do
      for i = 1, 100 do
        assert.equal(cost, pricedPolicy(policies[i], cost).policy.cost)
      end
    end
    local known = 0
    for _, costs in pairs(worker.inner("gateway.src.request.costs", "kept").byPolicy) do
      known = known + countOf(costs)
    end
    assert.is_true(known > 0 and known <= 1000, known)
  end)

  it("is forgotten together with the policy", function()
    local all = worker.inner("gateway.src.request.costs", "kept").byPolicy
    local other = setmetatable({}, { __index = policy })
    pricedPolicy(other, 7)
    assert.equal(1, countOf(all))
    other = nil
    collectgarbage()
    collectgarbage()
    assert.equal(0, countOf(all))
  end)
end)
