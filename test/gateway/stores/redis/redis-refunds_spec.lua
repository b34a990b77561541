-- gateway/src/stores/redis/: refunds.ts, reconcile.ts, replies.ts, pending-check.ts and decide-checks.ts by themselves: what is refunded, when,
-- and what a reply says.

local product = require("test.gateway.product")
local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")
local loading = "LOADING Redis is loading the dataset in memory"

-- A worker whose modules a spec calls. Policies are those of `limits` by their names.
local function storeWorld(options)
  options = options or {}
  local world = support.world(support.with({ policies = options.policies or { support.policy("a", day) } }, options.world or {}))
  local worker = world.workers[1]
  local function load(name)
    return worker.module("gateway.src.stores.redis." .. name)
  end
  local self = { world = world, worker = worker, load = load }
  self.refunds, self.store, self.replies = load("refunds"), load("exact-store").exactStore, load("replies")
  self.admitTogether = load("exact-store").admitTogether
  self.settings = worker.module("gateway.src.redis.redis-settings").theRedis()
  local merging = worker.module("limiter.src.compiled.merged-decision")

  function self.policy(name)
    return worker.module("gateway.src.snapshot.current").policiesOf("shop")[name or "a"]
  end

  function self.merged()
    return merging.newMergedDecision()
  end

  function self.check(name, keyValues, fields)
    local check = { policy = self.policy(name), keyValues = keyValues or "1:k", chargedAt = {}, separate = false, degraded = false }
    for field, value in pairs(fields or {}) do
      check[field] = value
    end
    return check
  end

  -- Runs in a turn, where it may wait.
  function self.call(work)
    local result = { beganUs = world.clock.nowUs }
    worker.call(function()
      result.value = work()
      result.done, result.tookMs = true, (world.clock.nowUs - result.beganUs) / 1000
    end)
    return result
  end

  -- Charges of so many keys, "1:k1" and so on, as Redis has made them.
  function self.charge(count, name)
    local outcome = { merged = self.merged(), charges = {} }
    for i = 1, count do
      self.call(function()
        self.admitTogether({ self.check(name, "1:k" .. i) }, outcome)
      end)
    end
    world.run(30)
    assert.equal(count, #outcome.charges)
    world.redis.calls = {}
    return outcome.charges
  end

  function self.used(key, name, limit)
    return support.used(world, name or "a", limit or day, key or "k1")
  end

  function self.refund(charges)
    return self.call(function()
      self.store.refund(charges)
    end)
  end

  -- The number of round trips from now on.
  function self.watchTrips()
    local trips = { count = 0 }
    world.redis.fate = function(commands)
      if commands[1][1] == "evalsha" then
        trips.count = trips.count + 1
      end
    end
    return trips
  end

  return self
end

describe("a refund", function()
  it("of several charges is one call, and each counter has its units back", function()
    local self = storeWorld({ policies = { support.policy("a", day, { cost = 3 }) } })
    local charges = self.charge(4)
    assert.equal(3, self.used("k2"))
    self.refund(charges)
    self.world.run(10)
    assert.equal(1, self.world.redis.count("refund"))
    assert.equal(4, #self.world.redis.calls[1].keys)
    for i = 1, 4 do
      assert.equal(0, self.used("k" .. i))
    end
    assert.same({}, self.world.logged("a refund failed"))
  end)

  it("has a thousand counters a call at most", function()
    local two = support.policy("a", day)
    two.limits = { support.fixed("5000/1d"), support.fixed("9000/1h") }
    two.limits[1].name, two.limits[2].name = "x", "y"
    local self = storeWorld({ policies = { two } })
    local one = self.charge(1)[1]
    local charges = {}
    for i = 1, 501 do
      charges[i] = one
    end
    self.refund(charges)
    self.world.run(50)
    assert.equal(2, self.world.redis.count("refund"))
    assert.same({ 1000, 2 }, { #self.world.redis.calls[1].keys, #self.world.redis.calls[2].keys })
    charges[501] = nil
    self.world.redis.calls = {}
    self.refund(charges)
    self.world.run(50)
    assert.equal(1, self.world.redis.count("refund"))
  end)

  it("that may have been made is not made again, and the log tells", function()
    local self = storeWorld()
    local charges = self.charge(1)
    self.world.redis.fate = function()
      return { loses = "reply" }
    end
    self.refund(charges)
    self.world.run(10)
    self.world.redis.fate = nil
    self.world.run(2000)
    assert.equal(1, #self.world.logged("a refund failed"))
    assert.equal(1, self.world.redis.count("refund"))
    assert.equal(0, self.used())
  end)

  it("that Redis answers by anything but a number is told in the log", function()
    local self = storeWorld()
    local charges = self.charge(1)
    -- The script is another, which replies with a text.
    local refund = self.refunds.refundCall(charges).script
    local sha1 = refund.sha1
    refund.sha1 = self.load("submit").counterOf(self.policy(), "x").script.sha1
    self.refund(charges)
    self.store.refundLater(charges[1])
    self.world.run(10)
    refund.sha1 = sha1
    assert.equal(1, #self.world.logged("a refund failed"))
    self.world.run(2000)
    assert.equal(0, self.world.redis.count("refund"))
  end)
end)

describe("a refund that certainly was not made", function()
  it("is postponed, and made once when Redis can", function()
    local self = storeWorld()
    local charges = self.charge(3)
    self.world.redis.error = loading
    self.refund(charges)
    self.world.run(700)
    assert.same({ 1, 1, 1 }, { self.used("k1"), self.used("k2"), self.used("k3") })
    self.world.redis.error = nil
    self.world.redis.calls = {}
    self.world.run(700)
    assert.same({ 0, 0, 0 }, { self.used("k1"), self.used("k2"), self.used("k3") })
    assert.equal(3, self.world.redis.count("refund"))
    assert.same({}, self.world.logged("a refund failed"))
    self.world.run(2000)
    assert.equal(3, self.world.redis.count("refund"))
    -- Nothing of it runs any more.
    assert.is_false(self.worker.inner("gateway.src.stores.redis.refunds", "trying"))
    assert.same({}, self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
  end)

  it("is postponed too where no server could be reached, and where it was for a request that has ended", function()
    local self = storeWorld()
    local charges = self.charge(4)
    self.world.redis.state = "refusing"
    self.world.redis.closeAll()
    self.world.run(10)
    self.refund({ charges[1], charges[2] })
    self.call(function()
      self.store.refundLater(charges[3])
      self.store.refundLater(charges[4])
    end)
    self.world.run(1000)
    self.world.redis.go()
    self.world.run(1000)
    for i = 1, 4 do
      assert.equal(0, self.used("k" .. i))
    end
    assert.equal(4, self.world.redis.count("refund"))
    assert.same({}, self.world.logged("a refund failed"))
  end)

  it("is tried again every 100 ms by one task, and not while the breaker is open", function()
    local self = storeWorld()
    local charges = self.charge(2)
    self.world.redis.error = loading
    local timers = self.worker.runningTimers
    local before = self.world.clock.nowUs
    self.refund({ charges[1] })
    self.world.run(1)
    self.refund({ charges[2] })
    self.world.run(1)
    assert.equal(timers + 1, self.worker.runningTimers)
    local tries = {}
    self.world.redis.fate = function(commands)
      if commands[1][1] == "evalsha" then
        tries[#tries + 1] = math.floor((self.world.clock.nowUs - before) / 1000)
      end
    end
    self.world.run(1000)
    -- The third failure opens the breaker.
    assert.same({ 100 }, tries)
    self.world.redis.error = nil
    self.world.run(500)
    assert.same({ 0, 0 }, { self.used("k1"), self.used("k2") })
    assert.equal(2, #tries)
  end)

  it("is given up after a minute, and the log tells", function()
    local self = storeWorld()
    local charges = self.charge(1)
    self.world.redis.error = loading
    self.refund(charges)
    self.world.run(59800)
    assert.equal(1, #self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
    assert.same({}, self.world.logged("Redis has been away for too long"))
    self.world.run(700)
    assert.equal(1, #self.world.logged("Redis has been away for too long"))
    self.world.redis.error = nil
    self.world.run(2000)
    assert.equal(1, self.used())
    assert.equal(0, #self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
  end)

  it("is made in the last second of that minute", function()
    local self = storeWorld()
    local charges = self.charge(1)
    self.world.redis.error = loading
    self.refund(charges)
    self.world.run(59000)
    self.world.redis.error = nil
    self.world.run(900)
    assert.equal(0, self.used())
  end)

  it("is one of a thousand that wait; one more is not made, and the log tells", function()
    local self = storeWorld()
    local one = self.charge(1)[1]
    self.world.redis.error = loading
    local charges = {}
    for i = 1, 1000 do
      charges[i] = one
    end
    self.refund(charges)
    self.world.run(20)
    assert.equal(1000, #self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
    assert.same({}, self.world.logged("a refund failed"))
    self.refund({ one })
    self.world.run(20)
    assert.equal(1000, #self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
    assert.equal(1, #self.world.logged("a refund failed"))
  end)

  it("is not postponed in a worker that ends", function()
    local self = storeWorld()
    local charges = self.charge(2)
    self.world.redis.error = loading
    self.worker.exiting = true
    self.refund({ charges[1] })
    self.world.run(20)
    assert.equal(1, #self.world.logged("a refund failed"))
    assert.same({}, self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
  end)

  it("is tried once more when its worker begins to end, and no more", function()
    local self = storeWorld()
    local charges = self.charge(1)
    self.world.redis.error = loading
    self.refund(charges)
    self.world.run(50)
    self.worker.exiting = true
    self.world.run(500)
    assert.is_false(self.worker.inner("gateway.src.stores.redis.refunds", "trying"))
  end)

  it("waits for the next that is postponed where no timer could be had, and the log tells", function()
    local self = storeWorld()
    local charges = self.charge(2)
    self.world.redis.error = loading
    local at = self.worker.ngx.timer.at
    self.worker.ngx.timer.at = function()
      return nil, "too many pending timers"
    end
    self.refund({ charges[1] })
    self.world.run(20)
    self.worker.ngx.timer.at = at
    assert.equal(1, #self.world.logged("stay charged, and slots stay taken until their time to live is over: too many pending timers"))
    self.world.run(300)
    assert.is_false(self.worker.inner("gateway.src.stores.redis.refunds", "trying"))
    self.refund({ charges[2] })
    self.world.run(50)
    self.world.redis.error = nil
    self.world.run(1000)
    assert.same({ 0, 0 }, { self.used("k1"), self.used("k2") })
  end)
end)

describe("refunds of requests that have ended", function()
  local function later(self, charges)
    self.call(function()
      for _, charge in ipairs(charges) do
        self.store.refundLater(charge)
      end
    end)
  end

  it("of one moment go together, by one timer, each by a call of its own", function()
    local self = storeWorld()
    local charges = self.charge(5)
    local trips = self.watchTrips()
    local timers = self.worker.runningTimers
    later(self, charges)
    assert.equal(0, self.world.redis.count("refund"))
    self.world.run(0.05)
    assert.equal(timers + 1, self.worker.runningTimers)
    self.world.run(10)
    assert.same({ 1, 5 }, { trips.count, self.world.redis.count("refund") })
    for i = 1, 5 do
      assert.equal(0, self.used("k" .. i))
    end
    -- And the next have a timer of their own.
    later(self, { charges[1] })
    self.world.run(10)
    assert.equal(6, self.world.redis.count("refund"))
  end)

  it("are told in the log where no timer could be had, and the next are made", function()
    local self = storeWorld()
    local charges = self.charge(2)
    local at = self.worker.ngx.timer.at
    self.worker.ngx.timer.at = function()
      return nil, "too many pending timers"
    end
    later(self, { charges[1] })
    self.worker.ngx.timer.at = at
    self.world.run(10)
    assert.equal(1, #self.world.logged("a refund failed"))
    later(self, { charges[2] })
    self.world.run(10)
    assert.same({ 1, 0 }, { self.used("k1"), self.used("k2") })
    assert.equal(1, #self.world.logged("a refund failed"))
  end)

  it("that may have been made are not made again", function()
    local self = storeWorld()
    local charges = self.charge(3)
    self.world.redis.fate = function(commands)
      return commands[1][1] == "evalsha" and { loses = "reply" } or nil
    end
    later(self, charges)
    self.world.run(20)
    self.world.redis.fate = nil
    self.world.run(2000)
    assert.equal(3, self.world.redis.count("refund"))
    assert.is_true(#self.world.logged("a refund failed") >= 1)
    assert.same({}, self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
  end)

  it("go on after one that fails in itself", function()
    local self = storeWorld()
    local charges = self.charge(2)
    local broken = setmetatable({ chargedAt = {} }, { __index = charges[1] })
    later(self, { broken })
    self.world.run(10)
    assert.is_true(#self.world.logged("a refund failed") == 1)
    assert.same({}, self.world.errors)
    later(self, { charges[2] })
    self.world.run(10)
    assert.equal(0, self.used("k2"))
  end)

  it("are made one by one where calling them together fails in itself", function()
    local self = storeWorld()
    local charges = self.charge(3)
    local dict = self.worker.ngx.shared.sluice_metrics
    local failed = 0
    local redis = self.worker.module("gateway.src.runtime.lua-modules").redisLibrary
    local new = redis.new
    redis.new = function(...)
      failed = failed + 1
      if failed == 1 then
        error("a defect")
      end
      return new(...)
    end
    later(self, charges)
    self.world.run(20)
    assert.is_true(failed >= 2 and dict ~= nil)
    for i = 1, 3 do
      assert.equal(0, self.used("k" .. i))
    end
    assert.same({}, self.world.errors)
  end)
end)

describe("checks of requests that did not wait", function()
  -- A check whose reply says this: 1 or 0 for each limit, and when it was charged.
  local function pending(self, check, numbers, fields)
    local all = {}
    for i, each in ipairs(numbers) do
      all[(i - 1) * 6] = each[1]
      all[(i - 1) * 6 + 5] = each[2]
    end
    return support.with({ checks = { check }, numbers = #numbers > 0 and all or nil, at = 0, abandoned = true, reconciled = false }, fields or {})
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
    local owed = { policy = check.policy, keyValues = check.keyValues, wentOn = true, noted = false }
    reconcile(self, { pending(self, check, { { 1, charge.chargedAt[1] } }, { owed = { owed } }) })
    self.world.run(1000)
    assert.same({ 1, false, 0 }, { self.used("k1"), owed.noted, self.world.redis.count() })
    -- What another key, another policy, or a request that was refused after all owes, keeps nothing.
    for _, other in ipairs({
      { policy = check.policy, keyValues = "1:other", wentOn = true, noted = false },
      { policy = setmetatable({}, { __index = check.policy }), keyValues = check.keyValues, wentOn = true, noted = false },
      { policy = check.policy, keyValues = check.keyValues, wentOn = false, noted = false },
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
      local owed = { policy = check.policy, keyValues = check.keyValues, wentOn = true, noted = false }
      reconcile(self, { pending(self, check, numbers, { owed = { owed }, lost = lost }) })
      self.world.run(60)
      return owed.noted
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
    local owed = { policy = check.policy, keyValues = check.keyValues, wentOn = true, noted = false }
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

  it("are refunded when Redis can be asked again, within two seconds", function()
    local self = storeWorld()
    local charge = self.charge(1)[1]
    local breaker = self.worker.module("gateway.src.redis.breaker")
    local _, server = next(self.worker.inner("gateway.src.redis.connection", "servers"))
    local open = true
    local function closeLater(ms)
      open = true
      server.breaker.open = true
      self.world.at(ms, function()
        open, server.breaker.open = false, false
      end)
    end
    assert.is_table(breaker)
    closeLater(1500)
    local all = { pending(self, self.check("a", "1:k1"), { { 1, charge.chargedAt[1] } }) }
    reconcile(self, all)
    self.world.run(1480)
    assert.same({ true, 0, 1 }, { open, self.world.redis.count("refund"), self.used("k1") })
    self.world.run(100)
    assert.same({ 1, 0 }, { self.world.redis.count("refund"), self.used("k1") })
    -- After two seconds it is postponed.
    closeLater(4000)
    local result = reconcile(self, all)
    self.world.run(2040)
    assert.is_nil(result.done)
    self.world.run(20)
    assert.is_true(result.done)
    assert.equal(1, #self.worker.inner("gateway.src.stores.redis.refunds", "postponed"))
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

describe("a reply of the charge scripts", function()
  local function packed(...)
    local numbers = { ... }
    local ffi = require("ffi")
    local memory = ffi.new("double[?]", #numbers, numbers)
    return ffi.string(memory, #numbers * 8)
  end

  it("is packed numbers of its length, or a list, and nothing else", function()
    local self = storeWorld()
    local pendingCheck = self.load("pending-check")
    local function take(reply, counters)
      local pending = { at = 0 }
      pendingCheck.takeReply(pending, reply, counters or 1)
      return pending
    end
    local good = take(packed(1, 2, 3, 4, 5, 6))
    assert.same({ 0, 1, 6, nil }, { good.at, good.numbers[0], good.numbers[5], good.failure })
    assert.equal(12, take(packed(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 2).numbers[11])
    local listed = take({ 1, 1, 2, 3, 4, 5, 6 })
    assert.same({ 2, 1, 6, nil }, { listed.at, listed.numbers[2], listed.numbers[7], listed.failure })
    for _, odd in ipairs({ packed(1, 2, 3, 4, 5), packed(1, 2, 3, 4, 5, 6, 7), "", 5, { 1, 1, 2, 3, 4, 5 }, { 1, 1, 2, 3, 4, 5, "6" }, { 1, 1, 2, 3, 4, 5, 6, 7 } }) do
      local pending = take(odd)
      assert.is_nil(pending.numbers)
      assert.equal("Redis sent a reply that does not fit the script", pending.failure)
      assert.equal(0, pending.at)
    end
  end)

  it("counts only for a request that still waits", function()
    local self = storeWorld()
    local hasReply = self.load("pending-check").hasReply
    assert.is_true(hasReply({ numbers = {}, abandoned = false }))
    assert.is_false(hasReply({ numbers = {}, abandoned = true }))
    assert.is_false(hasReply({ abandoned = false }))
  end)

  local function twoLimits()
    local minute, hour = support.fixed("10/1m"), support.fixed("50/1h")
    minute.name, hour.name = "minute", "hour"
    local both = support.policy("a", minute)
    both.limits = { minute, hour }
    return storeWorld({ policies = { both, support.policy("b", support.fixed("7/1m")) } })
  end

  local function numbersOf(...)
    local numbers, at = {}, 0
    for _, counter in ipairs({ ... }) do
      for _, number in ipairs(counter) do
        numbers[at] = number
        at = at + 1
      end
    end
    return numbers
  end

  it("allows if every counter does", function()
    local self = twoLimits()
    local checks = { self.check("a"), self.check("b") }
    local function all(one, two, three)
      return self.replies.allAllow(numbersOf({ 9, 9, 9 }, { one, 0, 0, 0, 0, 0 }, { two, 0, 0, 0, 0, 0 }, { three, 0, 0, 0, 0, 0 }), 3, checks)
    end
    assert.is_true(all(1, 1, 1))
    assert.is_false(all(0, 1, 1))
    assert.is_false(all(1, 0, 1))
    assert.is_false(all(1, 1, 0))
  end)

  it("tells each policy its own result, and the charge times of its counters", function()
    local self = twoLimits()
    local first, second = self.check("a", "1:k", { chargedAt = { 5, 5 } }), self.check("b")
    local merged = self.merged()
    local own = self.merged()
    second.merged = own
    local numbers = numbersOf({ 1, 8, 0, 60, 0, 101 }, { 1, 4, 0, 90, 7, 102 }, { 0, 0, 3000000, 4000000, 0, 103 })
    local allowed
    self.call(function()
      allowed = self.replies.readReply({ numbers = numbers, at = 0, submittedAtSeconds = self.worker.wallUs() / 1000000 }, { first, second }, merged, false)
    end)
    assert.is_false(allowed)
    assert.same({ true, false }, { first.allowed, second.allowed })
    assert.same({ { 101, 102 }, { 103 } }, { first.chargedAt, second.chargedAt })
    assert.same({ "hour", 4, 50, 90, 7 }, { merged.limitName, merged.decision.remaining, merged.decision.limit, merged.decision.resetAfterUs, merged.delayUs })
    assert.same({ false, 3000000, 7 }, { own.allowed, own.decision.retryAfterUs, own.decision.limit })
    assert.is_true(merged.allowed)
    -- The refusal of the second is remembered, and nothing of the first.
    local cache = self.load("refusal-cache")
    local slots = self.load("slot-groups")
    assert.is_true(cache.recallRefusal(second.policy, slots.firstKey(second), self.merged()))
    assert.is_false(cache.recallRefusal(first.policy, slots.firstKey(first), self.merged()))
  end)

  it("remembers the longest wait of the limits that refused, and none where it is unknown or for ever", function()
    local self = twoLimits()
    local cache, slots = self.load("refusal-cache"), self.load("slot-groups")
    local function remembered(key, ...)
      local check = self.check("a", key)
      local numbers = numbersOf(...)
      local found = self.merged()
      local known
      self.call(function()
        self.replies.readReply({ numbers = numbers, at = 0, submittedAtSeconds = self.worker.wallUs() / 1000000 }, { check }, self.merged(), false)
        known = cache.recallRefusal(check.policy, slots.firstKey(check), found)
      end)
      return known and found.decision.retryAfterUs, found.violated
    end
    assert.is_true(math.abs(remembered("1:a", { 0, 0, 3000000, 0, 0, 0 }, { 0, 0, 9000000, 0, 0, 0 }) - 9000000) < 3)
    assert.is_true(math.abs(remembered("1:b", { 0, 0, 9000000, 0, 0, 0 }, { 0, 0, 3000000, 0, 0, 0 }) - 9000000) < 3)
    local retryUs, violated = remembered("1:c", { 1, 0, 99000000, 0, 0, 0 }, { 0, 0, 3000000, 0, 0, 0 })
    assert.is_true(math.abs(retryUs - 3000000) < 3)
    assert.same({ "hour" }, violated)
    local never = self.worker.module("limiter.src.algorithms.decision").never
    assert.is_false((remembered("1:d", { 0, 0, never, 0, 0, 0 }, { 0, 0, 3000000, 0, 0, 0 })))
    assert.is_false((remembered("1:e", { 0, 0, 3000000, 0, 0, 0 }, { 0, 0, never, 0, 0, 0 })))
    assert.is_false((remembered("1:f", { 1, 0, 0, 0, 0, 0 }, { 1, 0, 0, 0, 0, 0 })))
  end)

  it("counts the units as left again where the charges were refunded, within the limit", function()
    local self = twoLimits()
    local function remaining(refunded, first, second)
      local merged = self.merged()
      self.call(function()
        self.replies.readReply({
          numbers = numbersOf({ 1, first, 0, 60, 0, 1 }, { 1, second, 0, 90, 0, 2 }), at = 0, submittedAtSeconds = 1,
        }, { self.check("a") }, merged, refunded)
      end)
      return merged.decision.remaining
    end
    assert.equal(4, remaining(false, 4, 9))
    assert.equal(5, remaining(true, 4, 9))
    assert.equal(10, remaining(true, 10, 40))
    -- What was refused was not charged, and not refunded.
    local merged = self.merged()
    self.call(function()
      self.replies.readReply({
        numbers = numbersOf({ 0, 4, 5, 60, 0, 1 }, { 1, 9, 0, 90, 0, 2 }), at = 0, submittedAtSeconds = 1,
      }, { self.check("a") }, merged, true)
    end)
    assert.equal(4, merged.decision.remaining)
  end)

  it("about slots is not remembered: they come back at any time", function()
    local slots = { algorithm = "concurrency", quota = 2, ttl = "1m", name = "slots" }
    local rate = support.fixed("1/1d")
    rate.name = "rate"
    local both = support.policy("b", rate)
    both.limits = { slots, rate }
    local self = storeWorld({ policies = { support.policy("a", slots), both } })
    for _, name in ipairs({ "a", "b" }) do
      for _ = 1, 3 do
        support.ask(self.world, name, 1, { serviceUs = 1000000 })
        self.world.run(5)
      end
      self.world.redis.calls = {}
      support.ask(self.world, name, 1, { serviceUs = 1000000 })
      self.world.run(5)
      -- The third request of b was refused by the rate alone, which is remembered.
      assert.equal(name == "a" and 1 or 0, self.world.redis.count("charge_concurrency") + self.world.redis.count("charge"))
    end
    local check = self.check("b", "1:other")
    self.call(function()
      self.replies.readReply({
        numbers = numbersOf({ 0, 0, 5000000, 60, 0, 1 }, { 0, 0, 5000000, 90, 0, 2 }), at = 0, submittedAtSeconds = self.worker.wallUs() / 1000000,
      }, { check }, self.merged(), false)
    end)
    assert.is_false(self.load("refusal-cache").recallRefusal(check.policy, self.load("slot-groups").firstKey(check), self.merged()))
  end)
end)

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
    assert.is_table(product)
  end)
end)
