-- gateway/src/stores/lease/admit.ts and spend.ts: what a lease decides by its record and its units, one decision at a time.

local support = require("test.gateway.virtual.support")
local leaseWorld = require("test.gateway.stores.lease.lease-support").world

local function decisionOf(result)
  local decision = result.outcome.merged.decision
  return {
    allowed = decision.allowed,
    limit = decision.limit,
    remaining = decision.remaining,
    retryAfterUs = decision.retryAfterUs,
    resetAfterUs = decision.resetAfterUs,
  }
end

-- Memory is scarce: less than a quarter of the dict of counters is free.
local scarce = { world = { sizes = { sluice_counters = 1048576 } } }
local function fill(self)
  for i = 1, 60 do
    self.counters:set("filled" .. i, ("x"):rep(14000))
  end
  assert.is_true(self.worker.module("gateway.src.stores.node.counter-memory").isScarce())
end

describe("a request whose lease has the units", function()
  it("is allowed at once, without Redis, and takes its cost", function()
    local self = leaseWorld()
    self.put({ mostRestrictive = 0, remaining = 70, seq = 7, acknowledged = 6 }, 10)
    local result = self.ask({ policy = self.atCost(3) })
    assert.same({ true, true, 0 }, { result.done, result.allowed, result.tookUs })
    assert.is_true(result.check.allowed)
    assert.equal(7, self.units())
    assert.equal(3, self.undecided())
    assert.same({ 0, 0 }, { self.calls() })
    assert.same({ allowed = true, limit = 100, remaining = 77, retryAfterUs = 0, resetAfterUs = 5000000 }, decisionOf(result))
    assert.equal(1, #result.outcome.charges)
    local charge = result.outcome.charges[1]
    assert.same({ "leased", "k", result.check.chargedAt }, { charge.store, charge.keyValues, charge.chargedAt })
    assert.same({ term = self.lease.cell .. ":0" }, charge.spent)
    assert.equal(0, self.lease.asked)
    self.goOn(result)
    assert.same({ 3, 0 }, { self.lease.asked, self.undecided() })
  end)

  it("may take the last unit, and no more than there are", function()
    local self = leaseWorld()
    self.put({ lost = 1 }, 3)
    assert.is_true(self.ask({ policy = self.atCost(3) }).allowed)
    assert.equal(0, self.units())
    self.put({ lost = 1 }, 3)
    assert.is_nil(self.ask({ policy = self.atCost(4) }).allowed)
    -- What was there is there still.
    assert.equal(3, self.units())
    self.put({ lost = 1 }, 0)
    assert.is_nil(self.ask().allowed)
  end)

  it("is told no more than the limit has, and nothing of the past", function()
    local self = leaseWorld()
    self.put({ remaining = 98, resetAtUs = self.nowUs() - 1 }, 10)
    assert.same(
      { allowed = true, limit = 100, remaining = 100, retryAfterUs = 0, resetAfterUs = 0 },
      decisionOf(self.ask())
    )
  end)

  it("tells its own merged decision where it has one", function()
    local self = leaseWorld()
    self.put({}, 10)
    local own = self.newOutcome().merged
    local result = self.ask({ merged = own })
    assert.equal(self.policy, own.policy)
    assert.is_nil(result.outcome.merged.policy)
  end)

  it("finds none after the lease's deadline, and one in the µs before", function()
    local self = leaseWorld()
    self.put({ deadlineUs = self.nowUs() + 1, lost = 1 }, 10)
    assert.is_true(self.ask().allowed)
    self.put({ deadlineUs = self.nowUs(), lost = 1 }, 10)
    assert.is_nil(self.ask().allowed)
    assert.equal(10, self.units())
  end)

  it("finds units that another worker has received, though it knows of none", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, demand = 0 })
    self.write({ acknowledged = 2, seq = 2 }, 10)
    local result = self.ask()
    assert.same({ true, true, 0 }, { result.done, result.allowed, result.tookUs })
    assert.same({ 0, 0 }, { self.calls() })
    -- And units of another life.
    self.put({ deadlineUs = 0, demand = 0 }, 0)
    self.write({ name = "another-life" }, 10)
    local other = self.ask()
    assert.same({ true, true }, { other.done, other.allowed })
    assert.truthy(other.outcome.charges[1].spent.term:find("another-life", 1, true))
    assert.same({ 0, 0 }, { self.calls() })
  end)
