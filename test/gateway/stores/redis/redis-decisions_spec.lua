-- gateway/src/stores/redis/decide-checks.ts and exact-store.ts: a decision of one policy or several, as the caller hears it.

local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")

local function decisionWorld()
  local minute, hour = support.fixed("10/1m"), support.fixed("50/1h")
  minute.name, hour.name = "minute", "hour"
  local both = support.policy("b", minute)
  both.limits = { minute, hour }
  local world = support.world({ policies = { support.policy("a", day), both, support.policy("c", support.fixed("1/1d")) } })
  local worker = world.workers[1]
  local self = { world = world, worker = worker }
  self.decide = worker.module("gateway.src.stores.redis.decide-checks")
  self.settings = worker.module("gateway.src.redis.redis-settings").theRedis()
  self.merged = worker.module("limiter.src.compiled.merged-decision").newMergedDecision

  function self.policy(name)
    return worker.module("gateway.src.snapshot.current").policiesOf("shop")[name]
  end

  function self.check(name, merged)
    return { policy = self.policy(name), keyValues = "1:k", chargedAt = {}, separate = false, degraded = false, merged = merged }
  end

  function self.call(work)
    local result = {}
    worker.call(function()
      result[1], result[2], result[3] = work()
      result.done = true
    end)
    world.run(10)
    return result
  end

  function self.decideAll(checks, merged)
    return self.call(function()
      return self.decide.decideInRedis(self.settings, checks, merged or self.merged())
    end)
  end

  function self.decideOne(name, merged)
    return self.call(function()
      local allowed, failure, unanswered = self.decide.decideOneInRedis(self.settings, self.policy(name), "1:k", merged or self.merged())
      self.chargedAt = self.decide.chargedAtByLast()
      return allowed, failure, unanswered
    end)
  end

  function self.idle()
    return worker.inner("gateway.src.stores.redis.decide-checks", "idlePending")
  end

  return self
end

describe("a decision in Redis", function()
  it("of one policy is told to the policy's own merged decision, also where it is remembered", function()
    local self = decisionWorld()
    self.decideAll({ self.check("c") })
    assert.is_false(self.decideAll({ self.check("c") })[1])
    self.world.redis.calls = {}
    local own, all = self.merged(), self.merged()
    local check = self.check("c", own)
    local result = self.decideAll({ check }, all)
    assert.same({ true, false, nil, 0 }, { result.done, result[1], result[2], self.world.redis.count() })
    assert.same({ false, false }, { own.allowed, check.allowed })
    assert.is_nil(all.policy)
  end)

  it("is not made where Redis does not answer, and says why", function()
    local self = decisionWorld()
    self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    for _, names in ipairs({ { "a" }, { "b" }, { "a", "b" } }) do
      local checks = {}
      for i, name in ipairs(names) do
        checks[i] = self.check(name)
      end
      local result = self.decideAll(checks)
      assert.same({ true, nil }, { result.done, result[1] })
      assert.is_string(result[2])
      self.world.redis.error = nil
      self.world.run(1000)
      self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    end
    assert.same({}, self.world.errors)
  end)

  it("says what is left after the charge", function()
    local self = decisionWorld()
    local one, two = self.merged(), self.merged()
    self.decideAll({ self.check("b") }, one)
    assert.same({ "minute", 9 }, { one.limitName, one.decision.remaining })
    self.decideAll({ self.check("a"), self.check("b") }, two)
    assert.same({ "minute", 8 }, { two.limitName, two.decision.remaining })
  end)

  it("of a simple policy is remembered, and reuses what it needed before", function()
    local self = decisionWorld()
    local first = self.decideOne("c")
    assert.same({ true, true, nil }, { first.done, first[1], first[2] })
    assert.equal(1, #self.idle())
    assert.is_nil(self.idle()[1].numbers)
    local wallUs = self.worker.wallUs()
    assert.equal(1, #self.chargedAt)
    assert.is_true(self.chargedAt[1] > wallUs - 86400000000 and self.chargedAt[1] <= wallUs, tostring(self.chargedAt[1]))
    local used = self.idle()[1]
    assert.is_false(self.decideOne("c")[1])
    assert.equal(1, #self.idle())
    assert.equal(used, self.idle()[1])
    self.world.redis.calls = {}
    local merged = self.merged()
    local again = self.decideOne("c", merged)
    assert.same({ true, false, nil, 0 }, { again.done, again[1], again[2], self.world.redis.count() })
    assert.is_false(merged.allowed)
    assert.is_true(self.decideOne("a")[1])
  end)

  it("of a simple policy that Redis does not answer says why, and keeps what may still be answered", function()
    local self = decisionWorld()
    self.world.redis.error = "LOADING Redis is loading the dataset in memory"
    local result = self.decideOne("a")
    assert.same({ true, nil }, { result.done, result[1] })
    assert.is_truthy(result[2]:find("LOADING", 1, true))
    assert.is_false(result[3].lost)
    assert.equal(0, #self.idle())
  end)

  it("keeps 1024 for reuse at most", function()
    local self = decisionWorld()
    local decided = 0
    for _ = 1, 1030 do
      self.worker.call(function()
        self.decide.decideOneInRedis(self.settings, self.policy("a"), "1:k", self.merged())
        decided = decided + 1
      end)
    end
    self.world.run(100)
    assert.same({ 1030, 1024 }, { decided, #self.idle() })
  end)

  it("is forgotten by all workers when an operator has changed a counter", function()
    local self = decisionWorld()
    local store = self.worker.module("gateway.src.stores.redis.exact-store").exactStore
    self.decideAll({ self.check("c") })
    self.decideAll({ self.check("c") })
    self.world.redis.calls = {}
    self.call(function()
      store.forget(self.policy("c"), "1:k")
    end)
    self.world.run(50)
    self.decideAll({ self.check("c") })
    assert.equal(1, self.world.redis.count("charge_fixed_window"))
  end)
end)
