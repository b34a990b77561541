-- gateway/src/stores/redis/refusal-cache.ts and shared-refusals.ts by themselves: what is kept of a refusal, to the microsecond.

local support = require("test.gateway.virtual.support")

-- A moment that floating point holds exactly.
local atSeconds = 1700000010.25

-- A refusal says this if its limits have no units until the time that they named.
local function lasting(limits)
  return { limits = limits, isLasting = true }
end

local function cacheWorld(options)
  local limits = { support.fixed("3/1h"), support.fixed("9/1d") }
  limits[1].name, limits[2].name = "hour", "day"
  local two = support.policy("a", limits[1])
  two.limits = limits
  local degrading = support.policy("c", limits[1], { onLimit = { action = "degrade", header = "x-over: 1" } })
  local world = support.world(support.with({ policies = { two, support.policy("b", limits[1]), degrading, support.policy("d", limits[2]) } }, options or {}))
  local worker = world.workers[1]
  local self = { world = world, worker = worker }
  self.cache = worker.module("gateway.src.stores.redis.refusal-cache")
  self.shared = worker.module("gateway.src.stores.redis.shared-refusals")
  self.counters = world.dict("sluice_counters")
  local new = worker.module("limiter.src.compiled.merged-decision").newMergedDecision

  function self.policy(name, of)
    return (of or worker).module("gateway.src.snapshot.current").policiesOf("shop")[name or "a"]
  end

  function self.merged(violated, resetAfterUs)
    local merged = new()
    if violated then
      merged.allowed, merged.policy, merged.limitName, merged.violated = false, self.policy(), violated[1], violated
      merged.decision.allowed, merged.decision.resetAfterUs, merged.decision.limit = false, resetAfterUs, 3
    end
    return merged
  end

  -- The wall clock says this.
  function self.setClock(seconds)
    world.wallUs = math.floor(seconds * 1000000) - world.clock.nowUs
  end

  function self.call(work)
    local result
    worker.call(function()
      result = work()
    end)
    return result
  end

  function self.remember(name, retrySeconds, fields)
    fields = fields or {}
    self.call(function()
      self.cache.rememberRefusal(fields.policy or self.policy(), name, self.merged(fields.violated or { "hour" }, (fields.resetSeconds or 9) * 1000000),
        fields.retryUs or retrySeconds * 1000000, fields.usedUp or lasting(fields.violated or { "hour" }), fields.submittedAt or atSeconds)
    end)
  end

  function self.recall(name, policy)
    local merged = self.merged()
    local known = self.call(function()
      return self.cache.recallRefusal(policy or self.policy(), name, merged)
    end)
    return known, merged
  end

  function self.last(name, policy)
    return self.call(function()
      return self.cache.lastRefusal(policy or self.policy(), name)
    end)
  end

  self.setClock(atSeconds)
  return self
end

