-- gateway/src/redis/breaker.ts by itself, with probes that a spec answers: when it opens, who probes and when, and which answer closes it.

local support = require("test.gateway.virtual.support")

-- A worker without Redis, and a breaker whose probe takes `probeMs` and then does what `answer` says: true, false, "error".
local function breakerWorld(seed)
  local world = support.world({ redis = false, seed = seed })
  local worker = world.workers[1]
  local module = worker.module("gateway.src.redis.breaker")
  local self = { world = world, worker = worker, module = module, probes = {}, probeMs = 0, answer = false }
  self.breaker = module.closedBreaker("S")

  function self.probe()
    self.probes[#self.probes + 1] = world.clock.nowUs / 1000
    local answer = self.answer
    if self.probeMs > 0 then
      worker.ngx.sleep(self.probeMs / 1000)
    end
    if answer == "error" then
      error("a probe that fails in itself")
    end
    return answer
  end

  function self.note(name)
    worker.call(function()
      module[name](self.breaker, self.probe)
    end)
  end

  function self.isOpen()
    return self.breaker.open, support.openBreakers(world)
  end

  return self
end

-- Asserts that nothing is left of an outage that is over, but how often the breaker has opened.
local function assertClosed(self, openings)
  assert.same({ false, 0, 0 }, { self.breaker.open, self.breaker.failures, support.openBreakers(self.world) })
  assert.equal(openings or 1, self.breaker.openings)
  assert.same({}, self.world.errors)
end

local function withoutTimers(self, work)
  local at = self.worker.ngx.timer.at
  self.worker.ngx.timer.at = function()
    return nil, "too many pending timers"
  end
  work()
  self.worker.ngx.timer.at = at
end

describe("a breaker", function()
  it("opens at the third failure in a row, and an answer begins the count anew", function()
    local self = breakerWorld()
    self.note("noteFailure")
    self.note("noteFailure")
    self.note("noteAnswer")
    self.note("noteFailure")
    self.note("noteFailure")
    assert.is_false(self.breaker.open)
    self.note("noteFailure")
    assert.same({ true, 1 }, { self.isOpen() })
  end)

  it("opens at once when its server is silent, and once, however many notice", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.note("noteSilence")
    self.note("noteFailure")
    assert.same({ true, 1 }, { self.isOpen() })
    assert.equal(1, self.breaker.openings)
    self.world.run(70)
    assert.equal(1, #self.probes)
  end)

  it("stays closed without a timer for its probe, says so, and opens at the next silence", function()
    local self = breakerWorld()
    withoutTimers(self, function()
      self.note("noteSilence")
    end)
    assert.same({ false, 0 }, { self.isOpen() })
    assert.equal(1, #self.world.logged("because its probe could not start: too many pending timers"))
    assert.equal(0, #self.world.logged("nothing is sent to it"))
    -- The silence was a failure like any other.
    self.note("noteFailure")
    assert.is_false(self.breaker.open)
    self.note("noteFailure")
    assert.same({ true, 1 }, { self.isOpen() })
  end)

  it("probes first after 50 ms, then after twice as long, and after 250 ms at most, each a quarter sooner or later", function()
    local sums, shortest, longest = { 0, 0, 0, 0, 0 }, { 9999, 9999, 9999, 9999, 9999 }, { 0, 0, 0, 0, 0 }
    local seeds = 30
    for seed = 1, seeds do
      local self = breakerWorld(seed)
      local began = self.world.clock.nowUs / 1000
      self.note("noteSilence")
      self.world.run(2000)
      for i = 1, 5 do
        local pause = self.probes[i] - (self.probes[i - 1] or began)
        sums[i] = sums[i] + pause
        shortest[i], longest[i] = math.min(shortest[i], pause), math.max(longest[i], pause)
      end
    end
    for i, usual in ipairs({ 50, 100, 200, 250, 250 }) do
      -- nginx' timers go by whole ms.
      assert.is_true(shortest[i] >= usual * 0.75 - 1 and longest[i] <= usual * 1.25 + 1, shortest[i] .. " to " .. longest[i])
      assert.is_true(shortest[i] < usual * 0.85 and longest[i] > usual * 1.15, shortest[i] .. " to " .. longest[i])
      assert.is_true(math.abs(sums[i] / seeds - usual) < usual / 10, tostring(sums[i] / seeds))
    end
  end)

  it("begins with the short pause in each outage", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.world.run(2000)
    self.answer = true
    self.world.run(320)
    assertClosed(self)
    self.answer = false
    local before = #self.probes
    local began = self.world.clock.nowUs / 1000
    self.note("noteSilence")
    self.world.run(64)
    assert.equal(before + 1, #self.probes)
    assert.is_true(self.probes[before + 1] - began < 64)
  end)

  it("closes at the first answer, and has no probe after it", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.world.run(200)
    self.answer = true
    self.world.run(320)
    assertClosed(self)
    local probes = #self.probes
    self.world.run(2000)
    assert.equal(probes, #self.probes)
    assert.equal(1, #self.world.logged("S: it fails"))
    assert.equal(1, #self.world.logged("S: it answers again"))
  end)

  it("goes on with its probes when one fails in itself", function()
    local self = breakerWorld()
    self.answer = "error"
    self.note("noteSilence")
    self.world.run(1000)
    assert.is_true(#self.probes >= 4, tostring(#self.probes))
    assert.is_true(self.breaker.open)
    self.answer = true
    self.world.run(320)
    assertClosed(self)
  end)

  it("closes without a probe when its worker ends, and says nothing of it", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.world.run(200)
    local probes = #self.probes
    self.worker.exiting = true
    self.world.run(400)
    assert.same({ false, 0 }, { self.breaker.open, self.breaker.failures })
    -- After a reload, its successor may have published under the same number that it sends nothing.
    assert.equal(1, support.openBreakers(self.world))
    assert.same({}, self.world.errors)
    -- One pause was under way.
    assert.is_true(#self.probes <= probes + 1)
    assert.equal(0, #self.world.logged("S: it answers again"))
  end)
end)

describe("a late answer", function()
  it("has an open breaker probe at once", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.world.run(10)
    local timers = self.worker.runningTimers
    self.answer = true
    self.note("noteLateAnswer")
    self.world.run(0.1)
    assert.equal(1, #self.probes)
    assertClosed(self)
    -- The pause that was under way ends without a probe.
    self.world.run(2000)
    assert.equal(1, #self.probes)
    assertClosed(self)
    assert.equal(timers - 1, self.worker.runningTimers)
  end)

  it("is nothing to a closed breaker", function()
    local self = breakerWorld()
    self.note("noteLateAnswer")
    self.note("noteSilence")
    self.answer = true
    self.world.run(100)
    assertClosed(self)
    local probes = #self.probes
    self.note("noteLateAnswer")
    self.world.run(100)
    assert.equal(probes, #self.probes)
    assert.is_false(self.breaker.hurried)
  end)

  it("has one such probe under way, and another after it where it found the server still late", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.probeMs = 20
    for _ = 1, 5 do
      self.note("noteLateAnswer")
    end
    self.world.run(10)
    assert.equal(1, #self.probes)
    self.note("noteLateAnswer")
    self.world.run(15)
    assert.equal(1, #self.probes)
    assert.same({ true, 1 }, { self.isOpen() })
    self.note("noteLateAnswer")
    self.world.run(5)
    assert.equal(2, #self.probes)
  end)

  it("leaves the breaker open where the probe fails in itself, and the next late answer has another", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.answer = "error"
    self.note("noteLateAnswer")
    self.world.run(1)
    assert.same({ true, 1 }, { self.isOpen() })
    self.answer = true
    self.note("noteLateAnswer")
    self.world.run(1)
    assert.equal(2, #self.probes)
    assertClosed(self)
  end)

  it("that finds no timer does not keep the next from a probe", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.answer = true
    withoutTimers(self, function()
      self.note("noteLateAnswer")
    end)
    self.world.run(1)
    assert.same({ true, 1 }, { self.isOpen() })
    self.note("noteLateAnswer")
    self.world.run(1)
    assertClosed(self)
  end)
end)

describe("a probe of an outage that is over", function()
  -- The probe of the pause is under way; a late answer's probe closes the breaker, and a silence opens it again.
  local function openAgain(first)
    local self = breakerWorld()
    self.note("noteSilence")
    self.probeMs, self.answer = 100, first
    self.world.run(64)
    assert.equal(1, #self.probes)
    self.probeMs, self.answer = 0, true
    self.note("noteLateAnswer")
    self.world.run(1)
    assertClosed(self)
    self.answer = false
    self.note("noteSilence")
    assert.same({ true, 1, 2 }, { self.breaker.open, support.openBreakers(self.world), self.breaker.openings })
    return self
  end

  it("does not close the breaker in the next outage, though it is answered", function()
    local self = openAgain(true)
    self.world.run(500)
    assert.same({ true, 1 }, { self.isOpen() })
    self.answer = true
    self.world.run(320)
    assertClosed(self, 2)
  end)

  it("has no other after it, where it is not answered", function()
    local self = openAgain(false)
    self.world.run(110)
    local before = #self.probes
    self.world.run(3000)
    -- One probe in 187 ms at most.
    assert.is_true(#self.probes - before <= 16, tostring(#self.probes - before))
    self.answer = true
    self.world.run(320)
    assertClosed(self, 2)
  end)

  it("of a late answer does not close it either", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.probeMs, self.answer = 200, true
    self.note("noteLateAnswer")
    self.world.run(10)
    self.probeMs = 0
    self.world.run(60)
    assertClosed(self)
    self.answer = false
    self.note("noteSilence")
    self.world.run(200)
    assert.same({ true, 1 }, { self.isOpen() })
  end)

  it("closes nothing a second time", function()
    local self = breakerWorld()
    self.note("noteSilence")
    self.probeMs, self.answer = 100, true
    self.world.run(64)
    self.probeMs = 0
    self.note("noteLateAnswer")
    self.world.run(1)
    assertClosed(self)
    self.world.run(500)
    assertClosed(self)
    assert.equal(1, #self.world.logged("S: it answers again"))
  end)
end)
