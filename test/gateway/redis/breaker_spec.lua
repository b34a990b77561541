-- gateway/src/redis/breaker.ts, and connection.ts where it probes: who is sent nothing, and since when, and until when.

local support = require("test.gateway.virtual.support")
local ask, fixed, policy = support.ask, support.fixed, support.policy

local day = fixed("100000/1d")

local function worldWith(options)
  local world = support.world(support.with({ policies = { policy("a", day, support.denies) } }, options or {}))
  for number = 1, world.workerCount do
    ask(world, "a", 2, { worker = number })
  end
  world.run(100)
  return world
end

local function openAt(world, number)
  return support.openBreakers(world, number) == 1
end

local function breakerOf(world, number)
  local servers = world.workers[number or 1].inner("gateway.src.redis.connection", "servers")
  local _, server = next(servers)
  return server.breaker
end

-- Moments, in ms from now, in which what `isKind` says was sent within so many ms.
local function sentWithin(world, ms, isKind)
  local beganUs, moments = world.clock.nowUs, {}
  local before = world.redis.fate
  world.redis.fate = function(commands, connection)
    if isKind(commands[1]) then
      moments[#moments + 1] = (world.clock.nowUs - beganUs) / 1000
    end
    return before and before(commands, connection)
  end
  world.run(ms)
  world.redis.fate = before
  return moments
end

local function isProbe(words)
  return words[1] == "get" and words[2] == "sluice:probe"
end

describe("a server that is silent for a deadline", function()
  it("is sent nothing more but probes, and nobody waits for it any more", function()
    local world = worldWith()
    world.redis.stop()
    ask(world, "a", 2)
    world.run(230)
    assert.is_true(openAt(world))
    local scripts = sentWithin(world, 500, function(words)
      return words[1] == "evalsha"
    end)
    local requests = ask(world, "a", 50)
    for _, request in ipairs(requests) do
      assert.equal(503, request.status)
      assert.equal(request.beganUs, request.decidedUs)
    end
    assert.same({}, scripts)
  end)

  it("is open at this worker alone: each decides by what it has sent itself", function()
    local world = worldWith({ workers = 2 })
    world.redis.stop()
    ask(world, "a")
    world.run(230)
    assert.same({ true, false }, { openAt(world, 1), openAt(world, 2) })
  end)

  it("decides again as soon as a late reply comes, by a probe that waits for no pause", function()
    local world = worldWith()
    world.redis.stop()
    ask(world, "a", 2)
    world.run(2000)
    assert.is_true(openAt(world))
    world.redis.go()
    world.run(2)
    assert.is_false(openAt(world))
    ask(world, "a")
    world.run(2)
    assert.equal(200, world.requests[#world.requests].status)
  end)

  it("decides again by such a probe also where the next one is not due yet", function()
    local world = worldWith()
    world.redis.downUs = 207000
    ask(world, "a", 2)
    world.run(206)
    assert.is_true(openAt(world))
    world.redis.downUs = 100
    -- The first probe is not due for 37 ms after that.
    world.run(6)
    assert.is_false(openAt(world))
  end)

  it("is probed every 50 to 250 ms, and not by all workers at once", function()
    -- It takes connections and loses what it is sent: no reply comes late.
    local world = worldWith({ workers = 2 })
    world.redis.cutOff()
    ask(world, "a", 2, { worker = 0 })
    world.run(300)
    world.redis.kill()
    world.run(100)
    local refused = {}
    local connect = world.redis.connect
    function world.redis.connect(client)
      refused[#refused + 1] = world.clock.nowUs / 1000
      return connect(client)
    end
    world.run(3000)
    -- Two workers: 250 ms, shorter by a quarter or longer by as much.
    assert.is_true(#refused >= 2 * 3000 / 330 and #refused <= 2 * 3000 / 180, tostring(#refused))
    local gaps = {}
    for i = 2, #refused do
      gaps[#gaps + 1] = refused[i] - refused[i - 1]
    end
    table.sort(gaps)
    -- Never the same: without chance in them, two workers would take turns at the same distance.
    local steps = {}
    for _, gap in ipairs(gaps) do
      steps[math.floor(gap / 10)] = true
    end
    local kinds = 0
    for _ in pairs(steps) do
      kinds = kinds + 1
    end
    assert.is_true(kinds > 5, tostring(kinds))
    assert.is_true(gaps[1] < 125 and gaps[#gaps] > 125, gaps[1] .. " " .. gaps[#gaps])
  end)

  it("stays open while its answers to probes come later than the deadline", function()
    local world = worldWith()
    world.redis.upUs, world.redis.downUs = 130000, 130000
    ask(world, "a")
    world.run(300)
    assert.is_true(openAt(world))
    world.run(3000)
    assert.is_true(openAt(world))
    world.redis.upUs, world.redis.downUs = 60000, 60000
    world.run(900)
    assert.is_false(openAt(world))
  end)
end)

describe("a server that fails at once", function()
  it("is left alone after three failures in a row", function()
    local world = worldWith()
    world.redis.error = "OOM command not allowed when used memory > 'maxmemory'."
    for i = 1, 3 do
      assert.is_false(openAt(world), "before failure " .. i)
      ask(world, "a")
      world.run(5)
    end
    assert.is_true(openAt(world))
  end)

  it("is not left alone where it answers in between", function()
    local world = worldWith()
    for _ = 1, 5 do
      world.redis.error = "OOM command not allowed when used memory > 'maxmemory'."
      ask(world, "a")
      world.run(5)
      ask(world, "a")
      world.run(5)
      world.redis.error = nil
      ask(world, "a")
      world.run(5)
    end
    assert.is_false(openAt(world))
  end)

  it("is asked again within 0.4 s of being well", function()
    for seed = 1, 20 do
      local world = worldWith({ seed = seed })
      world.redis.kill()
      for _ = 1, 5 do
        ask(world, "a")
        world.run(10)
      end
      assert.is_true(openAt(world))
      world.run(2000)
      world.redis.begin(true)
      world.run(400)
      assert.is_false(openAt(world), "seed " .. seed)
      ask(world, "a", 5)
      world.run(5)
      assert.equal(5, world.statuses({ unpack(world.requests, #world.requests - 4) })[200])
    end
  end)

  it("whose kept connections are all dead is probed by a new one", function()
    local world = worldWith()
    -- Peeks are calls of their own: thirty connections are kept.
    world.redis.upUs, world.redis.downUs = 20000, 20000
    local worker = world.workers[1]
    local check = { policy = worker.module("gateway.src.snapshot.current").policiesOf("shop").a, keyValues = "1:k" }
    for _ = 1, 30 do
      worker.call(function()
        worker.module("gateway.src.stores.redis.peek").peekInRedis(check, 0, worker.module("limiter.src.compiled.merged-decision").newMergedDecision())
      end)
    end
    world.run(200)
    assert.is_true(world.redis.made >= 30, tostring(world.redis.made))
    world.redis.upUs, world.redis.downUs = 100, 100
    -- Something between has forgotten all of them: who writes to one hears that it has ended.
    for connection in pairs(world.redis.connections) do
      connection.old = true
    end
    world.redis.fate = function(_, connection)
      return connection.old and { loses = "request" } or nil
    end
    for _ = 1, 3 do
      ask(world, "a")
      world.run(2)
    end
    assert.is_true(openAt(world))
    world.run(100)
    assert.is_false(openAt(world))
  end)
end)

describe("a probe of an outage that is over", function()
  it("does not go on in the next outage, which has its own", function()
    local most = 0
    for seed = 1, 20 do
      local world = worldWith({ seed = seed })
      -- A batch that is released, and whose reply comes a second later.
      world.redis.fate = function(commands)
        return commands[1][1] == "evalsha" and { downUs = 1400000 } or nil
      end
      ask(world, "a", 2)
      world.run(220)
      assert.is_true(openAt(world))
      world.redis.fate = nil
      -- Meanwhile probes are refused, and come ever later.
      world.redis.error = "OOM command not allowed when used memory > 'maxmemory'."
      world.run(1150)
      world.redis.error = nil
      world.run(40)
      local closed = not openAt(world)
      world.redis.error = "OOM command not allowed when used memory > 'maxmemory'."
      for _ = 1, 4 do
        ask(world, "a")
        world.run(2)
      end
      if closed then
        assert.is_true(openAt(world))
        most = math.max(most, #sentWithin(world, 3000, isProbe))
      end
    end
    -- One every 187 ms at most, and three sooner.
    assert.is_true(most > 0 and most <= 3000 / 187 + 3, tostring(most))
  end)
end)

describe("an outage", function()
  it("is told in the log once for all workers, and so is its end", function()
    local world = worldWith({ workers = 3 })
    world.redis.kill()
    for _ = 1, 5 do
      ask(world, "a", 3, { worker = 0 })
      world.run(10)
    end
    world.run(1000)
    world.redis.begin(true)
    world.run(1000)
    assert.equal(1, #world.logged("Redis at 127.0.0.1:6379: it fails"))
    assert.equal(1, #world.logged("Redis at 127.0.0.1:6379: it answers again"))
    for number = 1, 3 do
      assert.is_false(openAt(world, number))
    end
  end)

  it("that begins again while a probe of the one before is under way has one probe of its own", function()
    for seed = 1, 30 do
      local world = worldWith({ seed = seed })
      local random = world.clock.random
      for _ = 1, 6 do
        world.redis.stop()
        ask(world, "a", 2)
        world.run(210 + random() * 150)
        world.redis.go()
        world.run(random() * 8)
      end
      world.redis.stop()
      ask(world, "a", 2)
      world.run(500)
      if openAt(world) then
        local probes = sentWithin(world, 2000, isProbe)
        -- The server is stopped: each probe takes a deadline and a pause of 187 ms at least.
        assert.is_true(#probes <= 7, ("seed %d: %d probes"):format(seed, #probes))
      end
      world.redis.go()
      world.run(1000)
      local breaker = breakerOf(world)
      assert.same({ false, false, 0 }, {
        breaker.open,
        breaker.hurried,
        support.openBreakers(world),
      }, "seed " .. seed)
      support.assertQuiet(world)
    end
  end)
end)