describe("a remembered refusal", function()
  it("says what is left of its waits", function()
    local self = cacheWorld()
    self.remember("n", 5, { resetSeconds = 9 })
    self.setClock(atSeconds + 2)
    local known, merged = self.recall("n")
    assert.is_true(known)
    local decision = merged.decision
    assert.same({ false, false, "hour", 3000000, 7000000 },
      { merged.allowed, decision.allowed, merged.limitName, decision.retryAfterUs, decision.resetAfterUs })
    assert.same({ "hour" }, merged.violated)
    self.remember("past", 5, { resetSeconds = 1 })
    known, merged = self.recall("past")
    assert.same({ true, 0 }, { known, merged.decision.resetAfterUs })
  end)

  it("names all limits that refused", function()
    local self = cacheWorld()
    self.remember("n", 5, { violated = { "hour", "day" } })
    local _, merged = self.recall("n")
    assert.same({ "hour", "day" }, merged.violated)
    assert.equal("hour", merged.limitName)
  end)

  it("is believed from the moment of the question to the moment that it named, and not at that", function()
    local self = cacheWorld()
    self.remember("n", 0.5)
    assert.is_true((self.recall("n")))
    self.setClock(atSeconds + 0.499999)
    assert.is_true((self.recall("n")))
    self.setClock(atSeconds + 0.5)
    assert.is_false((self.recall("n")))
    self.setClock(atSeconds - 0.000001)
    assert.is_false((self.recall("n")))
    self.setClock(atSeconds)
    assert.is_false((self.recall("another")))
    assert.is_false((self.recall("n", self.policy("b"))))
  end)

  it("is believed for ten seconds at most, and for a second in a cluster, whose nodes tell no epoch", function()
    local self = cacheWorld()
    self.remember("n", 300)
    self.setClock(atSeconds + 9.999999)
    assert.is_true((self.recall("n")))
    self.setClock(atSeconds + 10)
    assert.is_false((self.recall("n")))
    assert.equal((atSeconds + 300) * 1000000, self.last("n").nothingUntilUs)
    self.setClock(atSeconds)
    self.call(function()
      self.cache.keepRefusalsTrue({ deployment = { kind = "cluster" } }, function() end)
    end)
    self.remember("n", 300)
    self.setClock(atSeconds + 0.999999)
    assert.is_true((self.recall("n")))
    self.setClock(atSeconds + 1)
    assert.is_false((self.recall("n")))
  end)

  it("is believed for a tenth of a second where units often come back, or smaller requests may still take some", function()
    local self = cacheWorld()
    local function isBrief(name, fields)
      self.setClock(atSeconds)
      self.remember(name, 300, fields)
      self.setClock(atSeconds + 0.099999)
      assert.is_true((self.recall(name, fields.policy)))
      self.setClock(atSeconds + 0.1)
      assert.is_false((self.recall(name, fields.policy)))
    end
    isBrief("n", { policy = self.policy("c") })
    isBrief("m", { usedUp = { limits = {}, isLasting = false } })
    isBrief("o", { usedUp = { limits = { "hour" }, isLasting = false } })
  end)

  it("that is over has one request ask Redis, and refuses the others for as long as Redis took before, but not beyond the time that it named", function()
    local self = cacheWorld()
    local brief = { policy = self.policy("c") }
    local function at(seconds, work)
      self.setClock(atSeconds + seconds)
      return work and self.call(work)
    end
    local function recallAfter(seconds)
      at(seconds)
      return (self.recall("n", brief.policy))
    end
    local function askAfter(seconds)
      at(seconds, function()
        self.cache.noteAsked(brief.policy, "n")
      end)
    end
    local function rememberAfter(seconds, retrySeconds)
      at(seconds)
      self.remember("n", retrySeconds, brief)
    end
    rememberAfter(0.25, 300)
    -- A look alone changes nothing.
    assert.same({ false, false }, { recallAfter(0.25), recallAfter(0.25) })
    askAfter(0.25)
    assert.same({ true, true, false }, { recallAfter(0.250001), recallAfter(0.499999), recallAfter(0.5) })
    askAfter(0.5)
    assert.is_true(recallAfter(0.500001))
    at(0.500001, function()
      self.cache.noteUnanswered(brief.policy, "n")
    end)
    assert.is_false(recallAfter(0.500001))
    rememberAfter(0.25, 0.375)
    askAfter(0.25)
    assert.same({ true, false }, { recallAfter(0.374999), recallAfter(0.375) })
    -- A reply does not take a second, but the clock may step meanwhile.
    rememberAfter(3600, 7200)
    askAfter(3600)
    assert.same({ true, false }, { recallAfter(3600.999999), recallAfter(3601) })
    -- Redis has charged the key meanwhile: nothing is known any more.
    rememberAfter(0.25, 300)
    askAfter(0.25)
    at(0.25, function()
      self.cache.forgetRefusalOf(brief.policy, "n", atSeconds + 0.125)
      self.cache.noteAsked(brief.policy, "n")
    end)
    assert.is_false(recallAfter(0.250001))
  end)

  it("is believed again after the clock has stepped back, although units came back at a later time of that clock", function()
    local self = cacheWorld()
    self.setClock(atSeconds + 3600)
    self.call(function()
      self.cache.noteUnitsBack("n")
    end)
    self.setClock(atSeconds)
    self.remember("n", 300)
    assert.is_true((self.recall("n")))
    assert.is_table(self.last("n"))
    assert.same({ false, true }, { self.cache.haveUnitsComeBack("n", atSeconds), self.call(function()
      self.setClock(atSeconds + 3600)
      return self.cache.haveUnitsComeBack("n", atSeconds)
    end) })
  end)

  it("is forgotten when units of the key come back, by the other workers when they next look, and other keys' are not", function()
    local self = cacheWorld({ workers = 2 })
    local other = self.world.workers[2]
    local otherCache = other.module("gateway.src.stores.redis.refusal-cache")
    self.world.run(100)
    self.setClock(atSeconds)
    local function rememberThere(name)
      other.call(function()
        otherCache.rememberRefusal(self.policy("a", other), name, self.merged({ "hour" }, 9000000), 300000000, lasting({ "hour" }), atSeconds)
      end)
    end
    local function knownThere(name)
      return otherCache.recallRefusal(self.policy("a", other), name, self.merged())
    end
    for _, name in ipairs({ "n", "untouched" }) do
      self.remember(name, 300)
      rememberThere(name)
    end
    self.setClock(atSeconds + 0.000001)
    self.call(function()
      self.cache.noteUnitsBack("n")
    end)
    assert.same({ false, true }, { (self.recall("n")), (self.recall("untouched")) })
    assert.is_nil(self.last("n"))
    assert.is_table(self.last("untouched"))
    self.world.run(25)
    assert.same({ false, true }, { knownThere("n"), knownThere("untouched") })
    -- One that was asked for before, and comes late.
    self.remember("n", 300)
    rememberThere("n")
    assert.same({ false, false }, { (self.recall("n")), knownThere("n") })
    assert.is_nil(self.last("n"))
    -- One that was asked for since.
    self.setClock(atSeconds + 1)
    self.remember("n", 300, { submittedAt = atSeconds + 1 })
    assert.is_true((self.recall("n")))
  end)

  it("is forgotten with all others by a worker that has missed what came back", function()
    local self = cacheWorld({ workers = 2 })
    self.world.run(100)
    self.setClock(atSeconds)
    local other = self.world.workers[2]
    local otherCache = other.module("gateway.src.stores.redis.refusal-cache")
    local function afterReturns(count)
      self.setClock(atSeconds)
      other.call(function()
        otherCache.rememberRefusal(self.policy("a", other), "n", self.merged({ "hour" }, 9000000), 300000000, lasting({ "hour" }), atSeconds)
      end)
      self.call(function()
        for _ = 1, count do
          self.cache.noteUnitsBack("another")
        end
      end)
      self.world.run(25)
      return otherCache.recallRefusal(self.policy("a", other), "n", self.merged())
    end
    assert.is_true(afterReturns(1))
    assert.is_true(afterReturns(1024))
    assert.is_false(afterReturns(1025))
  end)

  it("is none where it would hold for ever: less may be left then than it says", function()
    local self = cacheWorld()
    self.remember("n", nil, { retryUs = self.worker.module("limiter.src.algorithms.decision").never })
    assert.is_false((self.recall("n")))
    assert.is_nil(self.last("n"))
  end)

  it("is counted when it decides", function()
    local self = cacheWorld()
    self.remember("n", 5)
    self.recall("n")
    self.recall("n")
    self.recall("another")
    self.world.run(3000)
    assert.equal(2, self.world.dict("sluice_metrics"):get("redis-refusals-remembered"))
  end)

  it("is not one from before the last change by an operator, unless the clock has stepped back since", function()
    local self = cacheWorld()
    local function remembersOf(secondsBefore)
      self.setClock(atSeconds)
      self.call(self.cache.forgetRefusals)
      self.setClock(atSeconds - secondsBefore)
      self.remember("n" .. secondsBefore, 100, { submittedAt = atSeconds - secondsBefore })
      return (self.recall("n" .. secondsBefore))
    end
    assert.is_true(remembersOf(0))
    assert.is_false(remembersOf(0.000001))
    assert.is_false(remembersOf(59.999999))
    assert.is_true(remembersOf(60))
    assert.is_true(remembersOf(70))
  end)

  it("is one of 4096 that are kept, and of as many before them", function()
    local self = cacheWorld()
    -- The same one again and again is one.
    for _ = 1, 5000 do
      self.remember("same", 5)
    end
    local function rememberUpTo(from, to)
      local merged = self.merged({ "hour" }, 9000000)
      self.call(function()
        for i = from, to do
          self.cache.rememberRefusal(self.policy(), "n" .. i, merged, 5000000, lasting({ "hour" }), atSeconds)
        end
      end)
    end
    rememberUpTo(1, 4095)
    assert.is_true((self.recall("same")))
    rememberUpTo(4096, 4096 + 4095)
    assert.same({ true, true, true }, { (self.recall("same")), (self.recall("n1")), (self.recall("n8191")) })
    rememberUpTo(8192, 8192)
    assert.same({ false, false, true, true }, { (self.recall("same")), (self.recall("n1")), (self.recall("n4096")), (self.recall("n8192")) })
  end)

  it("says since when it is known, of its policy", function()
    local self = cacheWorld()
    self.remember("n", 5)
    assert.equal(atSeconds, self.cache.refusalKnownSince(self.policy(), "n"))
    assert.equal(0, self.cache.refusalKnownSince(self.policy("b"), "n"))
    assert.equal(0, self.cache.refusalKnownSince(self.policy(), "another"))
    self.call(self.cache.forgetRefusals)
    assert.equal(0, self.cache.refusalKnownSince(self.policy(), "n"))
  end)

  it("is forgotten by every worker, with what else is wrong then, when one is told of a change", function()
    local self = cacheWorld({ workers = 2 })
    local forgotten = { 0, 0 }
    for number = 1, 2 do
      local worker = self.world.workers[number]
      worker.call(function()
        worker.module("gateway.src.stores.redis.refusal-cache").keepRefusalsTrue({ deployment = { kind = "cluster" } }, function()
          forgotten[number] = forgotten[number] + 1
        end)
      end)
    end
    self.world.run(100)
    self.setClock(atSeconds)
    self.remember("n", 100)
    assert.same({ 0, 0 }, forgotten)
    local other = self.world.workers[2]
    local tookMs
    other.call(function()
      local beganUs = self.world.clock.nowUs
      other.module("gateway.src.stores.redis.refusal-cache").forgetRefusalsEverywhere()
      tookMs = (self.world.clock.nowUs - beganUs) / 1000
    end)
    self.world.run(41)
    assert.is_true(tookMs <= 26, tostring(tookMs))
    self.setClock(atSeconds + 0.1)
    assert.is_false((self.recall("n")))
    assert.is_true(forgotten[1] + forgotten[2] >= 1)
    self.world.run(200)
    local after = forgotten[1] + forgotten[2]
    self.world.run(200)
    assert.equal(after, forgotten[1] + forgotten[2])
  end)
end)

