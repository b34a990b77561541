-- gateway/src/stores/store.ts: what every store does alike, whoever asks it.

local support = require("test.gateway.virtual.support")
local fixed, policy = support.fixed, support.policy

-- Where each store decides: its policies' fields, and what happens to the world before.
local kinds = {
  { name = "node", workers = 1, fields = { scope = "node" } },
  { name = "node", workers = 2, fields = { scope = "node" } },
  { name = "exact", workers = 2, fields = {} },
  { name = "leased", workers = 2, fields = { consistency = "leased" } },
  { name = "share", workers = 1, fields = {}, withoutRedis = true },
  { name = "share", workers = 2, fields = {}, withoutRedis = true },
}

for _, kind in ipairs(kinds) do
  describe(("store %s with %d worker(s)"):format(kind.name, kind.workers), function()
    local world, worker, stores, store, outcomes

    before_each(function()
      local two = fixed("3/1h")
      two.name = "few"
      local more = fixed("5/1d")
      more.name = "more"
      local groups = policy("group", two, kind.fields)
      groups.limits = { two, more }
      world = support.world({
        workers = kind.workers,
        policies = { policy("a", fixed("100/1h"), kind.fields), policy("b", fixed("1/1h"), kind.fields), groups },
      })
      worker = world.workers[1]
      stores = worker.module("gateway.src.charging.stores").stores
      store = stores[kind.name]
      outcomes = worker.module("gateway.src.stores.store")
      if kind.withoutRedis then
        world.redis.stop()
      end
    end)

    -- Runs in the worker until nothing is left to do.
    local function inWorker(work)
      local result
      worker.call(function()
        result = { work() }
      end)
      world.run(100)
      assert.same({}, world.errors)
      return unpack(result)
    end

    local function checkOf(name, more)
      local known = worker.module("gateway.src.snapshot.current").policiesOf("shop")
      local check = { policy = known[name], keyValues = "k", chargedAt = {}, separate = false, degraded = false }
      for field, value in pairs(more or {}) do
        check[field] = value
      end
      return check
    end

    -- Returns whether the checks are allowed, and the outcome.
    local function admit(checks)
      return inWorker(function()
        local outcome = outcomes.newOutcome()
        local all = true
        for _, check in ipairs(checks) do
          local allowed = store.admit(check, outcome)
          all = all and allowed
          if not allowed and not check.merged then
            break
          end
        end
        return all, outcome
      end)
    end

    -- A charge names its store: what a lease cannot cover is charged exactly.
    local function refund(charges, way)
      inWorker(function()
        for _, charge in ipairs(charges) do
          local own = stores[charge.store]
          if way == "refund" then
            own.refund({ charge })
          else
            own.refundLater(charge)
          end
        end
      end)
    end

    local function admitted(name, times, more)
      local count = 0
      for _ = 1, times do
        if admit({ checkOf(name, more) }) then
          count = count + 1
        end
      end
      return count
    end

    it("admits the quota of a key, and of each key by itself", function()
      assert.equal(100, admitted("a", 120))
      assert.equal(100, admitted("a", 120, { keyValues = "other" }))
      assert.equal(1, admitted("b", 2))
    end)

    it("says what is left, which limit refuses, and what is charged where", function()
      local allowed, outcome = admit({ checkOf("b") })
      assert.is_true(allowed)
      assert.is_true(outcome.merged.allowed)
      assert.equal(1, #outcome.charges)
      local charge = outcome.charges[1]
      assert.is_true(charge.store == kind.name or (kind.name == "leased" and charge.store == "exact"))
      assert.equal("b", charge.policy.name)
      assert.equal("k", charge.keyValues)
      local refused, after = admit({ checkOf("b") })
      assert.is_false(refused)
      assert.is_false(after.merged.allowed)
      assert.equal("b", after.merged.policy.name)
      assert.equal(0, after.merged.decision.remaining)
      assert.is_true(after.merged.decision.retryAfterUs > 0)
      assert.same({}, after.charges)
      assert.is_nil(after.denial)
    end)

    it("charges all limits of a policy or none", function()
      assert.equal(3, admitted("group", 6))
      local _, outcome = admit({ checkOf("group") })
      assert.equal("few", outcome.merged.limitName)
      -- Had the refused ones charged the other limit, it would refuse as well.
      assert.same({ "few" }, outcome.merged.violated)
    end)

    it("charges the policies of a request all or none, once their charges are refunded after a refusal", function()
      assert.is_true((admit({ checkOf("a"), checkOf("b") })))
      for _ = 1, 3 do
        local allowed, outcome = admit({ checkOf("a"), checkOf("b") })
        assert.is_false(allowed)
        refund(outcome.charges, "refund")
      end
      assert.equal(99, admitted("a", 120))
    end)

    it("decides each check that has a decision of its own, also after a refusal", function()
      assert.is_true((admit({ checkOf("b") })))
      local newMerged = worker.module("limiter.src.compiled.merged-decision").newMergedDecision
      local own = { newMerged(), newMerged() }
      local allowed = admit({ checkOf("b", { merged = own[1] }), checkOf("a", { merged = own[2] }) })
      assert.is_false(allowed)
      assert.is_false(own[1].allowed)
      assert.is_true(own[2].allowed)
      assert.equal("a", own[2].policy.name)
    end)

    for _, way in ipairs({ "refund", "refundLater" }) do
      it("returns the units of a charge by " .. way, function()
        for _ = 1, 3 do
          local allowed, outcome = admit({ checkOf("b") })
          assert.is_true(allowed)
          refund(outcome.charges, way)
        end
        assert.equal(1, admitted("b", 3))
      end)
    end
  end)
end
