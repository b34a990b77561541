-- gateway/src/redis/patience.ts and patient-socket.ts: how long a request waits for Redis, and by which clock.

local support = require("test.gateway.virtual.support")
local ask, fixed, policy = support.ask, support.fixed, support.policy

local day = fixed("100000/1d")

local function waitedUs(request)
  return request.decidedUs - request.beganUs
end

-- A world in which the requests of key "slow" are answered after so long, and others at once. Others come all the time if `busy`.
local function slowWorld(slowUs, busy)
  local world = support.world({ policies = { policy("a", day, support.denies) } })
  world.redis.fate = function(commands)
    for _, word in ipairs(commands[1]) do
      if word:find(":slow}", 1, true) then
        return { upUs = slowUs }
      end
    end
  end
  if busy then
    for i = 1, 60 do
      world.at(i * 50 + 10, function()
        ask(world, "a", 1, { key = "other" })
      end)
    end
  end
  return world
end

-- Cuts what arrives on new connections. `cut(length)` returns how many bytes come at once, and after how many µs the others
-- follow; nil: all come at once.
local function cutReplies(world, cut)
  local connect = world.redis.connect
  world.redis.closeAll()
  function world.redis.connect(client)
    connect(client)
    local arrived = client.arrived
    function client.arrived()
      local text = client.received
      local first, laterUs = nil, nil
      if text ~= "" and not client.ended then
        first, laterUs = cut(#text)
      end
      if first == nil then
        return arrived()
      end
      client.received = text:sub(1, first)
      if first > 0 then
        arrived()
      end
      world.clock.at(world.clock.nowUs + laterUs, function()
        client.received = client.received .. text:sub(first + 1)
        arrived()
      end)
    end
  end
end

describe("a request whose reply takes longer than the deadline", function()
  it("waits for it while Redis answers others", function()
    local world = slowWorld(600000, true)
    local request = ask(world, "a", 1, { key = "slow" })[1]
    world.run(1000)
    assert.equal(200, request.status)
    assert.is_true(waitedUs(request) >= 600000)
  end)

  it("does not wait for it while Redis answers nobody", function()
    local world = slowWorld(600000, false)
    local request = ask(world, "a", 1, { key = "slow" })[1]
    world.run(1000)
    assert.equal(503, request.status)
    assert.is_true(waitedUs(request) >= 199000 and waitedUs(request) <= 226000, tostring(waitedUs(request)))
  end)

  it("waits five deadlines at most, whatever Redis does", function()
    local world = slowWorld(2500000, true)
    local request = ask(world, "a", 1, { key = "slow" })[1]
    world.run(1500)
    assert.equal(503, request.status)
    assert.is_true(waitedUs(request) > 950000 and waitedUs(request) <= 1026000, tostring(waitedUs(request)))
    world.run(3000)
    support.assertQuiet(world)
  end)
end)

describe("a new connection", function()
  it("has a deadline for each step: neither alone is silence", function()
    local world = support.world({ policies = { policy("a", day, support.denies) }, redis = { password = "p" } })
    world.redis.closeAll()
    world.run(10)
    world.redis.connectUs = 150000
    world.redis.upUs, world.redis.downUs = 75000, 75000
    local request = ask(world, "a")[1]
    world.run(1000)
    assert.equal(200, request.status)
    assert.is_true(waitedUs(request) > 440000, tostring(waitedUs(request)))
  end)

  local function waitForNoConnection()
    local world = support.world({ policies = { policy("a", day, support.denies) } })
    world.redis.closeAll()
    world.run(10)
    world.redis.cutOff()
    local request = ask(world, "a")[1]
    world.run(1500)
    assert.equal(503, request.status)
    support.assertQuiet(world)
    return waitedUs(request)
  end

  it("that does not come about ends with the request undecided", function()
    assert.is_true(waitForNoConnection() <= 426000)
  end)

  -- The patience clock is up to a tick behind nginx's own: it may not be silence yet when the first try has ended.
  it("that does not come about is waited for no longer than a deadline", function()
    local us = waitForNoConnection()
    assert.is_true(us <= 226000, tostring(us))
  end)

  it("is waited for while the worker itself was late", function()
    for seed = 1, 20 do
      local world = support.world({ seed = seed, policies = { policy("a", day, support.denies) } })
      world.redis.closeAll()
      world.run(10)
      world.redis.connectUs = 5000
      local request = ask(world, "a")[1]
      world.run(1)
      world.workers[1].block(500000)
      world.run(1000)
      assert.equal(200, request.status, "seed " .. seed)
    end
  end)
end)

describe("a reply", function()
  it("that comes in pieces is put together, wherever nginx' own time for a read ends", function()
    for seed = 1, 30 do
      local world = support.world({ seed = seed, policies = { policy("a", fixed("9/1d"), support.denies) } })
      -- What arrives is cut anywhere, and the rest follows up to 150 ms later.
      cutReplies(world, function(length)
        return world.clock.random(0, length), world.clock.random(0, 150000)
      end)
      world.run(10)
      ask(world, "a", 1)
      world.run(700)
      ask(world, "a", 1)
      world.run(1000)
      assert.same({ [200] = 2 }, world.statuses(), "seed " .. seed)
    end
  end)
end)

describe("a reply that nginx' own clock has given up", function()
  -- Its second half comes so many ms after the first; the worker stands still from 10 ms on, for 220 ms.
  local function inHalves(ms, seed)
    local world = support.world({ seed = seed, policies = { policy("a", day, support.denies) } })
    cutReplies(world, function(length)
      if length >= 40 then
        return 20, ms * 1000
      end
    end)
    world.run(10)
    local request = ask(world, "a")[1]
    world.run(10)
    world.workers[1].block(220000)
    world.run(1000)
    return request
  end

  it("is read on from where it was, also when its rest came while the worker stood still", function()
    for seed = 1, 10 do
      for _, ms in ipairs({ 150, 245 }) do
        assert.equal(200, inHalves(ms, seed).status, ("%d ms, seed %d"):format(ms, seed))
      end
    end
  end)

  it("and that lies in the socket is read before anybody gives up", function()
    for seed = 1, 40 do
      local world = support.world({ seed = seed, policies = { policy("a", day, support.denies) } })
      ask(world, "a")
      world.run(10)
      world.redis.downUs = 190000
      local request = ask(world, "a")[1]
      world.run(185)
      -- The last ms of its patience: the worker goes on when the reply has come, and the time of the patience clock is over too.
      world.workers[1].block(19000)
      world.run(500)
      assert.equal(200, request.status, "seed " .. seed)
    end
  end)
end)

describe("the patience clock", function()
  it("stands when nobody has waited for a while", function()
    local world = support.world({ policies = { policy("a", day) } })
    ask(world, "a", 3)
    world.run(2500)
    local worker = world.workers[1]
    local patience = worker.module("gateway.src.redis.patience")
    local before = patience.patienceSeconds()
    world.run(900)
    -- The epoch is read each second where refusals are remembered; here none is.
    assert.equal(before, patience.patienceSeconds())
    assert.is_false(worker.inner("gateway.src.redis.patience", "ticking"))
    assert.equal(0, worker.inner("gateway.src.redis.patience", "reading"))
    assert.same({}, worker.inner("gateway.src.redis.patience", "watched"))
  end)

  it("counts no more than 20 ms of any time that the worker stood still", function()
    local world = slowWorld(10000000, false)
    local request = ask(world, "a", 1, { key = "slow" })[1]
    world.run(20)
    world.workers[1].block(150000)
    world.run(1000)
    assert.equal(503, request.status)
    assert.is_true(waitedUs(request) >= 200000 + 129000, tostring(waitedUs(request)))
  end)
end)

describe("a worker that is to end", function()
  it("does not wait for a reply longer than its requests do", function()
    local world = support.world({ policies = { policy("a", day, support.denies) } })
    world.redis.stop()
    ask(world, "a", 10)
    world.run(5)
    world.workers[1].quit()
    world.run(1500)
    assert.same({ [503] = 10 }, world.statuses())
    assert.is_true(world.workers[1].gone)
  end)
end)