describe("a refusal for the time without Redis", function()
  it("is what this worker or another heard last: whichever says that there is nothing for longer", function()
    local self = cacheWorld()
    self.remember("n", 300, { violated = { "hour", "day" } })
    assert.same({ atUs = atSeconds * 1000000, nothingUntilUs = (atSeconds + 300) * 1000000, limits = { "hour", "day" } }, self.last("n"))
    local function others(seconds)
      self.call(function()
        self.shared.shareRefusal(self.policy(), "n", 0, { atUs = 7, nothingUntilUs = (atSeconds + seconds) * 1000000, limits = { "day" } }, atSeconds + seconds)
      end)
    end
    others(301)
    assert.same({ 7, { "day" } }, { self.last("n").atUs, self.last("n").limits })
    others(299)
    assert.same({ atSeconds * 1000000, { "hour", "day" } }, { self.last("n").atUs, self.last("n").limits })
    others(300)
    assert.equal(atSeconds * 1000000, self.last("n").atUs)
    -- Of other limits, this worker knows nothing.
    assert.same({ 7, { "day" } }, { self.last("n", self.policy("d")).atUs, self.last("n", self.policy("d")).limits })
    assert.is_nil(self.last("n", self.policy("b")))
    assert.is_nil(self.last("another"))
    self.counters:delete("heard:n")
    assert.is_nil(self.last("n", self.policy("d")))
    assert.is_table(self.last("n"))
  end)

  it("is none where the limits had units, though too few for one request, and says no time where some return earlier", function()
    local self = cacheWorld()
    self.remember("n", 300)
    self.setClock(atSeconds + 1)
    self.remember("n", 300, { usedUp = { limits = {}, isLasting = false }, submittedAt = atSeconds + 1 })
    assert.is_nil(self.last("n"))
    self.setClock(atSeconds)
    assert.is_nil(self.counters:get("heard:n"))
    self.remember("n", 300, { violated = { "hour", "day" }, usedUp = { limits = { "day" }, isLasting = false } })
    assert.same({ atUs = atSeconds * 1000000, nothingUntilUs = 0, limits = { "day" } }, self.last("n"))
    assert.same({ atUs = atSeconds * 1000000, nothingUntilUs = 0, limits = { "day" } }, self.shared.readSharedRefusal(self.policy(), "n", 0))
  end)

  it("is void when this worker hears that Redis charged the key after all, before the time that was named", function()
    local self = cacheWorld()
    local function charged(name, seconds)
      self.call(function()
        self.cache.forgetRefusalOf(self.policy(), name, seconds)
      end)
    end
    self.remember("n", 300)
    charged("n", atSeconds - 0.000001)
    assert.is_true((self.recall("n")))
    charged("n", atSeconds + 299)
    assert.is_false((self.recall("n")))
    assert.is_nil(self.last("n"))
    assert.is_nil(self.counters:get("heard:n"))
  end)

  it("is kept when Redis charges the key at that time, or refuses a large cost later: a bucket at its limit gives a unit at a time", function()
    local self = cacheWorld()
    self.remember("n", 5)
    local known = self.last("n")
    assert.equal(atSeconds * 1000000, known.atUs)
    self.setClock(atSeconds + 5)
    self.call(function()
      self.cache.forgetRefusalOf(self.policy(), "n", atSeconds + 4.999)
    end)
    assert.same(known, self.last("n"))
    self.setClock(atSeconds + 8)
    self.remember("n", 300, { usedUp = { limits = {}, isLasting = false }, submittedAt = atSeconds + 8 })
    assert.same(known, self.last("n"))
  end)

  it("reaches all workers, and is void after an operator's change", function()
    local self = cacheWorld({ workers = 2 })
    self.remember("n", 300)
    local other = self.world.workers[2]
    local function heard(version)
      return other.module("gateway.src.stores.redis.shared-refusals").readSharedRefusal(self.policy("a", other), "n", version)
    end
    assert.same({ atUs = atSeconds * 1000000, nothingUntilUs = (atSeconds + 300) * 1000000, limits = { "hour" } }, heard(0))
    assert.is_nil(heard(1))
    local known = other.module("gateway.src.stores.redis.refusal-cache").lastRefusal(self.policy("a", other), "n")
    assert.equal(atSeconds * 1000000, known.atUs)
    self.worker.call(function()
      self.cache.forgetRefusalsEverywhere()
    end)
    self.world.run(100)
    assert.is_nil(other.module("gateway.src.stores.redis.refusal-cache").lastRefusal(self.policy("a", other), "n"))
    -- One that is heard after the change has the new version.
    self.setClock(atSeconds + 10)
    self.remember("n", 300, { submittedAt = atSeconds + 10 })
    assert.is_table(heard(1))
    assert.is_nil(heard(0))
  end)

  it("is kept until its time, for a day at most", function()
    local self = cacheWorld()
    local function keptFor(seconds)
      self.setClock(atSeconds)
      self.remember("n", seconds)
      local entry = self.world.dicts.sluice_counters.entries["heard:n"]
      self.world.dicts.sluice_counters.entries["heard:n"] = nil
      return entry and math.floor((entry.expiresMs - atSeconds * 1000) / 1000 + 0.5)
    end
    assert.equal(300, keptFor(300))
    assert.equal(2, keptFor(1.5))
    assert.equal(86400, keptFor(86400 * 3))
    assert.is_nil(keptFor(0))
    self.setClock(atSeconds + 1)
    self.remember("n", 1)
    assert.is_nil(self.world.dicts.sluice_counters.entries["heard:n"])
  end)

  it("takes no more than its policy's part of memory that is scarce, and is renewed there", function()
    local self = cacheWorld({ sizes = { sluice_counters = 1048576 } })
    for i = 1, 50 do
      self.counters:set("filled" .. i, ("x"):rep(14000))
    end
    self.world.run(23)
    self.setClock(atSeconds)
    local stored = 0
    local function storedNow(i)
      return self.counters:get("heard:n" .. i) ~= nil
    end
    for i = 1, 3000 do
      self.remember("n" .. i, 300)
      stored = stored + (storedNow(i) and 1 or 0)
    end
    assert.is_true(stored > 10 and stored < 2900, tostring(stored))
    assert.is_false(storedNow(3000))
    assert.is_true(storedNow(1))
    -- Another policy has a part of its own.
    self.remember("other", 300, { policy = self.policy("b") })
    assert.is_true(self.counters:get("heard:other") ~= nil)
    -- What is there is replaced.
    self.remember("n1", 400)
    assert.equal((atSeconds + 400) * 1000000, self.shared.readSharedRefusal(self.policy(), "n1", 0).nothingUntilUs)
  end)

  it("is of limits that are no larger than those that were used up, and that is kept when a smaller one is", function()
    local self = cacheWorld()
    -- The policy with another limit of a day, as a plan or an edit has it.
    local function ofDay(quota, algorithm)
      local plan = support.policy("d", support.with(support.fixed(quota .. "/1d"), { name = "day", algorithm = algorithm }))
      self.world.publish({ plan })
      self.world.run(20)
      self.setClock(atSeconds)
      return self.policy("d")
    end
    local function share(policy, seconds)
      self.call(function()
        self.shared.shareRefusal(policy, "n", 3, { atUs = 5, nothingUntilUs = seconds > 0 and (atSeconds + seconds) * 1000000 or 0, limits = { "day" } }, atSeconds + 10)
      end)
    end
    local function heardBy(...)
      local names = {}
      for i, policy in ipairs({ ... }) do
        names[i] = self.shared.readSharedRefusal(policy, "n", 3) and "heard" or "unheard"
      end
      return table.concat(names, " ")
    end
    local few, many, log = ofDay(5), ofDay(50), ofDay(5, "sliding-log")
    share(few, 10)
    assert.equal("heard unheard unheard", heardBy(few, many, log))
    share(many, 10)
    assert.equal("heard heard unheard", heardBy(few, many, log))
    share(few, 9)
    share(few, 11)
    assert.equal("heard heard unheard", heardBy(few, many, log))
    -- Not beyond its time, and not of another counter.
    self.setClock(atSeconds + 10.5)
    share(few, 20)
    self.setClock(atSeconds)
    share(log, 10)
    assert.equal("unheard unheard heard", heardBy(few, many, log))
    share(many, 0)
    share(few, 0)
    assert.equal("heard heard unheard", heardBy(few, many, log))
    share(many, -1)
    share(few, 5)
    assert.equal("heard unheard unheard", heardBy(few, many, log))
  end)

  it("of an earlier version of Sluice is of no limit", function()
    local self = cacheWorld()
    self.counters:set("heard:n", "0 5 1700000300000000 hour day")
    assert.is_nil(self.last("n"))
  end)
end)
