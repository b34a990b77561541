-- gateway/src/stores/redis/refunds.ts by itself: what is refunded, when, and what becomes of a refund that fails.

local storeWorld = require("test.gateway.stores.redis.store-world")
local support = require("test.gateway.virtual.support")

local day = support.fixed("5000/1d")
local loading = "LOADING Redis is loading the dataset in memory"

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

  it("voids what is remembered of its keys, whether it is made at once, later, after an outage, or without an answer", function()
    local self = storeWorld()
    local charges = self.charge(5)
    local cache = self.load("refusal-cache")
    local function name(i)
      return self.load("slot-groups").firstKey({ policy = self.policy(), keyValues = "1:k" .. i })
    end
    local function known()
      local numbers = {}
      for i = 1, 5 do
        if cache.recallRefusal(self.policy(), name(i), self.merged()) then
          numbers[#numbers + 1] = i
        end
      end
      return numbers
    end
    self.call(function()
      for i = 1, 5 do
        cache.rememberRefusal(self.policy(), name(i), self.merged(), 60000000, { limits = { "default" }, isLasting = true }, self.worker.wallUs() / 1000000)
      end
    end)
    assert.same({ 1, 2, 3, 4, 5 }, known())
    self.world.run(1)
    self.refund({ charges[1] })
    self.call(function()
      self.store.refundLater(charges[2])
    end)
    self.world.run(10)
    assert.same({ 3, 4, 5 }, known())
    self.world.redis.error = loading
    self.refund({ charges[3] })
    self.world.run(10)
    self.world.redis.error = nil
    assert.same({ 3, 4, 5 }, known())
    self.world.run(700)
    assert.same({ 4, 5 }, known())
    self.world.redis.fate = function()
      return { loses = "reply" }
    end
    self.refund({ charges[4] })
    self.world.run(10)
    assert.same({ 5 }, known())
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
    assert.same({}, self.postponed())
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
    assert.equal(1, #self.postponed())
    assert.same({}, self.world.logged("Redis has been away for too long"))
    self.world.run(700)
    assert.equal(1, #self.world.logged("Redis has been away for too long"))
    self.world.redis.error = nil
    self.world.run(2000)
    assert.equal(1, self.used())
    assert.equal(0, #self.postponed())
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

  it("is one of ten thousand that wait; one more is not made, and the log tells", function()
    for more = 0, 1 do
      local self = storeWorld()
      local one = self.charge(1)[1]
      self.world.redis.error = loading
      local charges = {}
      for i = 1, 10000 + more do
        charges[i] = one
      end
      self.refund(charges)
      self.world.run(20)
      assert.equal(10000, #self.postponed())
      assert.equal(more, #self.world.logged("a refund failed"))
    end
  end)

  it("is not postponed in a worker that ends", function()
    local self = storeWorld()
    local charges = self.charge(2)
    self.world.redis.error = loading
    self.worker.exiting = true
    self.refund({ charges[1] })
    self.world.run(20)
    assert.equal(1, #self.world.logged("a refund failed"))
    assert.same({}, self.postponed())
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
    self.withoutTimers(function()
      self.refund({ charges[1] })
      self.world.run(20)
    end)
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
    self.withoutTimers(function()
      later(self, { charges[1] })
    end)
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
    assert.same({}, self.postponed())
  end)

  it("go on after one that fails in itself", function()
    local self = storeWorld()
    local charges = self.charge(2)
    local broken = setmetatable({ chargedAt = {} }, { __index = charges[1] })
    later(self, { broken })
    self.world.run(10)
    assert.equal(1, #self.world.logged("a refund failed"))
    assert.same({}, self.world.errors)
    later(self, { charges[2] })
    self.world.run(10)
    assert.equal(0, self.used("k2"))
  end)

  it("are made one by one where calling them together fails in itself", function()
    local self = storeWorld()
    local charges = self.charge(3)
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
    assert.is_true(failed >= 2)
    for i = 1, 3 do
      assert.equal(0, self.used("k" .. i))
    end
    assert.same({}, self.world.errors)
  end)
end)
