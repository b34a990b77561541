-- gateway/src/request/request-state.ts, runtime/request-life.ts and charging/held-slots.ts: what a request leaves for its end, with and
-- without its log phase.

local support = require("test.gateway.virtual.support")
local ask, policy = support.ask, support.policy

local slots = { algorithm = "concurrency", quota = 2, ttl = "2s" }

local function worldWith(scope, options)
  return support.world(support.with({ policies = { policy("a", slots, { scope = scope }) } }, options or {}))
end

for _, scope in ipairs({ "node", "cluster" }) do
  describe("slots of scope " .. scope, function()
    it("are held while requests run, longer than a slot lives, and come back with their end", function()
      local world = worldWith(scope)
      local holders = ask(world, "a", 2, { serviceUs = -1 })
      for _ = 1, 12 do
        world.run(500)
        assert.equal(429, (function()
          local request = ask(world, "a")[1]
          world.run(5)
          return request.status
        end)())
      end
      for _, holder in ipairs(holders) do
        holder.finish()
      end
      world.run(20)
      local requests = ask(world, "a", 2)
      world.run(20)
      assert.same({ [200] = 2 }, world.statuses(requests))
      support.assertQuiet(world)
    end)

    it("come back without the log phase when their requests have ended, and not before", function()
      local world = worldWith(scope, { log = false })
      local holders = ask(world, "a", 2, { serviceUs = -1 })
      world.run(3500)
      assert.same({ [200] = 2 }, world.statuses(holders))
      local early = ask(world, "a")[1]
      world.run(10)
      assert.equal(429, early.status)
      holders[1].finish()
      holders[2].finish()
      world.run(150)
      local requests = ask(world, "a", 2, { serviceUs = 100 })
      world.run(150)
      assert.same({ [200] = 2 }, world.statuses(requests))
      assert.equal(1, #world.logged("a request ended without sluice.log()"))
      world.run(200)
      support.assertQuiet(world)
    end)

    it("come back without the log phase also where the next request has the same address", function()
      local world = worldWith(scope, { log = false })
      local count = 0
      for _ = 1, 30 do
        local request = ask(world, "a", 1, { serviceUs = 100 })[1]
        world.run(3)
        count = count + (request.passed and 1 or 0)
      end
      -- Two of them at least, and as many more as the address of an ended request was met again, or a look found its end.
      assert.is_true(count >= 20, tostring(count))
      world.run(300)
      support.assertQuiet(world)
    end)

    it("of a worker that is killed come back after their time to live", function()
      local world = worldWith(scope, { workers = 2 })
      ask(world, "a", 2, { serviceUs = -1 })
      world.run(100)
      world.workers[1].kill()
      world.run(1000)
      local early = ask(world, "a", 1, { worker = 2 })
      world.run(10)
      world.run(1300)
      local late = ask(world, "a", 2, { worker = 2 })
      world.run(10)
      assert.same({ { [429] = 1 }, { [200] = 2 } }, { world.statuses(early), world.statuses(late) })
    end)

    it("are renewed by a worker that is to end, until its last request has ended: with and without the log phase", function()
      for _, log in ipairs({ true, false }) do
        local world = worldWith(scope, { workers = 2, log = log })
        local holders = ask(world, "a", 2, { serviceUs = -1 })
        world.run(100)
        world.workers[1].quit()
        world.run(4000)
        local early = ask(world, "a", 1, { worker = 2 })[1]
        world.run(10)
        assert.equal(429, early.status)
        assert.is_false(world.workers[1].gone)
        for _, holder in ipairs(holders) do
          holder.finish()
        end
        world.run(500)
        assert.is_true(world.workers[1].gone)
        local late = ask(world, "a", 2, { worker = 2 })
        world.run(10)
        assert.same({ [200] = 2 }, world.statuses(late))
      end
    end)

    it("come back whenever their clients leave, also while they are renewed", function()
      for seed = 1, 25 do
        local world = worldWith(scope, { seed = seed, redis = { upUs = 20000, downUs = 20000 }, interruptions = 0.05 })
        local random = world.clock.random
        for _ = 1, 10 do
          for _, request in ipairs(ask(world, "a", 3, { serviceUs = random(1000, 1500000) })) do
            if random() < 0.5 then
              world.clock.at(world.clock.nowUs + random(0, 1000000), request.abort)
            end
          end
          world.run(random(1, 500))
        end
        world.run(2000)
        local requests = ask(world, "a", 3)
        world.run(200)
        assert.same({ [200] = 2, [429] = 1 }, world.statuses(requests), "seed " .. seed)
        assert.equal(0, world.workers[1].inner("gateway.src.charging.held-slots", "holdCount"))
        support.assertQuiet(world)
      end
    end)
  end)
end

describe("what modules keep for a request", function()
  local function field(worker, ended)
    return worker.module("gateway.src.request.request-state").newRequestField(function(value, inLogPhase)
      ended[#ended + 1] = { value, inLogPhase }
    end)
  end

  -- Requests that have nothing else to leave, and a policy in whose place something is kept.
  local function keepDuringAccess(world, kept)
    local worker = world.workers[1]
    local state = worker.module("gateway.src.request.request-state")
    local access = worker.sluice.access
    worker.sluice.access = function()
      kept(state)
      access()
    end
  end

  it("ends once, in the order in which fields were made, in the log phase", function()
    local world = support.world({ policies = {}, redis = false })
    local ended = {}
    local one, other = field(world.workers[1], ended), field(world.workers[1], ended)
    keepDuringAccess(world, function(state)
      state.keepForRequest(other, "second")
      state.keepForRequest(one, "first")
    end)
    ask(world, "a")
    world.run(500)
    assert.same({ { "first", true }, { "second", true } }, ended)
    support.assertQuiet(world)
  end)

  it("does not keep the others from their end where one fails", function()
    local world = support.world({ policies = {}, redis = false })
    local ended = {}
    local worker = world.workers[1]
    local failing = worker.module("gateway.src.request.request-state").newRequestField(function()
      error("no")
    end)
    local one = field(worker, ended)
    keepDuringAccess(world, function(state)
      state.keepForRequest(failing, 1)
      state.keepForRequest(one, "kept")
    end)
    ask(world, "a")
    world.run(500)
    assert.same({ { "kept", true } }, ended)
    assert.equal(1, #world.logged("cleanup at the end of a request failed"))
    assert.same({}, worker.states())
  end)

  it("is taken back by whoever kept it, and ends no more", function()
    local world = support.world({ policies = {}, redis = false })
    local ended = {}
    local one = field(world.workers[1], ended)
    local taken
    keepDuringAccess(world, function(state)
      state.keepForRequest(one, "kept")
      taken = state.takeFromRequest(one)
    end)
    ask(world, "a")
    world.run(500)
    assert.same({ "kept", {} }, { taken, ended })
    support.assertQuiet(world)
  end)

  it("is nobody else's, though a thousand requests come and go at few addresses, with and without the log phase", function()
    for _, log in ipairs({ true, false }) do
      local world = support.world({ policies = {}, redis = false, log = log })
      local ended, live = {}, 0
      local worker = world.workers[1]
      local state = worker.module("gateway.src.request.request-state")
      local one = state.newRequestField(function(value)
        assert.is_nil(ended[value], "ends once")
        ended[value] = true
        live = live - 1
      end)
      local number = 0
      keepDuringAccess(world, function()
        assert.is_nil(state.ofRequest(one))
        number = number + 1
        state.keepForRequest(one, number)
        live = live + 1
        assert.equal(number, state.ofRequest(one))
      end)
      for _ = 1, 1000 do
        local request = ask(world, "a", 1, { serviceUs = world.clock.random(0, 20000) })[1]
        if world.clock.random() < 0.2 then
          world.at(world.clock.random() * 10, request.abort)
        end
        world.run(1)
      end
      world.run(300)
      assert.equal(1000, number)
      assert.equal(0, live)
      support.assertQuiet(world)
    end
  end)

  it("lives through internal redirects, which take ngx.ctx away", function()
    local cheaper = policy("full", { algorithm = "concurrency", quota = 1, ttl = "2s" }, {
      scope = "node",
      onLimit = { action = "degrade", uri = "/a" },
    })
    for _, log in ipairs({ true, false }) do
      local world = support.world({ policies = { cheaper, policy("a", slots, { scope = "node" }) }, log = log })
      local holder = ask(world, "full", 1, { serviceUs = -1 })[1]
      local moved = ask(world, "full", 1, { serviceUs = 50000 })[1]
      world.run(10)
      assert.same({ true, true, "/a" }, { holder.passed, moved.passed, moved.variables.uri })
      world.run(3000)
      local again = ask(world, "full", 1)[1]
      world.run(10)
      assert.equal("/a", again.variables.uri)
      holder.finish()
      world.run(300)
      local first = ask(world, "full", 1)[1]
      world.run(300)
      assert.equal("/full", first.variables.uri)
      support.assertQuiet(world)
    end
  end)
end)

describe("without sluice.log(), a request that was sent to a cheaper path", function()
  local function once(name, more)
    return policy(name, { algorithm = "fixed-window", quota = 1, window = "366d" }, support.with({ scope = "node" }, more or {}))
  end

  it("counts once where it arrives, and lets no later request pass undecided", function()
    local cheap = { limits = { { algorithm = "fixed-window", quota = 51, window = "366d" } } }
    for seed = 1, 5 do
      local world = support.world({
        seed = seed,
        redis = false,
        log = false,
        policies = { once("full", { onLimit = { action = "degrade", uri = "/cheap" } }), once("cheap", cheap), once("other") },
      })
      -- The path that the request came to, or the status that it was refused with.
      local function answerOf(name)
        -- What the operator's own configuration sends to a path has a limit there.
        local request = world.workers[1].request({ uri = "/" .. name, variables = { http_x_key = "k" }, serviceUs = 0, internal = name == "other" })
        world.run(world.clock.random(1, 10))
        return request.passed and request.variables.uri or request.status
      end
      assert.same({ "/full", "/cheap", "/other" }, { answerOf("full"), answerOf("cheap"), answerOf("other") })
      -- nginx gives a request the memory of one that has ended, and with it the address.
      for i = 1, 50 do
        assert.equal("/cheap", answerOf("full"), ("seed %d, %d"):format(seed, i))
        assert.equal(429, answerOf("other"), ("seed %d, after %d that were sent elsewhere"):format(seed, i))
      end
      assert.same({ 429, 429 }, { answerOf("full"), answerOf("cheap") })
      world.run(500)
      assert.equal(1, #world.logged("a request ended without sluice.log()"))
      support.assertQuiet(world)
    end
  end)
end)

describe("without sluice.log(), all workers of an nginx that is to end", function()
  it("end when their last request has", function()
    for _, scope in ipairs({ "node", "cluster" }) do
      local world = worldWith(scope, { workers = 2, log = false })
      local holders = ask(world, "a", 2, { worker = 0, serviceUs = -1 })
      world.run(100)
      for _, worker in ipairs(world.workers) do
        worker.quit()
      end
      holders[1].finish()
      world.run(4000)
      assert.same({ true, false }, { world.workers[1].gone, world.workers[2].gone })
      holders[2].finish()
      world.run(500)
      assert.is_true(world.workers[2].gone)
    end
  end)
end)
