-- gateway/src/stores/redis/exact-store.ts by itself: several checks at once, and what it says if Redis does not decide.

local storeWorld = require("test.gateway.stores.redis.store-world")
local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")
local loading = "LOADING Redis is loading the dataset in memory"

describe("the store of exact policies", function()
  it("charges a request's policies together or not at all, by one call", function()
    local self = storeWorld({ policies = { support.policy("a", day), support.policy("b", support.fixed("1/1d")) } })
    local function admit()
      local outcome = { merged = self.merged(), charges = {} }
      local checks = { self.check("a"), self.check("b") }
      local result = self.call(function()
        return self.admitTogether(checks, outcome)
      end)
      self.world.run(10)
      return result.value, outcome, checks
    end
    local allowed, outcome, checks = admit()
    assert.is_true(allowed)
    assert.equal(2, #outcome.charges)
    assert.same({ "exact", "1:k" }, { outcome.charges[1].store, outcome.charges[1].keyValues })
    assert.equal(checks[2].chargedAt, outcome.charges[2].chargedAt)
    assert.equal(outcome.charges[1].policy.limits, outcome.charges[1].limits)
    assert.equal(1, self.world.redis.count("charge"))
    allowed, outcome, checks = admit()
    assert.is_false(allowed)
    assert.equal(0, #outcome.charges)
    assert.same({ true, false }, { checks[1].allowed, checks[2].allowed })
    assert.same({ 1, 1 }, { self.used("k"), self.used("k", "b", support.fixed("1/1d")) })
    -- It is remembered, also for both together.
    self.world.redis.calls = {}
    allowed, outcome, checks = admit()
    assert.same({ false, false, 0 }, { allowed, checks[2].allowed, self.world.redis.count() })
    assert.same({ "default" }, outcome.merged.violated)
  end)

  it("asks Redis about a policy that is told by itself, though its refusal is remembered", function()
    local self = storeWorld({ policies = { support.policy("a", day), support.policy("b", support.fixed("1/1d")) } })
    local own = self.merged()
    for i = 1, 3 do
      local checks = { self.check("a", "1:k", { merged = self.merged() }), self.check("b", "1:k", { merged = own }) }
      self.call(function()
        return self.admitTogether(checks, { merged = self.merged(), charges = {} })
      end)
      self.world.run(10)
      assert.equal(i, self.world.redis.count("charge"))
    end
  end)

  it("does not decide without a Redis, nor while it does not answer, which the log tells", function()
    local self = storeWorld({ world = { redis = false } })
    assert.is_nil(self.call(function()
      return self.admitTogether({ self.check("a") }, { merged = self.merged(), charges = {} })
    end).value)
    assert.is_true(#self.world.log > 0)
    self = storeWorld({ policies = { support.policy("a", day), support.policy("b", day) } })
    self.world.redis.error = loading
    local outcome = { merged = self.merged(), charges = {} }
    local checks = { self.check("a"), self.check("b") }
    local result = self.call(function()
      return self.admitTogether(checks, outcome)
    end)
    self.world.run(10)
    assert.same({ true, nil, 0 }, { result.done, result.value, #outcome.charges })
    assert.equal(1, #self.world.logged("Redis did not decide"))
    assert.is_false(checks[1].unanswered.lost)
    assert.is_nil(outcome.merged.policy)
  end)

  it("needs several calls for very many limits, and says what was charged before one refused", function()
    local self = storeWorld({ policies = { support.policy("a", day), support.policy("b", support.fixed("1/1d")) } })
    local full = self.check("b", "1:full")
    self.call(function()
      self.admitTogether({ full }, { merged = self.merged(), charges = {} })
    end)
    self.world.run(10)
    self.world.redis.calls = {}
    local checks = {}
    for i = 1, 1000 do
      checks[i] = self.check("a", "1:k" .. i)
    end
    checks[1001] = self.check("b", "1:full")
    local outcome = { merged = self.merged(), charges = {} }
    local result = self.call(function()
      return self.admitTogether(checks, outcome)
    end)
    self.world.run(100)
    assert.is_false(result.value)
    assert.equal(1000, #outcome.charges)
    checks[1001] = self.check("b", "1:free")
    outcome = { merged = self.merged(), charges = {} }
    result = self.call(function()
      return self.admitTogether(checks, outcome)
    end)
    self.world.run(100)
    assert.is_true(result.value)
    assert.equal(1001, #outcome.charges)
  end)

  it("may not charge at once, because it waits for Redis", function()
    local self = storeWorld()
    assert.is_false(self.store.chargesAtOnce())
  end)
end)
