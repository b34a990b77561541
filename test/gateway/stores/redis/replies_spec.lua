-- gateway/src/stores/redis/replies.ts and pending-check.ts by themselves: what a reply of the charge scripts says.

local storeWorld = require("test.gateway.stores.redis.store-world")
local support = require("test.gateway.virtual.support")

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
    local function take(reply, counters, numbers)
      local pending = { at = 0 }
      pendingCheck.takeReply(pending, reply, { keyCount = counters or 1, numbers = numbers })
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
    assert.same({ 5 }, take(5, 2, 1).numbers)
    assert.same({ 1, 0, 7 }, take({ 1, 0, 7 }, 2, 3).numbers)
    for _, odd in ipairs({ "", "5", { 1, 2 }, { 1, 2, 3, 4 }, { 1, 2, "3" }, 5 }) do
      assert.is_nil(take(odd, 1, 3).numbers)
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

  it("says which limits have nothing for any request of the policy, and whether that lasts", function()
    local minute, day, bucket = support.fixed("10/1m"), support.fixed("50/1d"), support.bucket("20/1h", 20)
    minute.name, day.name, bucket.name = "minute", "day", "bucket"
    local function with(name, limits, cost)
      return support.with(support.policy(name, limits[1], { cost = cost }), { limits = limits })
    end
    local stated = { from = "header:x-cost", default = 1, max = 9 }
    local self = storeWorld({ policies = { with("a", { bucket }), with("b", { minute, bucket }, stated), with("c", { minute, day }, stated), with("d", { bucket }, 3) } })
    local cache = self.load("refusal-cache")
    local function lastOf(name, key, cost, ...)
      local check = self.check(name, key)
      check.policy = cost and self.worker.module("gateway.src.request.costs").pricedPolicy(check.policy, cost) or check.policy
      local numbers = numbersOf(...)
      local wallUs = self.worker.wallUs()
      self.call(function()
        local pending = { numbers = numbers, at = 0, submittedAtSeconds = wallUs / 1000000 }
        if #check.policy.limits == 1 then
          self.replies.readOne(pending, check, self.merged())
        else
          self.replies.readReply(pending, { check }, self.merged(), false)
        end
      end)
      local last = cache.lastRefusal(check.policy, self.load("slot-groups").firstKey(check))
      if not last then
        return nil
      end
      return table.concat(last.limits, " "), last.nothingUntilUs > 0 and math.floor((last.nothingUntilUs - wallUs) / 1000000 + 0.5) or "no time"
    end
    local minuteMs, hour = 60000000, 3600000000
    local function refusal(remaining, retryUs)
      return { 0, remaining, retryUs, hour, 0, 0 }
    end
    local allowed = { 1, 5, 0, hour, 0, 0 }
    local function is(limits, untilSeconds, ...)
      assert.same({ limits, untilSeconds }, { lastOf(...) })
    end
    is("bucket", 180, "a", "1:a", nil, refusal(0, 3 * minuteMs))
    -- A caller states a cost.
    is(nil, nil, "a", "1:b", 5, refusal(2, 3 * minuteMs))
    is("bucket", "no time", "a", "1:c", 5, refusal(0, 3 * minuteMs))
    is(nil, nil, "b", "1:a", 9, refusal(8, minuteMs), allowed)
    is("minute", 60, "b", "1:b", 9, refusal(0, minuteMs), allowed)
    is("minute", "no time", "b", "1:c", 9, refusal(0, minuteMs), refusal(3, 3 * minuteMs))
    is("bucket", "no time", "b", "1:d", 9, allowed, refusal(0, 3 * minuteMs))
    is("minute day", 180, "c", "1:a", 9, refusal(0, minuteMs), refusal(0, 3 * minuteMs))
    is("day", "no time", "c", "1:b", 9, refusal(1, minuteMs), refusal(0, 3 * minuteMs))
    -- Each request costs three.
    is("bucket", 180, "d", "1:a", nil, refusal(2, 3 * minuteMs))
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
    -- A refused check was not charged, so nothing of it was refunded.
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
