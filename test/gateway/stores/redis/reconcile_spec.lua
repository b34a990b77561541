-- gateway/src/stores/redis/reconcile.ts by itself: what becomes of charges whose requests did not wait for the reply.

local storeWorld = require("test.gateway.stores.redis.store-world")
local support = require("test.gateway.virtual.support")

describe("checks of requests that did not wait", function()
  -- A check whose reply says this: 1 or 0 for each limit, and when it was charged.
  local function pending(self, check, numbers, fields)
    local all = {}
    for i, each in ipairs(numbers) do
      all[(i - 1) * 6] = each[1]
      all[(i - 1) * 6 + 5] = each[2]
    end
    return support.with({ checks = { check }, numbers = #numbers > 0 and all or nil, at = 0, abandoned = true, reconciled = false, submittedAtSeconds = 0 }, fields or {})
  end

  -- Returns the debt of a request that went on without the reply to this check.
  local function owedFor(check)
    return { policy = check.policy, keyValues = check.keyValues }
  end

  local function reconcile(self, pendingChecks)
    return self.call(function()
      self.load("reconcile").reconcile(self.settings, pendingChecks)
    end)
  end

  it("are refunded 50 ms later, if they were charged and did not go on", function()
    local self = storeWorld()
    local charge = self.charge(1)[1]
    local charged = pending(self, self.check("a", "1:k1"), { { 1, charge.chargedAt[1] } })
    local refused = pending(self, self.check("a", "1:k1"), { { 0, charge.chargedAt[1] } })
    reconcile(self, { charged, refused })
    self.world.run(49)
    assert.is_false(charged.reconciled)
    assert.equal(0, self.world.redis.count("refund"))
    self.world.run(3)
    assert.same({ true, true, 1 }, { charged.reconciled, refused.reconciled, self.world.redis.count("refund") })
    assert.equal(1, #self.world.redis.calls[1].keys)
    assert.equal(0, self.used("k1"))
  end)

  it("keep their charge if they went on", function()
    local self = storeWorld()
    local charge = self.charge(1)[1]
    local check = self.check("a", "1:k1")
    reconcile(self, { pending(self, check, { { 1, charge.chargedAt[1] } }, { owed = { owedFor(check) } }) })
    self.world.run(1000)
    assert.same({ 1, 0 }, { self.used("k1"), self.world.redis.count() })
    -- Debts of another key or of another policy keep no charge.
    for _, other in ipairs({
      { policy = check.policy, keyValues = "1:other" },
      { policy = setmetatable({}, { __index = check.policy }), keyValues = check.keyValues },
    }) do
      self.world.redis.calls = {}
      reconcile(self, { pending(self, check, { { 1, charge.chargedAt[1] } }, { owed = { other, other } }) })
      self.world.run(100)
      assert.equal(1, self.world.redis.count("refund"))
    end
  end)

  it("that went on and were not charged are owed, unless that is unknown", function()
    local self = storeWorld()
    local check = self.check("a", "1:k1")
    local function owedAfter(numbers, lost)
      self.world.redis.calls = {}
      reconcile(self, { pending(self, check, numbers, { owed = { owedFor(check) }, lost = lost }) })
      self.world.run(100)
      return self.world.redis.count("charge_up_to") == 1
    end
    assert.is_true(owedAfter({ { 0, 0 } }, nil))
    assert.is_true(owedAfter({}, false))
    assert.is_false(owedAfter({}, true))
    assert.is_false(owedAfter({}, nil))
  end)

  it("that hold slots give them back even if they went on, and keep the rest", function()
    local slots = { algorithm = "concurrency", quota = 9, ttl = "1m", name = "slots" }
    local rate = support.fixed("100/1d")
    rate.name = "rate"
    local both = support.policy("b", rate)
    both.limits = { rate, slots }
    local self = storeWorld({ policies = { both } })
    local charge = self.charge(1, "b")[1]
    local check = self.check("b", "1:k1")
    local owed = owedFor(check)
    reconcile(self, { pending(self, check, { { 1, charge.chargedAt[1] }, { 1, charge.chargedAt[2] } }, { owed = { owed } }) })
    self.world.run(60)
    local call = self.world.redis.calls[1]
    assert.equal("refund", call.name)
    assert.equal(1, #call.keys)
    assert.is_truthy(call.keys[1]:find("slots", 1, true))
    assert.equal("concurrency", call.argv[1])
    assert.equal(("%.0f"):format(charge.chargedAt[2]), call.argv[#call.argv])
  end)

  it("are refunded in reverse order, by one call", function()
    local self = storeWorld()
    local charges = self.charge(3)
    local all = {}
    for i = 1, 3 do
      all[i] = pending(self, self.check("a", "1:k" .. i), { { 1, charges[i].chargedAt[1] } })
    end
    reconcile(self, all)
    self.world.run(60)
    assert.equal(1, self.world.redis.count("refund"))
    local keys = self.world.redis.calls[1].keys
    assert.is_truthy(keys[1]:find(":k3", 1, true) and keys[3]:find(":k1", 1, true))
  end)

  it("are refunded when Redis can be asked again, and wait for that among others", function()
    local self = storeWorld()
    local charge = self.charge(1)[1]
    local _, server = next(self.worker.inner("gateway.src.redis.connection", "servers"))
    server.breaker.open = true
    self.world.at(4000, function()
      server.breaker.open = false
    end)
    local result = reconcile(self, { pending(self, self.check("a", "1:k1"), { { 1, charge.chargedAt[1] } }) })
    self.world.run(60)
    assert.is_true(result.done)
    assert.equal(1, #self.postponed())
    self.world.run(3900)
    assert.same({ 0, 1 }, { self.world.redis.count("refund"), self.used("k1") })
    self.world.run(300)
    assert.same({ 1, 0 }, { self.world.redis.count("refund"), self.used("k1") })
  end)

  it("whose refund may have been made are told in the log", function()
    local self = storeWorld()
    local charge = self.charge(1)[1]
    self.world.redis.fate = function()
      return { loses = "reply" }
    end
    reconcile(self, { pending(self, self.check("a", "1:k1"), { { 1, charge.chargedAt[1] } }) })
    self.world.run(100)
    assert.equal(1, #self.world.logged("units of requests that did not wait for Redis stay charged"))
  end)
end)
