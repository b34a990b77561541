-- gateway/src/redis/patience.ts by itself: its clock, and what it says of a call at a moment.

local support = require("test.gateway.virtual.support")

-- A worker that waits for nothing but what a spec has it wait for.
local function quietWorld()
  local world = support.world({ redis = false })
  local worker = world.workers[1]
  return world, worker, worker.module("gateway.src.redis.patience")
end

local function never() end

-- How many timers run, besides the one in which a worker always looks for changed policies.
local function runningTimers(worker)
  return worker.runningTimers - 1
end

local function assertSeconds(expected, actual)
  assert.is_true(math.abs(expected - actual) < 0.011, ("%.4f, not %.4f"):format(actual, expected))
end

describe("the patience clock", function()
  it("runs while somebody waits, and for a second more", function()
    local world, worker, patience = quietWorld()
    worker.call(function()
      patience.keepTicking(2)
    end)
    world.run(2500)
    assertSeconds(2.5, patience.patienceSeconds())
    world.run(10000)
    assertSeconds(3, patience.patienceSeconds())
    assert.equal(0, runningTimers(worker))
  end)

  it("goes on where it stood when somebody waits again", function()
    local world, worker, patience = quietWorld()
    for round = 1, 2 do
      worker.call(function()
        patience.keepTicking(0.5)
      end)
      world.run(60000)
      assertSeconds(round * 1.5, patience.patienceSeconds())
    end
  end)

  it("runs in one timer, however many wait", function()
    local world, worker, patience = quietWorld()
    for _ = 1, 5 do
      worker.call(function()
        patience.keepTicking(1)
      end)
      world.run(20)
    end
    assert.equal(1, runningTimers(worker))
    world.run(500)
    assertSeconds(0.6, patience.patienceSeconds())
  end)

  it("is not shortened by somebody who waits for less", function()
    local world, worker, patience = quietWorld()
    worker.call(function()
      patience.keepTicking(3)
      patience.keepTicking(0)
    end)
    world.run(20000)
    assertSeconds(4, patience.patienceSeconds())
  end)

  it("counts 20 ms at most of a time in which the worker itself stood still", function()
    local world, worker, patience = quietWorld()
    worker.call(function()
      patience.keepTicking(5)
    end)
    world.run(100)
    worker.block(1000000)
    world.run(1100)
    assertSeconds(0.22, patience.patienceSeconds())
  end)

  it("takes another timer after ten thousand ticks, because nginx frees memory with a timer", function()
    local world, worker, patience = quietWorld()
    local began = {}
    local at = worker.ngx.timer.at
    local tick = worker.inner("gateway.src.redis.patience", "tick")
    -- The task that a timer begins is in a variable of the work that the timer guards.
    local function taskOf(callback)
      local _, work = debug.getupvalue(callback, 1)
      local _, task = debug.getupvalue(type(work) == "function" and work or callback, 1)
      return type(task) == "table" and task or {}
    end
    worker.ngx.timer.at = function(seconds, callback)
      if taskOf(callback).work == tick then
        began[#began + 1] = world.clock.nowUs
      end
      return at(seconds, callback)
    end
    local beganUs = world.clock.nowUs
    worker.call(function()
      patience.keepTicking(60)
    end)
    world.run(70000)
    assertSeconds(61, patience.patienceSeconds())
    assert.equal(2, #began)
    assert.equal(10000, math.floor((began[2] - beganUs) / 5000 + 0.5))
  end)

  it("that finds no timer is started by the next who waits, and the log tells", function()
    local world, worker, patience = quietWorld()
    local at = worker.ngx.timer.at
    worker.ngx.timer.at = function()
      return nil, "too many pending timers"
    end
    worker.call(function()
      patience.keepTicking(1)
    end)
    worker.ngx.timer.at = at
    world.run(500)
    assert.equal(0, patience.patienceSeconds())
    assert.equal(1, #world.logged("the timer of its clock could not start: too many pending timers"))
    worker.call(function()
      patience.keepTicking(1)
      patience.keepTicking(1)
    end)
    world.run(500)
    assertSeconds(0.5, patience.patienceSeconds())
    assert.equal(1, runningTimers(worker))
    assert.equal(1, #world.logged("the timer of its clock could not start"))
  end)

  it("runs as long as a watched call is under way", function()
    local world, worker, patience = quietWorld()
    local watched
    worker.call(function()
      watched = patience.watchedPatience(200, never)
      patience.keepTicking(0)
    end)
    world.run(5000)
    assertSeconds(5, patience.patienceSeconds())
    patience.endWatch(watched)
    world.run(5000)
    assertSeconds(5, patience.patienceSeconds())
  end)

  it("ends with its worker, but for a reply that is being read", function()
    local world, worker, patience = quietWorld()
    worker.exiting = true
    worker.call(function()
      patience.keepTicking(0.5)
    end)
    world.run(2000)
    assertSeconds(0, patience.patienceSeconds())
    worker.call(function()
      patience.countReading(1)
      patience.keepTicking(0.5)
    end)
    world.run(5000)
    assertSeconds(0.5, patience.patienceSeconds())
    worker.call(function()
      patience.countReading(-1)
      patience.countReading(-1)
      patience.countReading(1)
      patience.keepTicking(0.2)
    end)
    world.run(100)
    patience.countReading(-1)
    world.run(1000)
    assertSeconds(0.6, patience.patienceSeconds())
  end)
end)

describe("a call", function()
  it("takes five deadlines at most, or what it is told", function()
    local _, _, patience = quietWorld()
    assert.equal(1000, patience.longestWaitMs(200))
    assert.equal(1, patience.newPatience(200).limitSeconds)
    assert.equal(0.3, patience.newPatience(200, 300).limitSeconds)
    assert.equal(0.2, patience.newPatience(200, 300).silenceSeconds)
  end)

  it("hears no silence from before it began to wait, nor after it has ended", function()
    local world, worker, patience = quietWorld()
    local server = { answeredAtSeconds = 0 }
    local call
    worker.call(function()
      call = patience.newPatience(200)
      patience.keepTicking(5)
    end)
    world.run(400)
    assert.is_false(patience.isSilent(call))
    worker.call(function()
      patience.beginWaiting(call, server)
    end)
    assert.is_false(patience.isSilent(call))
    world.run(190)
    assert.is_false(patience.isSilent(call))
    world.run(20)
    assert.is_true(patience.isSilent(call))
    patience.endWaiting(call)
    assert.is_false(patience.isSilent(call))
  end)

  it("is silent from the very moment of the deadline, counted from the last answer to anybody", function()
    local _, _, patience = quietWorld()
    local call = patience.newPatience(200)
    call.server = { answeredAtSeconds = -9 }
    call.sinceSeconds = -0.2
    assert.is_true(patience.isSilent(call))
    call.sinceSeconds = -0.199
    assert.is_false(patience.isSilent(call))
    call.sinceSeconds = -5
    assert.is_true(patience.isSilent(call))
    call.server.answeredAtSeconds = -0.1
    assert.is_false(patience.isSilent(call))
  end)

  it("looks again when the server would be silent or its own time would be over, within half a second", function()
    local _, _, patience = quietWorld()
    local function pauseMs(deadlineMs, limitMs, fields)
      local call = patience.newPatience(deadlineMs, limitMs)
      call.server = { answeredAtSeconds = 0 }
      for name, value in pairs(fields or {}) do
        call[name] = value
      end
      return patience.pauseMs(call)
    end
    assert.equal(200, pauseMs(200))
    assert.equal(50, pauseMs(200, 50))
    assert.equal(500, pauseMs(2000))
    assert.equal(1, pauseMs(200, nil, { sinceSeconds = -0.3, server = { answeredAtSeconds = -1 } }))
    assert.equal(1, pauseMs(200, nil, { released = true }))
    assert.equal(151, pauseMs(200, nil, { sinceSeconds = -0.0499, server = { answeredAtSeconds = -1 } }))
    -- One that waits for no server, and one whose requests wait elsewhere.
    local none = patience.newPatience(200)
    assert.equal(500, patience.pauseMs(none))
    local watched = patience.newPatience(200, nil, never)
    assert.equal(500, patience.pauseMs(watched))
    watched.server = { answeredAtSeconds = 0 }
    assert.equal(500, patience.pauseMs(watched))
  end)

  it("is given up at the end of its time, at silence, or after five times as long by the stopwatch", function()
    local _, _, patience = quietWorld()
    local call = patience.newPatience(200)
    assert.is_false(patience.isGivenUp(call, 0))
    assert.is_false(patience.isGivenUp(call, 4.999))
    assert.is_true(patience.isGivenUp(call, 5))
    call.beganAtSeconds = -1
    assert.is_true(patience.isGivenUp(call, 0))
    call.beganAtSeconds = -0.999
    assert.is_false(patience.isGivenUp(call, 0))
    call.server, call.sinceSeconds = { answeredAtSeconds = -9 }, -0.2
    assert.is_true(patience.isGivenUp(call, 0))
    call.server = nil
    assert.is_false(patience.isGivenUp(call, 0))
    call.released = true
    assert.equal(0, patience.leftSeconds(call))
    assert.is_true(patience.isGivenUp(call, 0))
  end)

  it("whose requests wait elsewhere is read for ten seconds, or until its worker ends and nobody waits", function()
    local _, worker, patience = quietWorld()
    local call = patience.newPatience(200, nil, never)
    call.server, call.sinceSeconds = { answeredAtSeconds = -9 }, -9
    assert.is_false(patience.isGivenUp(call, 9.999))
    assert.is_true(patience.isGivenUp(call, 10))
    call.released = true
    assert.is_false(patience.isGivenUp(call, 9.999))
    worker.exiting = true
    assert.is_true(patience.isGivenUp(call, 0))
    call.released = false
    assert.is_false(patience.isGivenUp(call, 0))
  end)
end)

describe("calls whose requests wait elsewhere", function()
  -- Calls by name, each with a server of its own; `released` counts who was released.
  local function watchedWorld()
    local world, worker, patience = quietWorld()
    local self = { world = world, patience = patience, released = {}, calls = {}, servers = {} }
    function self.watch(name, serverName)
      worker.call(function()
        local server = self.servers[serverName] or { answeredAtSeconds = patience.patienceSeconds() }
        self.servers[serverName] = server
        self.calls[name] = patience.watchedPatience(200, function()
          self.released[name] = (self.released[name] or 0) + 1
        end)
        patience.beginWaiting(self.calls[name], server)
      end)
    end
    return self
  end

  it("are released once, all that wait for the silent server, and no other", function()
    local self = watchedWorld()
    self.watch("a1", "a")
    self.world.run(100)
    self.watch("b", "b")
    self.watch("a2", "a")
    self.world.run(90)
    assert.same({}, self.released)
    self.world.run(20)
    assert.same({ a1 = 1, a2 = 1 }, self.released)
    assert.is_true(self.calls.a1.released and self.calls.a2.released)
    self.world.run(60)
    assert.same({ a1 = 1, a2 = 1 }, self.released)
    self.world.run(60)
    assert.same({ a1 = 1, a2 = 1, b = 1 }, self.released)
    self.world.run(2000)
    assert.same({ a1 = 1, a2 = 1, b = 1 }, self.released)
    assert.same({}, self.world.log)
  end)

  it("are not released after their end, and the others are", function()
    local self = watchedWorld()
    self.watch("a", "a")
    self.watch("b", "b")
    self.watch("c", "c")
    self.patience.endWatch(self.calls.b)
    self.patience.endWatch(self.calls.b)
    self.world.run(300)
    assert.same({ a = 1, c = 1 }, self.released)
    self.patience.endWatch(self.calls.a)
    self.patience.endWatch(self.calls.c)
    self.world.run(5000)
    assert.equal(0, runningTimers(self.world.workers[1]))
  end)

  it("are all released though the release of one fails, and the log tells", function()
    local self = watchedWorld()
    self.watch("a1", "a")
    self.calls.a1.onSilence = function()
      error("a defect")
    end
    self.watch("a2", "a")
    self.world.run(300)
    assert.same({ a2 = 1 }, self.released)
    local lines = self.world.logged("requests were not released from a silent Redis")
    assert.equal(1, #lines)
    assert.is_truthy(lines[1].text:find("a defect", 1, true))
  end)
end)