end)

describe("a request whose lease was refused units", function()
  it("is refused at once until the time that Redis named, and told that", function()
    local self = leaseWorld()
    local nowUs = self.nowUs()
    self.put({ deadlineUs = 0, refusedUntilUs = nowUs + 1, retryAtUs = nowUs + 4000000, remaining = 0, plenty = 1 })
    local result = self.ask()
    assert.same({ true, false, 0 }, { result.done, result.allowed, result.tookUs })
    assert.is_false(result.check.allowed)
    assert.same(
      { allowed = false, limit = 100, remaining = 0, retryAfterUs = 4000000, resetAfterUs = 5000000 },
      decisionOf(result)
    )
    assert.same({ 0, 0 }, { self.calls() })
    assert.equal(0, #result.outcome.charges)
  end)

  it("asks Redis again from that moment on", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, demand = 0, refusedUntilUs = self.nowUs(), retryAtUs = self.nowUs() })
    local result = self.ask()
    self.world.run(5)
    assert.is_true(result.allowed)
    assert.same({ 0, 1 }, { self.calls() })
  end)

  it("is told fewer units than it costs, a wait of a µs at least, and a reset not before it", function()
    local self = leaseWorld()
    local nowUs = self.nowUs()
    self.put({ deadlineUs = 0, refusedUntilUs = nowUs + 1, retryAtUs = nowUs - 5, resetAtUs = nowUs - 9, remaining = 70 })
    local result = self.ask({ policy = self.atCost(4) })
    assert.same({ allowed = false, limit = 100, remaining = 3, retryAfterUs = 1, resetAfterUs = 1 }, decisionOf(result))
    local own = self.newOutcome().merged
    self.ask({ merged = own })
    assert.is_false(own.allowed)
  end)

  it("is refused until the next message may be sent where Redis had not granted all", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, plenty = 0, paceUs = self.nowUs() + 178000 })
    local result = self.ask()
    assert.same({ true, false, 0 }, { result.done, result.allowed, result.tookUs })
    assert.equal(10000, decisionOf(result).retryAfterUs)
    assert.same({ 0, 0 }, { self.calls() })
  end)

  it("waits for that moment where Redis had more, and finds what another worker has received meanwhile", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0, plenty = 1, paceUs = self.nowUs() + 178000 })
    local result = self.ask()
    self.world.run(5)
    self.write({ acknowledged = 2 }, 10)
    self.world.run(4)
    assert.is_nil(result.done)
    self.world.run(3)
    assert.same({ true, true }, { result.done, result.allowed })
    assert.is_true(result.tookUs >= 9000 and result.tookUs <= 11000, tostring(result.tookUs))
    assert.equal(9, self.units())
  end)

  it("is refused where another worker is about to send a message", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0 })
    local result = self.ask()
    assert.same({ true, false, 0 }, { result.done, result.allowed, result.tookUs })
    self.world.run(10)
    assert.same({ 0, 0 }, { self.calls() })
  end)

  it("waits so ten times at most, whatever Redis has", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0, plenty = 1, paceUs = self.nowUs() + 178000 })
    for i = 1, 40 do
      self.world.at(i * 10 - 1, function()
        self.write({ deadlineUs = 0, plenty = 1, paceUs = self.nowUs() + 178000 + 1000 })
      end)
    end
    local result = self.ask()
    self.world.run(390)
    assert.is_true(result.done)
    assert.is_false(result.allowed)
    assert.is_true(result.tookUs >= 95000 and result.tookUs <= 105000, tostring(result.tookUs))
  end)
end)

describe("a request that looks after its lease", function()
  local function asked(self)
    return self.counters:get(self.lease.id .. ":asked")
  end

  it("does so after the fifth unit that was admitted, or ten ms after the last look, and not where the lease is watched", function()
    local self = leaseWorld()
    local function admitOne()
      local result = self.ask()
      self.world.run(1)
      self.goOn(result)
    end
    for _ = 1, 5 do
      admitOne()
      assert.is_nil(asked(self))
    end
    self.ask()
    assert.equal(5, asked(self))
    self.lease.asked = 2
    self.world.run(9.999)
    self.ask()
    assert.equal(5, asked(self))
    self.world.run(0.001)
    self.ask()
    assert.equal(7, asked(self))
    self.lease.watched = true
    self.lease.asked = 10
    self.world.run(20)
    self.ask()
    assert.equal(7, asked(self))
  end)

  it("begins no lease while memory is scarce, and is decided by Redis", function()
    local self = leaseWorld(scarce)
    self.put({ deadlineUs = 0 })
    self.counters:delete(self.lease.id)
    fill(self)
    self.lease.lookedUs = 0
    local result = self.ask()
    self.world.run(20)
    assert.is_true(result.allowed)
    assert.same({ 0, 1 }, { self.calls() })
    assert.is_nil(self.record())
  end)

  it("goes on with a lease that is there while memory is scarce", function()
    local self = leaseWorld(scarce)
    self.put({ deadlineUs = 0 })
    fill(self)
    local result = self.ask()
    self.world.run(20)
    assert.is_true(result.allowed)
    assert.same({ 1, 0 }, { self.calls() })
    assert.equal("leased", result.outcome.charges[1].store)
  end)
end)

describe("a request that waits for a lease's reply", function()
  it("is allowed within two ms of it", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0, waiting = 1, seq = 2 })
    local result = self.ask()
    self.world.run(30)
    assert.is_nil(result.done)
    self.write({ seq = 2, acknowledged = 2 }, 10)
    self.world.run(2.1)
    assert.same({ true, true }, { result.done, result.allowed })
    assert.equal(9, self.units())
  end)

  it("is woken by it in the worker that receives it", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0 })
    self.world.redis.upUs, self.world.redis.downUs = 10250, 10250
    local results = {}
    for i = 1, 20 do
      results[i] = self.ask()
    end
    self.world.run(60)
    for _, result in ipairs(results) do
      assert.is_true(result.allowed)
      assert.is_true(result.tookUs >= 20500 and result.tookUs < 21000, tostring(result.tookUs))
    end
    assert.same({ 1, 0 }, { self.calls() })
    assert.equal(0, self.world.waitingAtSemaphores())
  end)

  it("waits five deadlines at most, and then Redis has not decided", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0, waiting = 1 })
    local result = self.ask()
    self.world.run(995)
    assert.is_nil(result.done)
    self.world.run(15)
    assert.same({ true, nil }, { result.done, result.allowed })
    assert.equal(0, #result.outcome.charges)
    assert.same({ 0, 0 }, { self.calls() })
  end)

  it("is refused then where Redis had said until when there is nothing", function()
    local self = leaseWorld()
    self.claimForOther()
    local untilUs = self.nowUs() + 3000000
    self.put({ deadlineUs = 0, waiting = 1, retryAtUs = untilUs })
    local result = self.ask()
    self.world.run(1010)
    assert.same({ true, false }, { result.done, result.allowed })
    assert.equal(3000000 - result.tookUs, decisionOf(result).retryAfterUs)
  end)

  it("does not wait while Redis is away, nor on when it goes away", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0, waiting = 1, lost = 1 })
    local result = self.ask()
    assert.same({ true, nil }, { result.done, result.allowed })
    local nowUs = self.nowUs()
    self.put({ deadlineUs = 0, waiting = 1, lost = 1, retryAtUs = nowUs })
    assert.is_nil(self.ask().allowed)
    self.put({ deadlineUs = 0, waiting = 1, lost = 1, retryAtUs = nowUs + 1 })
    assert.is_false(self.ask().allowed)
    self.put({ deadlineUs = 0, waiting = 1 })
    local waiting = self.ask()
    self.world.run(20)
    assert.is_nil(waiting.done)
    self.write({ deadlineUs = 0, waiting = 1, lost = 1 })
    self.world.run(2.1)
    assert.same({ true, nil }, { waiting.done, waiting.allowed })
  end)

  it("is decided by Redis where the key has cooled down meanwhile, if there is time for that", function()
    local self = leaseWorld()
    self.claimForOther()
    self.put({ deadlineUs = 0, waiting = 1 })
    local early = self.ask()
    self.world.run(500)
    self.write({ deadlineUs = 0, demand = 0 })
    self.world.run(10)
    assert.same({ true, true }, { early.done, early.allowed })
    assert.same({ 0, 1 }, { self.calls() })
    assert.equal("exact", early.outcome.charges[1].store)
    self.put({ deadlineUs = 0, waiting = 1 })
    local late = self.ask()
    self.world.run(999)
    self.write({ deadlineUs = 0, waiting = 1, demand = 0 })
    self.world.run(10)
    assert.same({ true, nil }, { late.done, late.allowed })
    assert.same({ 0, 1 }, { self.calls() })
    assert.is_nil(late.check.unanswered)
    assert.same({}, self.world.logged("Redis did not decide"))
    -- What it has waited already, it does not wait again.
    self.put({ deadlineUs = 0, waiting = 1 })
    local between = self.ask()
    self.world.run(900)
    self.world.redis.cutOff()
    self.write({ deadlineUs = 0, demand = 0 })
    self.world.run(200)
    assert.is_true(between.done)
    assert.is_true(between.tookUs >= 990000 and between.tookUs <= 1030000, tostring(between.tookUs))
  end)

  it("is decided by Redis where a hundred exchanges are under way", function()
    local self = leaseWorld()
    self.world.redis.upUs = 10000
    for i = 1, 100 do
      local lease = self.of("k" .. i)
      self.put({ deadlineUs = 0 }, nil, lease)
      self.worker.call(function()
        self.exchange.look(lease)
      end)
      assert.equal(i < 100, self.exchange.hasRoom())
    end
    self.put({ deadlineUs = 0 })
    local result = self.ask()
    self.world.run(400)
    assert.is_true(result.allowed)
    local _, exact = self.calls()
    assert.equal(1, exact)
    assert.equal("exact", result.outcome.charges[1].store)
    assert.equal(0, self.record().waiting)
  end)
end)

describe("a request that is decided exactly", function()
  it("is charged in Redis, and has a charge for it", function()
    local self = leaseWorld()
    local result = self.ask({ policy = self.atCost(3) })
    self.world.run(5)
    assert.is_true(result.allowed and result.check.allowed)
    local charge = result.outcome.charges[1]
    assert.same({ "exact", "k", nil }, { charge.store, charge.keyValues, charge.spent.term })
    assert.equal(self.policy.limits, charge.limits)
    assert.equal(1, #charge.chargedAt)
    assert.equal(97, decisionOf(result).remaining)
    assert.is_nil(self.lease.refusal)
  end)

  it("that Redis refuses is refused again without Redis, at its cost or a higher one, for two seconds", function()
    local self = leaseWorld({ limit = support.fixed("5/1h") })
    self.claimForOther()
    for _ = 1, 2 do
      self.ask({ policy = self.atCost(2) })
      self.world.run(5)
    end
    assert.same({ 0, 2 }, { self.calls() })
    local first = self.ask({ policy = self.atCost(2) })
    self.world.run(5)
    local refusedUs = self.world.clock.nowUs
    assert.same({ true, false, false }, { first.done, first.allowed, first.check.allowed })
    assert.same({ 0, 3 }, { self.calls() })
    assert.equal(0, #first.outcome.charges)
    local told = decisionOf(first)
    for _, cost in ipairs({ 2, 3 }) do
      local again = self.ask({ policy = self.atCost(cost) })
      assert.same({ true, false, 0 }, { again.done, again.allowed, again.tookUs })
      local said = decisionOf(again)
      assert.same({ told.limit, 1 }, { said.limit, said.remaining })
      assert.is_true(math.abs(said.retryAfterUs - (told.retryAfterUs - 5000)) < 5000, tostring(said.retryAfterUs))
      assert.is_true(math.abs(said.resetAfterUs - (told.resetAfterUs - 5000)) < 5000, tostring(said.resetAfterUs))
    end
    assert.same({ 0, 3 }, { self.calls() })
    -- Something cheaper may have what is left.
    local cheap = self.ask()
    self.world.run(5)
    assert.same({ true, true }, { cheap.done, cheap.allowed })
    assert.same({ 0, 4 }, { self.calls() })
    self.world.run(1980 - (self.world.clock.nowUs - refusedUs) / 1000)
    local last = self.ask({ policy = self.atCost(2) })
    assert.is_false(last.allowed)
    assert.equal(0, decisionOf(last).remaining)
    assert.same({ 0, 4 }, { self.calls() })
    self.world.run(20)
    self.ask({ policy = self.atCost(2) })
    self.world.run(5)
    assert.same({ 0, 5 }, { self.calls() })
  end)

  it("tells again what the refusal said, though the record was read anew since", function()
    local self = leaseWorld({ limit = support.fixed("1/1h") })
    self.claimForOther()
    self.ask()
    self.world.run(5)
    local first = self.ask()
    self.world.run(5)
    self.put({ deadlineUs = 0, demand = 0, remaining = 44, resetAtUs = self.nowUs() + 7 })
    local again = self.ask()
    assert.same({ true, false }, { again.done, again.allowed })
    assert.equal(0, decisionOf(again).remaining)
    assert.is_true(math.abs(decisionOf(again).resetAfterUs - decisionOf(first).resetAfterUs + 5000) < 5000)
    assert.equal(0, self.lease.record.remaining)
  end)

  it("remembers when a bucket is as if never used, and not only when it has a unit", function()
    local self = leaseWorld({ limit = support.bucket("60/1m", 3) })
    self.claimForOther()
    self.put({ deadlineUs = 0, demand = 0, remaining = 70 })
    for _ = 1, 4 do
      self.ask()
      self.world.run(1)
    end
    assert.equal(0, self.lease.record.remaining)
    local again = decisionOf(self.ask())
    assert.is_true(again.retryAfterUs > 900000 and again.retryAfterUs < 1000000, tostring(again.retryAfterUs))
    assert.is_true(again.resetAfterUs > 2900000 and again.resetAfterUs < 3000000, tostring(again.resetAfterUs))
  end)

  it("and is too dear says nothing of the time without Redis, also when cheaper ones use up what was left", function()
    local self = leaseWorld({ limit = support.fixed("5/1h") })
    self.claimForOther()
    local function ask(cost)
      local policy = self.atCost(cost)
      policy.policy.isPriced = true
      local result = self.ask({ policy = policy })
      self.world.run(5)
      return result.allowed
    end
    assert.same({ true, false, true }, { ask(3), ask(4), ask(2) })
    assert.same({ 0, 0 }, { self.lease.refusal.remaining, self.lease.refusal.nothingUntilUs })
    -- A window that has nothing for one unit has nothing before it ends.
    assert.is_false(ask(1))
    assert.equal(self.lease.refusal.untilUs, self.lease.refusal.nothingUntilUs)
  end)

  it("is asked for again once units that Redis had charged have come back", function()
    local self = leaseWorld({ limit = support.fixed("5/1h") })
    self.claimForOther()
    local function ask(cost)
      local result = self.ask({ policy = self.atCost(cost) })
      self.world.run(5)
      return result
    end
    local first = ask(5)
    assert.same({ true, false }, { first.allowed, ask(5).allowed })
    self.worker.call(function()
      self.worker.module("gateway.src.charging.refunds").refundAll(first.outcome.charges)
    end)
    self.world.run(5)
    assert.is_true(ask(5).allowed)
  end)

  it("that costs more than the limit can ever have, is not remembered", function()
    local self = leaseWorld()
    self.claimForOther()
    local result = self.ask({ policy = self.atCost(101) })
    self.world.run(5)
    assert.is_false(result.allowed)
    assert.is_nil(self.lease.refusal)
  end)

  it("remembers which of several limits refused", function()
    local limits = { support.fixed("100/1h"), support.fixed("2/1m") }
    limits[1].name, limits[2].name = "hour", "minute"
    local self = leaseWorld({ more = { limits = limits } })
    self.claimForOther()
    for _ = 1, 3 do
      self.ask()
      self.world.run(5)
    end
    assert.equal(1, self.lease.refusal.mostRestrictive)
    local again = self.ask()
    assert.same({ false, "minute", 2 }, { again.allowed, again.outcome.merged.limitName, decisionOf(again).limit })
    assert.same({ "minute" }, again.outcome.merged.violated)
  end)

  it("is not decided where Redis does not answer, and the log tells", function()
    local self = leaseWorld()
    self.world.redis.kill()
    self.world.run(10)
    local result = self.ask()
    self.world.run(10)
    assert.same({ true, nil }, { result.done, result.allowed })
    assert.same({ false, false }, { result.check.unanswered.abandoned, result.check.unanswered.lost })
    assert.equal(1, #self.world.logged("Redis did not decide"))
    assert.equal(0, #result.outcome.charges)
    assert.is_nil(self.lease.refusal)
  end)

  it("tells that it may have been charged where only the reply is missing", function()
    local self = leaseWorld()
    self.ask()
    self.world.run(10)
    self.world.redis.fate = function()
      return { loses = "reply" }
    end
    local result = self.ask()
    self.world.run(300)
    assert.same({ true, nil, true }, { result.done, result.allowed, result.check.unanswered.lost })
    -- What it was told of an earlier decision is not told of the next.
    self.world.redis.fate = nil
    self.world.run(1000)
    self.ask(result.check)
    local next = self.ask({ unanswered = result.check.unanswered })
    self.world.run(10)
    assert.same({ true, nil }, { next.allowed, next.check.unanswered })
  end)
end)

describe("the fast path of a leased policy", function()
  local function spendLease(self, quiet, cost)
    local merged = self.newOutcome().merged
    merged.quiet = quiet or false
    local allowed
    self.worker.call(function()
      allowed = self.spend.spendLease(self.atCost(cost or 1), "k", merged)
    end)
    return allowed, merged
  end

  it("allows where the lease has the units, and counts what was asked for", function()
    local self = leaseWorld()
    self.put({}, 10)
    local allowed, merged = spendLease(self, false, 2)
    assert.is_true(allowed)
    assert.same({ 78, true }, { merged.decision.remaining, merged.decision.allowed })
    assert.equal(2, self.lease.asked)
    assert.equal(8, self.units())
    local quietly, quiet = spendLease(self, true)
    assert.is_true(quietly)
    assert.is_nil(quiet.policy)
  end)

  it("refuses until the time that Redis named, and leaves everything else to those who may wait", function()
    local self = leaseWorld()
    local nowUs = self.nowUs()
    self.put({ deadlineUs = 0, refusedUntilUs = nowUs + 1, retryAtUs = nowUs + 700 })
    local allowed, merged = spendLease(self, true)
    assert.is_false(allowed)
    assert.equal(700, merged.decision.retryAfterUs)
    assert.equal(1, self.lease.asked)
    self.put({ deadlineUs = 0, refusedUntilUs = nowUs })
    assert.is_nil((spendLease(self)))
    assert.equal(1, self.lease.asked)
  end)
end)

describe("units that were spent in vain", function()
  local function spent(self)
    self.put({ seq = 3, acknowledged = 3, demand = 5 }, 10)
    local result = self.ask({ policy = self.atCost(4) })
    assert.equal(6, self.units())
    return result.outcome.charges[1]
  end

  local function refund(self, charge)
    self.worker.call(function()
      self.store.refund({ charge })
    end)
  end

  local function look(self)
    self.worker.call(function()
      self.exchange.look(self.lease)
    end)
  end

  it("go back into the lease when a worker next looks after it, whether refunded at once or later", function()
    local self = leaseWorld()
    refund(self, spent(self))
    assert.same({ 6, 4 }, { self.units(), self.undecided() })
    look(self)
    assert.same({ 10, 0 }, { self.units(), self.undecided() })
    local charge = spent(self)
    self.worker.call(function()
      self.store.refundLater(charge)
      self.store.refundLater(charge)
    end)
    look(self)
    look(self)
    assert.equal(10, self.units())
    assert.equal(0, self.lease.asked)
  end)

  it("count as kept during an exchange, and go back after it", function()
    local self = leaseWorld({ limit = support.fixed("1000/1h") })
    self.put({ deadlineUs = 0 }, 0)
    look(self)
    self.world.run(1)
    assert.equal(50, self.units())
    local results = {}
    for i = 1, 45 do
      results[i] = self.ask()
    end
    self.world.run(20)
    look(self)
    refund(self, results[1].outcome.charges[1])
    self.world.run(1)
    assert.equal(50, self.record().kept)
    local units = self.units()
    assert.equal(units + 45, self.record().out)
    refund(self, results[2].outcome.charges[1])
    for i = 3, 45 do
      self.goOn(results[i])
    end
    look(self)
    assert.same({ units + 2, 0 }, { self.units(), self.undecided() })
  end)

  it("stay spent where the lease has ended, where Redis honoured fewer, and in another life of it", function()
    local self = leaseWorld()
    local charge = spent(self)
    self.write({ deadlineUs = self.nowUs(), demand = 0 })
    refund(self, charge)
    self.claimForOther()
    look(self)
    self.release()
    assert.equal(6, self.units())
    charge = spent(self)
    self.write({ termUs = 1 })
    refund(self, charge)
    look(self)
    assert.equal(6, self.units())
    charge = spent(self)
    local cell = self.lease.cell
    self.write({ name = "another" }, 1)
    refund(self, charge)
    look(self)
    assert.equal(6, self.cells.unitsIn(cell))
    assert.equal(1, self.units())
  end)

  it("count as kept for five seconds at most, in case their worker was killed", function()
    local self = leaseWorld()
    local function keptAfter(seconds)
      self.put({ termUs = self.nowUs() - seconds * 1000000 }, 10)
      assert.is_true(self.ask({ policy = self.atCost(4) }).allowed)
      look(self)
      self.world.run(1)
      return self.record().kept
    end
    assert.equal(10, keptAfter(4))
    assert.equal(6, keptAfter(6))
  end)
end)

local function check(self, keyValues, merged)
  return { policy = self.policy, keyValues = keyValues, chargedAt = {}, separate = true, degraded = false, merged = merged }
end

local function twoLeases()
  local self = leaseWorld()
  self.put({}, 10, self.of("full"))
  self.put({ deadlineUs = 0, refusedUntilUs = self.nowUs() + 1000000 }, nil, self.of("empty"))
  self.put({ deadlineUs = 0, lost = 1 }, nil, self.of("lost"))
  return self
end

describe("several checks of leased policies", function()
  local function admitAll(self, checks)
    local outcome, allowed = self.newOutcome(), nil
    self.worker.call(function()
      allowed = self.worker.module("gateway.src.charging.admit").admitTogether(checks, outcome)
    end)
    self.world.run(10)
    return allowed, outcome
  end

  it("are allowed if all leases allow them", function()
    local self = twoLeases()
    local allowed, outcome = admitAll(self, { check(self, "full"), check(self, "full") })
    assert.is_true(allowed)
    assert.equal(2, #outcome.charges)
  end)

  it("end at the first that refuses, unless that has a merged decision of its own", function()
    local self = twoLeases()
    local after = check(self, "full")
    local allowed, outcome = admitAll(self, { check(self, "empty"), after })
    assert.is_false(allowed)
    assert.equal(0, #outcome.charges)
    assert.is_nil(after.allowed)
    local own = check(self, "empty", self.newOutcome().merged)
    allowed, outcome = admitAll(self, { own, after })
    assert.is_false(allowed)
    assert.equal(1, #outcome.charges)
    assert.same({ false, true }, { own.allowed, after.allowed })
  end)
end)

describe("the store of leased policies", function()
  local function admit(self, keyValues)
    local allowed = "not asked"
    self.worker.call(function()
      local check = { policy = self.policy, keyValues = keyValues, chargedAt = {}, separate = true, degraded = false }
      allowed = self.store.admit(check, self.newOutcome())
    end)
    self.world.run(10)
    return allowed
  end

  it("does not decide where the lease has lost Redis", function()
    local self = leaseWorld()
    self.put({ deadlineUs = 0, lost = 1 }, nil, self.of("lost"))
    assert.is_nil(admit(self, "lost"))
  end)

  it("does not decide without a Redis, and says what is missing", function()
    local self = leaseWorld({ world = { redis = false } })
    self.put({}, 10)
    assert.is_nil(admit(self, "k"))
    assert.equal(10, self.units())
    assert.is_true(#self.world.log > 0)
  end)

  it("has nothing to renew, and may charge at once", function()
    local self = leaseWorld()
    assert.is_true(self.store.chargesAtOnce())
    assert.is_nil(self.store.renew({}, function() end))
    assert.is_nil(self.store.chargeDeferred({}, function() end))
  end)

  it("spends what a lease has left while Redis does not decide", function()
    local self = twoLeases()
    local outcome = self.newOutcome()
    assert.is_true(self.spend.spendUnspent(check(self, "full"), outcome))
    assert.equal("leased", outcome.charges[1].store)
    assert.is_false(self.spend.spendUnspent(check(self, "empty"), outcome))
    assert.equal(1, #outcome.charges)
  end)
end)
